"""The budget of resends: whether whoever waits may ask the sender for another mail, and when.

Mails that matched are counted, too: a loop that never asks ends by itself.
"""

from enum import StrEnum

from msgspec import Struct

from mailonce.core.expectations.expectation import Expectation, ExpectationState

# A mail takes its time; who asks again at once gets two.
WAIT_S = 20.0
# After a rejection there is nothing to wait for.
ASKS_AGAIN = frozenset(
    {ExpectationState.PENDING, ExpectationState.AMBIGUOUS, ExpectationState.QUARANTINED}
)


class ResendReason(StrEnum):
    GRANTED = "granted"
    # The same resend was granted before.
    ALREADY_GRANTED = "already_granted"
    TOO_EARLY = "too_early"
    BUDGET_SPENT = "budget_spent"
    # There is something to consume, or it is consumed.
    NOT_NEEDED = "not_needed"
    ENDED = "ended"


class ResendDecision(Struct, frozen=True, kw_only=True):
    """Whether a resend may be asked for; if not, in how many seconds to ask again."""

    granted: bool
    reason: ResendReason
    left: int
    wait_s: float | None = None
    # It is new, and must be written down.
    is_new: bool = False


def resends_left(expectation: Expectation, matched: int) -> int:
    """Say how many resends are left; a mail that nobody asked for has used one up."""
    return max(0, expectation.resends - max(expectation.granted, matched - 1))


def decide_resend(
    expectation: Expectation,
    state: ExpectationState,
    *,
    matched: int,
    now_ms: int,
    number: int | None = None,
    wait_s: float = WAIT_S,
) -> ResendDecision:
    """Decide whether a resend is granted; `number` counts the caller's own, from 1."""
    left = resends_left(expectation, matched)
    if number is not None and number <= expectation.granted:
        return ResendDecision(granted=True, reason=ResendReason.ALREADY_GRANTED, left=left)
    if state in {ExpectationState.EXPIRED, ExpectationState.EXHAUSTED}:
        return ResendDecision(granted=False, reason=ResendReason.ENDED, left=left)
    if state not in ASKS_AGAIN:
        return ResendDecision(granted=False, reason=ResendReason.NOT_NEEDED, left=left)
    if left == 0:
        return ResendDecision(granted=False, reason=ResendReason.BUDGET_SPENT, left=0)
    since_ms = expectation.opened_ms if expectation.granted_ms is None else expectation.granted_ms
    missing_s = wait_s - (now_ms - since_ms) / 1000
    if missing_s > 0 and matched <= expectation.granted:
        return ResendDecision(
            granted=False, reason=ResendReason.TOO_EARLY, left=left, wait_s=round(missing_s, 1)
        )
    return ResendDecision(granted=True, reason=ResendReason.GRANTED, left=left - 1, is_new=True)
