"""The life of a piece of work: in each state, what may happen and what follows.

This table is the only place that says so (ARCHITECTURE.md draws it). SQL is given what it says as
values: the state, the lane, the time until it is due.
"""

from collections.abc import Mapping
from dataclasses import dataclass
from enum import Enum, auto

from mailonce.core.work.job import End, Finish
from mailonce.core.work.states import AttemptKind, State, WorkKey


class Act(Enum):
    """What happens to a piece of work apart from the end of a lease."""

    LEASE = auto()
    REDELIVER = auto()
    # It is past its deadline, or its lane is gone.
    EXPIRE = auto()
    # The consumer that polls has it.
    ACKNOWLEDGE = auto()


class Due(Enum):
    """When it is due after a move."""

    AS_BEFORE = auto()
    NOW = auto()
    # After the wait that the retry rule gives.
    AFTER_WAIT = auto()


@dataclass(frozen=True, slots=True)
class Move:
    """What follows; whatever it does not name stays as it is."""

    state: State
    # It never goes back to an earlier lane: the later one of this and its own.
    lane: AttemptKind = AttemptKind.FIRST
    due: Due = Due.AS_BEFORE
    # The retry rule counts its attempts from 1 again.
    new_round: bool = False
    # Whether another round begins when its lease ends; None: as before.
    again: bool | None = None
    # The lease counts as an attempt.
    counts: bool = True

    def due_in_ms(self, wait_ms: int = 0) -> int | None:
        """Say in how many milliseconds it is due; None where that does not change."""
        if self.due is Due.AS_BEFORE:
            return None
        return wait_ms if self.due is Due.AFTER_WAIT else 0

    @property
    def is_end(self) -> bool:
        """Say whether this is an end."""
        return self.state in ENDS


ENDS = (State.DONE, State.DEAD)
NEXT_ROUND = Move(State.DUE, AttemptKind.REDELIVERY, Due.NOW, new_round=True, again=False)

MOVES: Mapping[tuple[State, End | Act], Move] = {
    (State.DUE, Act.LEASE): Move(State.LEASED),
    (State.DUE, Act.REDELIVER): Move(State.DUE, due=Due.NOW),
    (State.DUE, Act.EXPIRE): Move(State.DEAD),
    (State.DUE, Act.ACKNOWLEDGE): Move(State.DONE),
    (State.LEASED, End.DONE): Move(State.DONE),
    (State.LEASED, End.RETRY): Move(State.DUE, AttemptKind.RETRY, Due.AFTER_WAIT),
    (State.LEASED, End.DEAD): Move(State.DEAD),
    (State.LEASED, End.UNTRIED): Move(State.DUE, counts=False),
    (State.LEASED, End.LOST): Move(State.DUE, AttemptKind.RETRY, Due.NOW),
    (State.LEASED, End.LOST_TOO_OFTEN): Move(State.DEAD),
    (State.LEASED, Act.REDELIVER): Move(State.LEASED, again=True),
    (State.DONE, Act.REDELIVER): NEXT_ROUND,
    (State.DEAD, Act.REDELIVER): NEXT_ROUND,
}


def end_of_lease(end: End, *, again: bool = False) -> Move:
    """Say what the end of a lease leaves; `again`: a redelivery was asked for meanwhile."""
    move = _AT_THE_END[end]
    # What was never tried goes back as it was, and its redelivery with it.
    return NEXT_ROUND if again and move.counts else move


def finish(key: WorkKey, token: int, end: End, *, wait_ms: int = 0) -> Finish:
    """Compute what is written at the end of a lease; the attempt's outcome is added to it.

    Should a redelivery be asked for before, the statement makes it `NEXT_ROUND`.
    """
    move = _AT_THE_END[end]
    return Finish(key, token, move.state, move.lane, move.due_in_ms(wait_ms), counts=move.counts)


# By a number alone: this is looked up for each attempt.
_AT_THE_END = {end: MOVES[State.LEASED, end] for end in End}
