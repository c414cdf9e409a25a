"""What follows a response, or none: done, a retry, a dead letter, and after a 410 a lane off."""

from dataclasses import dataclass
from email.utils import parsedate_to_datetime

from mailonce.core.work.job import AttemptOutcome
from mailonce.core.work.retry_rule import WorkRule

JITTER = 0.2
RETRY_AFTER_MS_MAX = 3_600_000

GATE_HEADER = "x-mailonce-gate"
GATE_PROCESSING = "processing"
GATE_STATUS = 202
GONE = 410
# Answers that blame the moment, not the request; 409 says that another copy is being worked on.
_PASSING = frozenset({408, 409, 425, 429})
_CONFLICT = 409


@dataclass(frozen=True, slots=True)
class Done:
    """The endpoint accepted it."""


@dataclass(frozen=True, slots=True)
class RetryIn:
    """Try again after this wait."""

    wait_ms: int


@dataclass(frozen=True, slots=True)
class GiveUp:
    """It becomes a dead letter, for this reason."""

    reason: str


@dataclass(frozen=True, slots=True)
class SwitchOff:
    """The endpoint wants nothing more: its lane is switched off, and the work stays pending."""

    wait_ms: int


Verdict = Done | RetryIn | GiveUp | SwitchOff


def judge(
    outcome: AttemptOutcome, rule: WorkRule, *, step: int, left_ms: int, dice: float
) -> Verdict:
    """Say what follows attempt `step` of a round, counted from 1.

    `left_ms` is the time to the deadline, `dice` a random number from 0 to 1.
    """
    assert step >= 1, f"attempts are counted from 1, got {step}"
    if is_done(outcome):
        return Done()
    if outcome.dead_reason is not None:
        return GiveUp(outcome.dead_reason)
    if outcome.final:
        return GiveUp("permanent")
    if outcome.status == GONE:
        wait_s = rule.waits_s[min(step, len(rule.waits_s)) - 1] if rule.waits_s else 0
        return SwitchOff(_jittered(wait_s, dice))
    blames = is_blame(outcome)
    if blames and step >= rule.blamed_attempts_max:
        return GiveUp("refused" if outcome.refused else "permanent")
    if step > len(rule.waits_s):
        return GiveUp("attempts")
    wait_ms = _jittered(rule.waits_s[step - 1], dice)
    if wait_ms > left_ms:
        return GiveUp("deadline")
    if outcome.retry_after_ms is not None:
        cap_ms = max(wait_ms, RETRY_AFTER_MS_MAX)
        wait_ms = max(wait_ms, min(outcome.retry_after_ms, cap_ms, left_ms))
    return RetryIn(wait_ms)


def is_done(outcome: AttemptOutcome) -> bool:
    """Say whether the endpoint accepted it."""
    return outcome.status is not None and 200 <= outcome.status < 300 and not outcome.processing


def is_blame(outcome: AttemptOutcome) -> bool:
    """Say whether the answer rejects the request itself, so that trying often is pointless."""
    if outcome.refused:
        return True
    status = outcome.status
    return status is not None and 400 <= status < 500 and status not in _PASSING


def is_well(outcome: AttemptOutcome) -> bool:
    """Say whether the endpoint works, whatever it thinks of this request."""
    if outcome.status is None:
        return outcome.final
    if outcome.status < 300 or outcome.status == _CONFLICT:
        return True
    return is_blame(outcome) and not outcome.refused


def retry_after_ms(header: str | None, *, now_ms: int) -> int | None:
    """Read Retry-After, in seconds or as a date; None where it says nothing usable."""
    if header is None or len(header) > 64:
        return None
    text = header.strip()
    if text.isascii() and text.isdigit():
        return int(text[:12]) * 1000
    try:
        at = parsedate_to_datetime(text).timestamp()
    except (ValueError, TypeError, OverflowError):
        return None
    return max(0, int(at * 1000) - now_ms)


def _jittered(wait_s: float, dice: float) -> int:
    return int(wait_s * 1000 * (1 - JITTER + 2 * JITTER * dice))
