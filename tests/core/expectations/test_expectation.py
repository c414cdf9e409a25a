"""The states of an expectation are one table."""

from mailonce.core.expectations.expectation import FINAL, MOVES, ExpectationState
from tests.core.expectations.cases import expectation


def test_the_table_names_every_state_and_none_follows_itself() -> None:
    assert set(MOVES) == set(ExpectationState)
    assert all(state not in following for state, following in MOVES.items())


def test_what_has_ended_stays_so() -> None:
    assert {ExpectationState.EXHAUSTED, ExpectationState.EXPIRED} == FINAL
    assert all(set(MOVES[state]) >= FINAL for state in set(ExpectationState) - FINAL)


def test_the_first_mail_and_each_resend_may_match() -> None:
    assert expectation(resends=2).mails_max == 3
