"""Settle: which step finds out what became of an unknown send, and when it is due.

Each step is a function of how long ago the unknown call began, so a worker that comes late takes
the step that is right by then. A lookup that shows nothing proves nothing: only what is found
settles a send. At the deadline a person decides, or the sender's mode.
"""

from collections.abc import Sequence
from dataclasses import dataclass

from mailonce.core.sends.sender import SendMode

# After the beginning of the call; for providers with a key of their own, and with a lookup.
REPEAT_AT_S = (5, 20, 60, 240, 900, 3_600)
LOOK_UP_AT_S = (30, 120, 600, 1_800)
# How long webhooks are waited for before a person is asked.
SETTLE_S = 86_400
# Steps are seldom in time to the second: one that comes this much early counts as that step.
EARLY_S = 1.0


@dataclass(frozen=True, slots=True)
class RepeatCall:
    """Make the same call again, under the provider's own key."""


@dataclass(frozen=True, slots=True)
class LookUp:
    """Ask the provider whether it has the mail."""


@dataclass(frozen=True, slots=True)
class AwaitEvents:
    """Do nothing: a webhook may still tell."""


@dataclass(frozen=True, slots=True)
class AskPerson:
    """Nothing more happens by itself."""


@dataclass(frozen=True, slots=True)
class SendAgain:
    """Send it once more, marked: the sender's mode allows a second mail."""


SettleStep = RepeatCall | LookUp | AwaitEvents | AskPerson | SendAgain


@dataclass(frozen=True, slots=True, kw_only=True)
class SettleRule:
    """The ways to settle that a sender has."""

    # For how long the provider's own key may be used again; None where it has none.
    safe_s: float | None = None
    has_lookup: bool = False
    mode: SendMode = SendMode.AT_MOST_ONCE
    settle_s: float = SETTLE_S

    def step(self, elapsed_s: float) -> SettleStep:
        """Say what to do so long after the unknown call began.

        A negative time means that a clock was set back: then nobody knows how old the key is.
        """
        if elapsed_s + EARLY_S >= self.settle_s:
            return SendAgain() if self.mode is SendMode.AT_LEAST_ONCE else AskPerson()
        repeat_s = _latest(REPEAT_AT_S, elapsed_s) if self.repeat_left_s(elapsed_s) > 0 else None
        look_up_s = _latest(LOOK_UP_AT_S, elapsed_s) if self.has_lookup else None
        # Of both, the one whose time came last: a provider may say of a repeated call no more than
        # that it knows the key, and a lookup shows no mail that never left.
        if repeat_s is not None and (look_up_s is None or repeat_s > look_up_s):
            return RepeatCall()
        return AwaitEvents() if look_up_s is None else LookUp()

    def next_in_s(self, elapsed_s: float) -> float:
        """Say in how many seconds the next step is due."""
        elapsed_s = max(0.0, elapsed_s)
        times = [self.settle_s]
        if self.safe_s is not None:
            times += [at for at in REPEAT_AT_S if at < self.safe_s]
        if self.has_lookup:
            times += LOOK_UP_AT_S
        later = (at for at in times if elapsed_s + EARLY_S < at <= self.settle_s)
        return min(later, default=elapsed_s) - elapsed_s

    def repeat_left_s(self, elapsed_s: float) -> float:
        """Say for how long a call may still be repeated; 0 where it may not."""
        if self.safe_s is None or elapsed_s < 0:
            return 0.0
        return max(0.0, self.safe_s - elapsed_s)


def _latest(times_s: Sequence[float], elapsed_s: float) -> float | None:
    """Give the latest of these times that has come."""
    return max((at for at in times_s if at <= elapsed_s + EARLY_S), default=None)
