"""Decide what follows a call: done, another call later, another sender, or finding out.

Pure: given what the ledger knows of a send and the outcome of a call, it gives the values that are
written, or None where the outcome changes nothing.
"""

from dataclasses import dataclass

from mailonce.core.sends import send_lifecycle
from mailonce.core.sends.send_lifecycle import Flight, SendAct, SendState
from mailonce.core.sends.sender import SendMode
from mailonce.core.sends.sending import (
    Accepted,
    Fault,
    Found,
    LookupOutcome,
    NotFound,
    NotSent,
    SendOutcome,
    TryAgain,
    Unknown,
)
from mailonce.core.sends.settle_rule import AskPerson, SendAgain, SettleRule
from mailonce.core.work import response_outcome
from mailonce.core.work.job import AttemptOutcome
from mailonce.core.work.retry_rule import WorkRule

# An operator who has corrected a sender sees soon that mail goes out again.
OPERATOR_WAIT_MS_MAX = 60_000


@dataclass(frozen=True, slots=True, kw_only=True)
class SendRule:
    """How the present sender tries and settles, and who takes over from it."""

    work: WorkRule
    settle: SettleRule
    # The id of the sender that takes what this one is known not to have sent, and for how long
    # that one tries.
    next_sender: str | None = None
    next_deadline_s: int = 0


@dataclass(frozen=True, slots=True, kw_only=True)
class SendCall:
    """A call that has ended: by which attempt, and how things stood by the database's clock."""

    attempt: int
    # Since the unknown call began that this one repeats; of any other call its own time.
    elapsed_s: float = 0.0
    left_ms: int = 0
    dice: float = 0.5


@dataclass(frozen=True, slots=True, kw_only=True)
class SendChange:
    """What is written to a send; None leaves a value as it is."""

    state: SendState
    due_in_ms: int = 0
    deadline_in_ms: int | None = None
    # Another sender takes over.
    sender: str | None = None
    # How many calls were made since it was asked for.
    tries: int | None = None
    message_id: str | None = None
    # Why it stands where it does, in a few words without addresses.
    reason: str | None = None
    # Nothing more happens by itself: it is shown until a person decides.
    waits_for_person: bool = False
    # It is sent again although the first mail may have been sent.
    is_resent: bool = False


def after_outcome(
    flight: Flight, outcome: SendOutcome, call: SendCall, rule: SendRule
) -> SendChange | None:
    """Say what the outcome of a call changes."""
    is_repeat = flight.is_repeat and flight.attempt == call.attempt
    act = send_lifecycle.act_of(outcome, is_repeat=is_repeat)
    state = send_lifecycle.after_call(flight, act, attempt=call.attempt)
    if state is None:
        return None
    match outcome:
        case Accepted(message_id=message_id, evidence=evidence):
            return SendChange(state=state, message_id=message_id, reason=evidence)
        case NotSent() | TryAgain() if act in {SendAct.REFUSE, SendAct.RETRY}:
            return _not_sent(flight, outcome, call, rule)
        case Unknown(reason=reason, retry_after_ms=wait_ms):
            return _unknown(reason, wait_ms, call, rule)
        case NotSent(reason=reason) | TryAgain(reason=reason):
            wait_ms = outcome.retry_after_ms if isinstance(outcome, TryAgain) else None
            return _unknown(f"repeated: {reason}", wait_ms, call, rule)


def after_give_back(flight: Flight, call: SendCall, rule: SendRule) -> SendChange | None:
    """Say what is true of a send whose call was never begun: no byte of it has left."""
    state = send_lifecycle.after_call(flight, SendAct.GIVE_BACK, attempt=call.attempt)
    match state:
        case None:
            return None
        case SendState.UNKNOWN:
            return _unknown("the repetition was not begun", None, call, rule)
        case _:
            return SendChange(state=state, tries=max(0, flight.tries - 1))


