"""A lease ends by itself, and leaves the artifact unconfirmed."""

import pytest

from mailonce.core.expectations.consumption import (
    HELD,
    MOVES,
    ConsumptionAct,
    ConsumptionState,
    consume_key_of,
    move,
    standings,
)
from mailonce.errors import ParseError
from tests.core.expectations.cases import MINUTE_MS, NOON_MS, consumption

S = ConsumptionState


def test_a_lease_that_ended_without_a_word_is_unconfirmed() -> None:
    mine = consumption("111")

    assert mine.at(NOON_MS + MINUTE_MS - 1) is S.LEASED
    assert mine.at(NOON_MS + MINUTE_MS) is S.UNCONFIRMED
    assert consumption("1", state=S.ACCEPTED).at(NOON_MS + MINUTE_MS) is S.ACCEPTED


def test_what_ended_moves_no_more() -> None:
    assert set(MOVES) == set(S)
    for state in (S.ACCEPTED, S.REJECTED, S.RELEASED):
        assert [move(state, act) for act in ConsumptionAct] == [None] * 4
    assert move(S.UNCONFIRMED, ConsumptionAct.ACCEPT) is S.ACCEPTED


def test_an_artifact_is_held_until_somebody_gives_it_back() -> None:
    assert {S.LEASED, S.UNCONFIRMED, S.ACCEPTED} == HELD
    known = standings(
        [consumption("1", state=S.REJECTED), consumption("2", state=S.RELEASED), consumption("3")]
    )

    assert known[b"1"].is_rejected
    assert known[b"2"].holder is None
    assert not known[b"2"].is_rejected
    assert known[b"3"].holder is not None


def test_a_consume_key_is_a_word() -> None:
    assert consume_key_of("run-1") == consume_key_of("run-1") != consume_key_of("run-2")
    for wrong in ("", "a b", "ä", "x" * 201):
        with pytest.raises(ParseError):
            consume_key_of(wrong)


def test_a_key_is_its_owners_own() -> None:
    mine = consumption("1")

    assert mine.is_of("key_1", b"k" * 16)
    assert not mine.is_of("key_2", b"k" * 16)
