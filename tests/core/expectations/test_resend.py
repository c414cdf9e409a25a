"""A budget of resends, with teeth."""

from mailonce.core.expectations.expectation import ExpectationState
from mailonce.core.expectations.resend import ResendReason, decide_resend, resends_left
from tests.core.expectations.cases import NOON_MS, expectation

PENDING = ExpectationState.PENDING
LATER_MS = NOON_MS + 30_000


def test_a_resend_is_granted_after_a_wait_and_once() -> None:
    fresh, spent = expectation(), expectation(granted=1, granted_ms=LATER_MS)

    early = decide_resend(fresh, PENDING, matched=0, now_ms=NOON_MS + 5000)
    granted = decide_resend(fresh, PENDING, matched=0, now_ms=LATER_MS)
    refused = decide_resend(spent, PENDING, matched=0, now_ms=LATER_MS + 60_000)

    assert (early.granted, early.reason, early.wait_s) == (False, ResendReason.TOO_EARLY, 15.0)
    assert (granted.granted, granted.left, granted.is_new) == (True, 0, True)
    assert (refused.granted, refused.reason) == (False, ResendReason.BUDGET_SPENT)


def test_the_same_number_gets_the_same_answer() -> None:
    spent = expectation(granted=1, granted_ms=LATER_MS)

    again = decide_resend(spent, PENDING, matched=0, now_ms=LATER_MS, number=1)

    assert (again.granted, again.is_new, again.reason) == (True, False, "already_granted")
    assert not decide_resend(spent, PENDING, matched=0, now_ms=LATER_MS, number=2).granted


def test_mails_that_nobody_asked_for_are_counted() -> None:
    assert resends_left(expectation(resends=2), matched=0) == 2
    assert resends_left(expectation(resends=2), matched=2) == 1
    assert resends_left(expectation(resends=2), matched=9) == 0
    assert resends_left(expectation(resends=2, granted=2), matched=1) == 0


def test_where_there_is_something_to_consume_nobody_asks_again() -> None:
    for state, reason in {
        ExpectationState.READY: "not_needed",
        ExpectationState.CONSUMED: "not_needed",
        ExpectationState.EXPIRED: "ended",
        ExpectationState.EXHAUSTED: "ended",
    }.items():
        assert decide_resend(expectation(), state, matched=1, now_ms=LATER_MS).reason == reason


def test_after_a_rejection_there_is_nothing_to_wait_for() -> None:
    rejected = decide_resend(expectation(), PENDING, matched=1, now_ms=NOON_MS)

    assert rejected.granted