def after_lookup(
    flight: Flight, outcome: LookupOutcome, call: SendCall, rule: SendRule
) -> SendChange:
    """Say what a lookup changes: what is found is proof, what is not found is none."""
    match outcome:
        case Found(message_id=message_id, evidence=evidence):
            return SendChange(
                state=send_lifecycle.MOVES[flight.state, SendAct.PROVE],
                message_id=message_id,
                reason=f"lookup: {evidence}",
            )
        case NotFound():
            return still_unknown(call, rule)
        case Unknown(retry_after_ms=wait_ms):
            return still_unknown(call, rule, wait_ms=wait_ms)


def still_unknown(call: SendCall, rule: SendRule, *, wait_ms: int | None = None) -> SendChange:
    """Say when the next step of settling is due."""
    due_in_ms = _ms(rule.settle.next_in_s(call.elapsed_s))
    if wait_ms is not None:
        left_ms = _ms(max(0.0, rule.settle.settle_s - call.elapsed_s))
        due_in_ms = min(max(due_in_ms, wait_ms), left_ms)
    return SendChange(state=SendState.UNKNOWN, due_in_ms=due_in_ms)


def at_deadline(step: AskPerson | SendAgain, rule: SendRule) -> SendChange:
    """Say what becomes of a send that nothing could settle in time."""
    match step:
        case AskPerson():
            return SendChange(
                state=SendState.UNKNOWN,
                reason="nothing tells whether it was sent",
                waits_for_person=True,
            )
        case SendAgain():
            return SendChange(
                state=SendState.PENDING,
                deadline_in_ms=rule.work.deadline_s * 1000,
                tries=0,
                reason=f"sent again: {SendMode.AT_LEAST_ONCE}",
                is_resent=True,
            )


def _not_sent(
    flight: Flight, outcome: NotSent | TryAgain, call: SendCall, rule: SendRule
) -> SendChange:
    """Try again where that may help, else hand it to the next sender, else give it up.

    A provider that wants no mail at all (`Fault.SENDER`) may want it again once an operator has
    acted, so the mail is not what is refused: it is tried until its deadline, however often, and
    the sender's breaker sees to it that few mails are.
    """
    final = isinstance(outcome, NotSent) and (
        outcome.fault is Fault.MESSAGE or rule.next_sender is not None
    )
    if not final:
        step, wait_ms, wait_ms_max = max(1, flight.tries), None, None
        if isinstance(outcome, TryAgain):
            wait_ms = outcome.retry_after_ms
        else:
            step = max(1, min(step, len(rule.work.waits_s)))
            wait_ms_max = OPERATOR_WAIT_MS_MAX
        verdict = response_outcome.judge(
            AttemptOutcome(error=outcome.reason, retry_after_ms=wait_ms),
            rule.work,
            step=step,
            left_ms=call.left_ms,
            dice=call.dice,
        )
        if isinstance(verdict, response_outcome.RetryIn):
            due_in_ms = min(verdict.wait_ms, wait_ms_max or verdict.wait_ms)
            return SendChange(state=SendState.PENDING, due_in_ms=due_in_ms, reason=outcome.reason)
    if rule.next_sender is not None:
        return SendChange(
            state=SendState.PENDING,
            sender=rule.next_sender,
            deadline_in_ms=rule.next_deadline_s * 1000,
            tries=0,
            reason=outcome.reason,
        )
    return SendChange(state=SendState.REFUSED, reason=outcome.reason)


def _unknown(reason: str, wait_ms: int | None, call: SendCall, rule: SendRule) -> SendChange:
    still = still_unknown(call, rule, wait_ms=wait_ms)
    left_ms = _ms(max(0.0, rule.settle.settle_s - call.elapsed_s))
    return SendChange(
        state=SendState.UNKNOWN, due_in_ms=still.due_in_ms, deadline_in_ms=left_ms, reason=reason
    )


def _ms(seconds: float) -> int:
    return int(seconds * 1000)
