"""Transmit: the call of a send, under a lease.

    build the request → commit "in flight" → look at the clock → connect → look again → first byte
    → write the outcome

"In flight" is committed for just those whose first byte is next, where the lease still stands and
nobody suppressed the address. Before the connection is made, and once more right before the first
byte (of SMTP: the final dot), a process that was paused meanwhile gives the send back, for which it
knows that nothing has left: another worker may have settled or repeated it.

What a crash leaves: before the mark, a lease that runs out, and the send is pending as before;
after the mark, a send in flight, which becomes unknown and is settled, never repeated blindly. So
does one whose answer came and was not written yet: its sender calls for the next mail meanwhile,
and no more outcomes wait to be written than it makes calls at once.
"""

import asyncio
import math
from dataclasses import replace

from msgspec import structs

from mailonce.core.sends.frozen_call import written_call
from mailonce.core.sends.mail_content import mail_of, read_content
from mailonce.core.sends.outgoing_mail import Mailbox, OutgoingMail
from mailonce.core.sends.send_decision import SendChange, after_give_back, after_outcome
from mailonce.core.sends.send_key import uuid_text
from mailonce.core.sends.send_lifecycle import SendAct, SendState
from mailonce.core.sends.sending import (
    Accepted,
    Frozen,
    HttpRequest,
    NotSent,
    SendOutcome,
    SmtpRequest,
    Unknown,
)
from mailonce.core.work.job import AttemptOutcome
from mailonce.core.work.states import State
from mailonce.errors import MailonceError
from mailonce.queue.work import EndLater, RunResult
from mailonce.send.flight_book import Decide, InFlight, NotOurs, SuppressedNow
from mailonce.send.step import CALL, REPEAT, MayBegin, StepCase, due_again, health_of, no_news
from mailonce.store.sends.flights import FlightMark, SendJob
from mailonce.telemetry import SEND_UNBUILT, UNEXPECTED, log

# Between asking for the mark and the first byte: longer, and the process was paused.
START_S_MAX = 2.0
FORGOTTEN = "its words are not kept any more"
TOO_LATE = "its deadline passed before it was sent"
TOO_LARGE = "the mail is larger than its provider takes"


async def transmit(case: StepCase) -> RunResult:
    """Send a mail that is pending.

    Invariant: the call begins only after the commit that says so, and at most once for it.
    """
    if case.send.deadline_ms < case.now_ms:
        return await _refuse(case, NotSent(reason=TOO_LATE))
    mail = mail_for(case)
    if mail is None:
        return await _refuse(case, NotSent(reason=FORGOTTEN))
    try:
        request = case.sending.build(mail, case.correlation, case.sender)
    except Exception as error:  # noqa: BLE001 - a provider's part may be another package's
        log.error(SEND_UNBUILT, sender=case.sender.id, error=type(error).__name__, exc_info=error)
        return await _refuse(case, NotSent(reason=f"it cannot be built: {type(error).__name__}"))
    if size_of(request) > case.sending.bytes_max:
        return await _refuse(case, NotSent(reason=TOO_LARGE))
    # SMTP gives a mail no other id.
    own_id = mail.message_id if isinstance(request, SmtpRequest) else None
    return await make_call(case, request, SendAct.BEGIN, own_id=own_id)


async def make_call(
    case: StepCase,
    request: Frozen,
    act: SendAct,
    *,
    left_s: float = math.inf,
    own_id: str | None = None,
) -> RunResult:
    """Mark a send as in flight, make its call unless we were paused meanwhile, and end it.

    It may begin within `left_s`. `own_id` is the message id where the provider gives it no other.

    Whatever happens from the mark on is dealt with here: nothing is raised.
    """
    with case.parts.pauses.watching() as is_steady:
        before_s = case.parts.clock.monotonic()

        def may_begin() -> bool:
            return is_steady() and case.parts.clock.monotonic() - before_s <= left_s

        return await _make_call(case, request, act, may_begin, own_id)


async def _make_call(
    case: StepCase, request: Frozen, act: SendAct, may_begin: MayBegin, own_id: str | None
) -> RunResult:
    before_s = case.parts.clock.monotonic()
    keeps = act is SendAct.BEGIN and case.sending.native is not None
    mark = FlightMark(
        key=case.send.key,
        token=case.job.token,
        act=act,
        workspace=case.send.workspace,
        recipient=case.send.recipient,
        stream=case.send.stream,
        is_forced=case.send.is_forced,
        frozen=written_call(request, case.sender) if keeps else None,
    )
    try:
        result = await case.parts.book.begin(mark)
    except (MailonceError, asyncio.CancelledError):
        # Whether it is marked is unknown; that no byte has left is not.
        case.parts.book.end_later(case.send, _give_back(case))
        return no_news("given_back")
    match result:
        case SuppressedNow():
            return no_news("suppressed")
        case NotOurs():
            return no_news("fenced")
        case InFlight():
            pass
    flying = _in_flight(case, act)
    if case.parts.clock.monotonic() - before_s > START_S_MAX or not may_begin():
        change = await case.parts.book.end(flying, _give_back(case))
        return due_again(case, no_news("given_back"), change)
    return await _call(case, request, flying, may_begin, own_id)


