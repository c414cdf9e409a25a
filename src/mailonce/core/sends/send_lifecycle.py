"""The life of a send: in each state, what may happen and what follows.

`MOVES` is the only place that says so (docs/sends.md draws it); SQL is given what it says as
values. Two things follow from the table alone:

- nothing leads from `UNKNOWN` to another call but the provider's own key (`REPEAT`), the proof that
  the mail was not sent, or a decision that is written down (`RESEND`);
- whatever proves that a provider has the mail ends as `ACCEPTED`, however late it comes, and
  whatever became of the send meanwhile.

A send is also a piece of work (`core/work/lifecycle.py`), which says who holds it and when its next
step is due. `leased` is not `in_flight`: a send is in flight from the commit right before its first
byte until its outcome is known.
"""

from collections.abc import Mapping
from dataclasses import dataclass
from enum import Enum, IntEnum, auto

from mailonce.core.sends.sending import Accepted, NotSent, SendOutcome, TryAgain
from mailonce.core.work.states import State


class SendState(IntEnum):
    """Where a send stands."""

    PENDING = 0
    IN_FLIGHT = 1
    ACCEPTED = 2
    REFUSED = 3
    UNKNOWN = 4
    CANCELLED = 5
    SUPPRESSED = 6

    @property
    def word(self) -> str:
        """The state as users read it."""
        return self.name.lower()


class SendAct(Enum):
    """What happens to a send."""

    # Its first byte is next.
    BEGIN = auto()
    # The same, for a call that repeats an unknown one under the provider's own key.
    REPEAT = auto()
    # The provider has it: by its answer, its lookup, its webhook, or a person's word.
    PROVE = auto()
    # It is known not to have been sent: for good, or for now.
    REFUSE = auto()
    RETRY = auto()
    # Nobody knows: no answer came, or the worker that would have read it is gone.
    LOSE = auto()
    # No byte of the call has left.
    GIVE_BACK = auto()
    CANCEL = auto()
    SUPPRESS = auto()
    # Its time is over before it was sent.
    EXPIRE = auto()
    # Somebody decided that it is sent (again).
    RESEND = auto()


S, A = SendState, SendAct

MOVES: Mapping[tuple[SendState, SendAct], SendState] = {
    (S.PENDING, A.BEGIN): S.IN_FLIGHT,
    (S.PENDING, A.CANCEL): S.CANCELLED,
    (S.PENDING, A.SUPPRESS): S.SUPPRESSED,
    (S.PENDING, A.EXPIRE): S.REFUSED,
    # An earlier attempt was sent after all: the next one is not made.
    (S.PENDING, A.PROVE): S.ACCEPTED,
    (S.IN_FLIGHT, A.PROVE): S.ACCEPTED,
    (S.IN_FLIGHT, A.REFUSE): S.REFUSED,
    (S.IN_FLIGHT, A.RETRY): S.PENDING,
    (S.IN_FLIGHT, A.GIVE_BACK): S.PENDING,
    (S.IN_FLIGHT, A.LOSE): S.UNKNOWN,
    (S.UNKNOWN, A.REPEAT): S.IN_FLIGHT,
    (S.UNKNOWN, A.PROVE): S.ACCEPTED,
    # The answer of the very call that was lost, come late; or a person's word.
    (S.UNKNOWN, A.REFUSE): S.REFUSED,
    (S.UNKNOWN, A.RETRY): S.PENDING,
    (S.UNKNOWN, A.GIVE_BACK): S.PENDING,
    (S.UNKNOWN, A.RESEND): S.PENDING,
    (S.REFUSED, A.RESEND): S.PENDING,
    (S.REFUSED, A.PROVE): S.ACCEPTED,
    (S.SUPPRESSED, A.RESEND): S.PENDING,
    # It was to be sent again and then was not, but the first call had sent it after all.
    (S.CANCELLED, A.PROVE): S.ACCEPTED,
    (S.SUPPRESSED, A.PROVE): S.ACCEPTED,
}

# Nothing more happens by itself, and `done_ms` says since when.
ENDS = frozenset({S.ACCEPTED, S.REFUSED, S.CANCELLED, S.SUPPRESSED})
# A webhook that carries our id proves nothing about a send that no call was ever made for.
PROVABLE = frozenset(state for state, act in MOVES if act is A.PROVE)


def move(state: SendState, act: SendAct) -> SendState | None:
    """Say what follows; None where that cannot happen in this state."""
    return MOVES.get((state, act))


def work_state(state: SendState) -> State:
    """Say where a send stands as a piece of work, once its lease has ended."""
    return State.DONE if state in ENDS else State.DUE


@dataclass(frozen=True, slots=True, kw_only=True)
class Flight:
    """What the ledger knows of a send's calls."""

    state: SendState
    # The attempt that made the last call; 0 where no call was ever made.
    attempt: int
    # How many calls were made since it was asked for, those that repeat another left out.
    tries: int
    # The last call repeated an unknown one under the provider's own key.
    is_repeat: bool = False


def act_of(outcome: SendOutcome, *, is_repeat: bool) -> SendAct:
    """Say what an outcome of a call means for its send.

    A repeated call proves something only where it is accepted: that it was refused says nothing of
    the call that it repeats.
    """
    match outcome:
        case Accepted():
            return SendAct.PROVE
        case NotSent() if not is_repeat:
            return SendAct.REFUSE
        case TryAgain() if not is_repeat:
            return SendAct.RETRY
        case _:
            return SendAct.LOSE


def after_call(flight: Flight, act: SendAct, *, attempt: int) -> SendState | None:
    """Say where the end of the call of `attempt` leaves a send; None where it changes nothing.

    Proof counts whenever it comes. That the mail was not sent counts only while this is the last
    call: another one may have sent it meanwhile.
    """
    if act is SendAct.PROVE:
        return None if flight.attempt == 0 else move(flight.state, act)
    if flight.attempt != attempt:
        return None
    if act is SendAct.GIVE_BACK and flight.is_repeat:
        # No byte of the repetition has left; the call that it was to repeat is as unknown as ever.
        act = SendAct.LOSE
    return move(flight.state, act)


def after_lost_lease(state: SendState) -> SendState:
    """Say what a send is whose worker never came back: what was in flight is unknown."""
    return MOVES.get((state, SendAct.LOSE), state)


def after_expiry(state: SendState) -> SendState:
    """Say what a send is that nobody tries any more: what is unknown stays so, for a person."""
    return MOVES.get((after_lost_lease(state), SendAct.EXPIRE), after_lost_lease(state))
