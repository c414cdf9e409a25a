"""Settle: find out what became of a send whose outcome is unknown.

By the provider's own key, inside the safe part of its window: the same bytes again, by the same
account. By its lookup: what is found is proof, what is not found is none. By its webhooks, which
settle a send in the transaction that records them (`store/schema/send_rows.py`). At the deadline a
person decides, or the sender's mode.
"""

from dataclasses import replace

from mailonce.core.sends.frozen_call import read_call
from mailonce.core.sends.send_decision import (
    SendChange,
    after_lookup,
    after_outcome,
    at_deadline,
    still_unknown,
)
from mailonce.core.sends.send_lifecycle import SendAct, SendState
from mailonce.core.sends.sending import LookupOutcome, SendFacts, Unknown
from mailonce.core.sends.settle_rule import (
    AskPerson,
    AwaitEvents,
    LookUp,
    RepeatCall,
    SendAgain,
)
from mailonce.core.work.job import AttemptOutcome
from mailonce.queue.work import RunResult
from mailonce.send.flight_book import Decide
from mailonce.send.step import LOOKUP, StepCase, due_again, no_news
from mailonce.send.transmit import mail_for, make_call
from mailonce.store.sends.flights import SendJob
from mailonce.telemetry import SEND_UNKNOWN, UNEXPECTED, log

WORKER_LOST = "its worker was lost before the answer"


async def settle(case: StepCase) -> RunResult:
    """Take the step that is right by now."""
    if case.send.send_state == SendState.IN_FLIGHT:
        # Nobody ended its lease in the usual way: it is unknown all the same.
        lost = Unknown(reason=WORKER_LOST)
        call = case.call()

        def lose(send: SendJob) -> SendChange | None:
            own = replace(call, attempt=send.flight)
            return after_outcome(send.as_flight, lost, own, case.rule)

        change = await case.parts.book.end(case.send, lose)
        return due_again(case, no_news("unknown"), change)
    rule = case.rule.settle
    step = rule.step(case.elapsed_s)
    if isinstance(step, RepeatCall):
        request = None if case.send.body is None else read_call(case.send.body, case.sender)
        if request is not None:
            left_s = rule.repeat_left_s(case.elapsed_s)
            return await make_call(case, request, SendAct.REPEAT, left_s=left_s)
        step = LookUp() if rule.has_lookup else AwaitEvents()
    match step:
        case LookUp():
            return await _look_up(case)
        case AskPerson() | SendAgain():
            if isinstance(step, AskPerson):
                log.warning(SEND_UNKNOWN, sender=case.sender.id, send=case.correlation.send)
            change = at_deadline(step, case.rule)
            written = await case.parts.book.end(case.send, _still(case, change))
            return due_again(case, no_news("deadline"), written)
        case _:
            return await _wait(case)


async def _look_up(case: StepCase) -> AttemptOutcome:
    """Ask the provider, which changes nothing there; so it needs no mark."""
    clock = case.parts.clock
    began_s = clock.monotonic()
    outcome: LookupOutcome | None
    try:
        outcome = await case.parts.caller.look_up(
            case.correlation, case.sender, case.sending, _facts(case)
        )
    except Exception as error:  # noqa: BLE001 - a lookup that fails settles nothing
        log.error(UNEXPECTED, where="look_up", error=type(error).__name__, exc_info=error)
        outcome = Unknown(reason=f"unexpected {type(error).__name__}")
    took_s = clock.monotonic() - began_s
    if outcome is None:
        return await _wait(case)
    call, known = case.call(took_s=took_s), outcome

    def decide(send: SendJob) -> SendChange | None:
        if send.send_state != SendState.UNKNOWN:
            return None
        return after_lookup(send.as_flight, known, call, case.rule)

    note = case.note(LOOKUP, outcome, took_s=took_s)
    change = await case.parts.book.end(case.send, decide, note)
    result = AttemptOutcome(status=200, end="lookup")
    if isinstance(outcome, Unknown):
        wait_ms = outcome.retry_after_ms
        result = AttemptOutcome(error=outcome.reason, end="lookup", pause_ms=wait_ms)
    return due_again(case, result, change)


async def _wait(case: StepCase) -> AttemptOutcome:
    """Leave it to events until the next step is due."""
    change = still_unknown(case.call(), case.rule)
    written = await case.parts.book.end(case.send, _still(case, change))
    return due_again(case, no_news("waiting"), written)


def _facts(case: StepCase) -> SendFacts:
    mail = mail_for(case)
    first_call_ms = case.send.flight_ms if case.send.flight_ms is not None else case.now_ms
    return SendFacts(
        mail_from="" if mail is None else mail.from_.address,
        recipient=case.send.address,
        subject="" if mail is None else mail.subject,
        message_id="" if mail is None else mail.message_id,
        first_call_ms=first_call_ms,
        now_ms=case.now_ms,
    )


def _still(case: StepCase, change: SendChange) -> Decide:
    """Let a change count only while the send is as unknown as it was, under our lease."""

    def decide(send: SendJob) -> SendChange | None:
        is_same = send.send_state == SendState.UNKNOWN and send.token == case.job.token
        return change if is_same else None

    return decide
