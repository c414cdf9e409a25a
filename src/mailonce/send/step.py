"""A step of a send: what it is given, and what it tells the worker about its sender."""

from collections.abc import Callable
from dataclasses import dataclass
from typing import Protocol

from msgspec import structs

from mailonce.clock import Clock
from mailonce.core.ids import public
from mailonce.core.sends.send_decision import SendCall, SendChange, SendRule
from mailonce.core.sends.send_key import uuid_text
from mailonce.core.sends.send_lifecycle import work_state
from mailonce.core.sends.sender import Sender
from mailonce.core.sends.sending import (
    Accepted,
    Correlation,
    Fault,
    Frozen,
    LookupOutcome,
    NotSent,
    SendFacts,
    Sending,
    SendOutcome,
    TryAgain,
    Unknown,
)
from mailonce.core.text import storable
from mailonce.core.work.job import AttemptOutcome, LeasedJob
from mailonce.core.work.states import State
from mailonce.send.flight_book import FlightBook
from mailonce.send.pauses import PauseWatch
from mailonce.store.sends.flights import SendJob, SendStep

ERROR_CHARS_MAX = 300

# Says whether there is still time to begin; asked right before the byte that cannot be undone.
MayBegin = Callable[[], bool]


class ProviderCaller(Protocol):
    """Makes calls to providers; nothing is repeated."""

    async def transmit(
        self, request: Frozen, sender: Sender, sending: Sending, *, may_begin: MayBegin
    ) -> SendOutcome:
        """Make a call, once; `may_begin` is asked right before its first byte."""

    async def look_up(
        self, correlation: Correlation, sender: Sender, sending: Sending, facts: SendFacts
    ) -> LookupOutcome | None:
        """Ask a provider for a mail; None where it cannot be asked."""


@dataclass(frozen=True, slots=True, kw_only=True)
class SendParts:
    """The parts that the steps of sends need."""

    clock: Clock
    pauses: PauseWatch
    book: FlightBook
    caller: ProviderCaller
    # How a sender tries and settles.
    rule_of: Callable[[Sender], SendRule]
    # Tells the worker that something is due for a sender.
    wake: Callable[[str], None]
    # The link by which a recipient unsubscribes; None where there is none.
    link_of: Callable[[SendJob], str | None]


@dataclass(frozen=True, slots=True)
class StepCase:
    """One step: whose turn it is, and by whose rules."""

    parts: SendParts
    sender: Sender
    sending: Sending
    job: LeasedJob
    send: SendJob
    # By the database's clock, when the step began.
    now_ms: int

    @property
    def rule(self) -> SendRule:
        return self.parts.rule_of(self.sender)

    @property
    def correlation(self) -> Correlation:
        send = public("snd", self.send.id)
        return Correlation(send, self.job.attempt, uuid_text(self.send.key))

    @property
    def elapsed_s(self) -> float:
        """How long ago the call began whose outcome is unknown."""
        began_ms = self.send.flight_ms
        return 0.0 if began_ms is None else (self.now_ms - began_ms) / 1000

    def call(self, *, took_s: float = 0.0) -> SendCall:
        """Say how things stand for a decision after a step that took so long."""
        return SendCall(
            attempt=self.job.attempt,
            elapsed_s=self.elapsed_s + took_s,
            left_ms=self.send.deadline_ms - self.now_ms - int(took_s * 1000),
            dice=int.from_bytes(self.parts.clock.chance(2), "big") / 65_535,
        )

    def note(self, step: str, outcome: SendOutcome | LookupOutcome, *, took_s: float) -> SendStep:
        """Write a step down, without addresses or words of the mail."""
        reason = getattr(outcome, "reason", None) or getattr(outcome, "evidence", None)
        message_id = getattr(outcome, "message_id", None)
        return SendStep(
            send=self.send.key,
            attempt=self.job.attempt,
            at_ms=self.now_ms,
            latency_ms=int(took_s * 1000),
            status=None,
            error=None if reason is None else storable(reason, chars_max=ERROR_CHARS_MAX),
            step=step,
            outcome=WORDS[type(outcome).__name__],
            sender=self.sender.id,
            message_id=None if message_id is None else storable(message_id, chars_max=500),
        )


# How the outcomes of steps are named to users.
WORDS = {
    "Accepted": "accepted",
    "NotSent": "not_sent",
    "TryAgain": "try_again",
    "Unknown": "unknown",
    "Found": "found",
    "NotFound": "not_found",
}
CALL, REPEAT, LOOKUP = "call", "repeat", "lookup"


def health_of(outcome: SendOutcome) -> AttemptOutcome:
    """Tell the worker what a call says of its sender: the breaker, and pauses, go by that."""
    match outcome:
        case Accepted():
            return AttemptOutcome(status=200, end="accepted")
        case NotSent(fault=Fault.MESSAGE):
            return AttemptOutcome(status=422, end="refused")
        case NotSent(reason=reason):
            return AttemptOutcome(error=reason, end="refused")
        case TryAgain(reason=reason, retry_after_ms=wait_ms):
            return AttemptOutcome(error=reason, end="retry", pause_ms=wait_ms)
        case Unknown(reason=reason):
            return AttemptOutcome(error=reason, end="unknown")


def no_news(end: str) -> AttemptOutcome:
    """Tell the worker that a step says nothing of its sender."""
    return AttemptOutcome(dead_reason=end, end=end)


def due_again(case: StepCase, outcome: AttemptOutcome, change: SendChange | None) -> AttemptOutcome:
    """Tell the worker as well when the send is due again, where a step leaves it due."""
    if change is None or change.waits_for_person or work_state(change.state) is not State.DUE:
        return outcome
    if change.sender is not None:
        case.parts.wake(change.sender)
        return outcome
    return structs.replace(outcome, due_in_ms=change.due_in_ms)