async def _call(
    case: StepCase, request: Frozen, flying: SendJob, may_begin: MayBegin, own_id: str | None
) -> RunResult:
    """Make the call, and have written what became of it, also where we are stopped meanwhile."""
    book, clock = case.parts.book, case.parts.clock
    began_s = clock.monotonic()
    step = REPEAT if flying.is_repeat else CALL
    try:
        outcome = await case.parts.caller.transmit(
            request, case.sender, case.sending, may_begin=may_begin
        )
    except asyncio.CancelledError:
        took_s = clock.monotonic() - began_s
        lost = Unknown(reason="it was stopped before the answer")
        decide = _decide(case, lost, took_s=took_s)
        book.end_later(flying, decide, case.note(step, lost, took_s=took_s))
        return no_news("stopped")
    except Exception as error:  # noqa: BLE001 - whatever it was, bytes may have left
        log.error(UNEXPECTED, where="transmit", error=type(error).__name__, exc_info=error)
        outcome = Unknown(reason=f"unexpected {type(error).__name__}")
    if isinstance(outcome, Accepted) and outcome.message_id is None:
        outcome = structs.replace(outcome, message_id=own_id)
    took_s = clock.monotonic() - began_s
    note = case.note(step, outcome, took_s=took_s)
    written = book.end_later(flying, _decide(case, outcome, took_s=took_s), note)
    health = health_of(outcome)
    return EndLater(health, written, lambda change: due_again(case, health, change))


async def give_up(case: StepCase, *, reason: str) -> AttemptOutcome:
    """End a step that fails before it has begun anything: no call was made by it.

    What is pending is refused, and may be sent again once the mistake is mended; what is unknown
    stays so, for a person.
    """

    def decide(send: SendJob) -> SendChange | None:
        if send.token != case.job.token or send.state != State.LEASED:
            return None
        if send.send_state == SendState.PENDING:
            return SendChange(state=SendState.REFUSED, reason=reason)
        return SendChange(state=SendState.UNKNOWN, reason=reason, waits_for_person=True)

    await case.parts.book.end(case.send, decide)
    return no_news("failed")


def mail_for(case: StepCase) -> OutgoingMail | None:
    """Make the mail of a send; None where its content was forgotten."""
    send = case.send
    if send.content is None:
        return None
    return mail_of(
        read_content(send.content),
        Mailbox(send.address, send.name),
        uuid=uuid_text(send.key),
        stream=send.stream,
        unsubscribe_url=case.parts.link_of(send),
    )


def size_of(request: Frozen) -> int:
    return len(request.body if isinstance(request, HttpRequest) else request.message)


async def _refuse(case: StepCase, outcome: NotSent) -> AttemptOutcome:
    """Refuse what can never be sent: no call was made."""

    def decide(send: SendJob) -> SendChange | None:
        if send.send_state != SendState.PENDING or send.token != case.job.token:
            return None
        return SendChange(state=SendState.REFUSED, reason=outcome.reason)

    note = case.note(CALL, outcome, took_s=0.0)
    await case.parts.book.end(case.send, decide, note)
    return health_of(outcome)


def _in_flight(case: StepCase, act: SendAct) -> SendJob:
    """Say how a send stands after its mark was committed."""
    is_repeat = act is SendAct.REPEAT
    return case.send._replace(
        state=State.LEASED,
        send_state=SendState.IN_FLIGHT,
        flight=case.job.attempt,
        tries=case.send.tries if is_repeat else case.send.tries + 1,
        is_repeat=is_repeat,
        flight_ms=case.send.flight_ms if is_repeat else case.now_ms,
    )


def _decide(case: StepCase, outcome: SendOutcome, *, took_s: float) -> Decide:
    call = case.call(took_s=took_s)
    if case.send.send_state == SendState.PENDING:
        # What may be unknown from now on is this call, whatever was before.
        call = replace(call, elapsed_s=took_s)
    return lambda send: after_outcome(send.as_flight, outcome, call, case.rule)


def _give_back(case: StepCase) -> Decide:
    call = case.call()

    def decide(send: SendJob) -> SendChange | None:
        if send.flight == case.job.attempt:
            return after_give_back(send.as_flight, call, case.rule)
        # The mark never came through: only the lease ends.
        is_ours = send.token == case.job.token and send.state == State.LEASED
        if not is_ours or send.send_state == SendState.IN_FLIGHT:
            return None
        return SendChange(state=SendState(send.send_state), tries=send.tries)

    return decide
