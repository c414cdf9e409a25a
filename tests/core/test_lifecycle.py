"""The life of a piece of work, line by line; no database is needed to know what follows."""

import itertools

import pytest

from mailonce.core.work.job import End
from mailonce.core.work.lifecycle import ENDS, MOVES, NEXT_ROUND, Act, Due, Move, end_of_lease
from mailonce.core.work.states import AttemptKind, State

DUE, LEASED, DONE, DEAD = State
FIRST, RETRY, REDELIVERY = AttemptKind
# How a lease ends → state, lane at least, due in (after a wait of 5 s), new round.
PLAIN = {
    End.DONE: (DONE, FIRST, None, False),
    End.RETRY: (DUE, RETRY, 5_000, False),
    End.DEAD: (DEAD, FIRST, None, False),
    End.UNTRIED: (DUE, FIRST, None, False),
    End.LOST: (DUE, RETRY, 0, False),
    End.LOST_TOO_OFTEN: (DEAD, FIRST, None, False),
}
ASKED_AGAIN = (DUE, REDELIVERY, 0, True)


def seen(move: Move) -> tuple[State, AttemptKind, int | None, bool]:
    return move.state, move.lane, move.due_in_ms(5_000), move.new_round


def test_how_a_lease_ends(subtests: pytest.Subtests) -> None:
    assert set(PLAIN) == set(End)
    for end, expected in PLAIN.items():
        with subtests.test(end.name):
            assert seen(end_of_lease(end)) == expected


def test_asked_for_again_meanwhile_a_new_round_begins_however_it_ended(
    subtests: pytest.Subtests,
) -> None:
    for end in set(End) - {End.UNTRIED}:
        with subtests.test(end.name):
            move = end_of_lease(end, again=True)

            assert seen(move) == ASKED_AGAIN
            assert move.again is False


def test_what_was_not_tried_goes_back_and_still_counts_as_asked_for() -> None:
    move = end_of_lease(End.UNTRIED, again=True)

    assert seen(move) == PLAIN[End.UNTRIED]
    assert (move.again, move.counts) == (None, False)
    assert all(end_of_lease(end).counts for end in set(End) - {End.UNTRIED})


def test_a_redelivery_from_each_state() -> None:
    moves = [MOVES[state, Act.REDELIVER] for state in State]

    assert [seen(move) for move in moves] == [
        (DUE, FIRST, 0, False),
        (LEASED, FIRST, None, False),
        ASKED_AGAIN,
        ASKED_AGAIN,
    ]
    assert [move.again for move in moves] == [None, True, False, False]


def test_what_is_due_is_leased_expires_or_is_acknowledged() -> None:
    states = {act: MOVES[DUE, act].state for act in Act if act is not Act.REDELIVER}

    assert states == {Act.LEASE: LEASED, Act.EXPIRE: DEAD, Act.ACKNOWLEDGE: DONE}
    assert {MOVES[DUE, act].due for act in states} == {Due.AS_BEFORE}


def test_nothing_else_may_happen() -> None:
    possible = {
        *((DUE, act) for act in Act),
        *((LEASED, end) for end in End),
        *((state, Act.REDELIVER) for state in State),
    }

    assert set(MOVES) == possible
    assert {move.state for move in MOVES.values() if move.is_end} == set(ENDS)


def test_every_state_is_reached_and_none_is_a_trap() -> None:
    reached = {DUE}
    for _, state in itertools.product(State, State):
        if state in reached:
            reached |= {move.state for (at, _), move in MOVES.items() if at is state}

    assert reached == set(State)
    # Even of what has ended somebody may ask for another round, which begins as due.
    assert {MOVES[state, Act.REDELIVER] for state in ENDS} == {NEXT_ROUND}
    assert NEXT_ROUND.state is DUE
