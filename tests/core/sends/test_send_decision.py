"""What follows a call: done, another call later, another sender, or finding out."""

from dataclasses import replace

import pytest

from mailonce.core.sends.send_decision import (
    SendCall,
    SendChange,
    SendRule,
    after_give_back,
    after_lookup,
    after_outcome,
    at_deadline,
    still_unknown,
)
from mailonce.core.sends.send_lifecycle import Flight, SendState
from mailonce.core.sends.sending import (
    Accepted,
    Fault,
    Found,
    NotFound,
    NotSent,
    SendOutcome,
    TryAgain,
    Unknown,
)
from mailonce.core.sends.settle_rule import AskPerson, SendAgain, SettleRule
from mailonce.core.work.retry_rule import WorkRule

WORK = WorkRule(waits_s=(10.0, 20.0), deadline_s=600)
ALONE = SendRule(work=WORK, settle=SettleRule())
WITH_NEXT = replace(ALONE, next_sender="snr_2", next_deadline_s=900)
FIRST = Flight(state=SendState.IN_FLIGHT, attempt=1, tries=1)
REPEAT = Flight(state=SendState.IN_FLIGHT, attempt=2, tries=1, is_repeat=True)
LOST = Flight(state=SendState.UNKNOWN, attempt=1, tries=1)
CALL = SendCall(attempt=1, left_ms=600_000)
NO = NotSent(reason="no such mailbox")
LATER = TryAgain(reason="429")
WHO_KNOWS = Unknown(reason="no answer in time")


def test_an_accepted_call_ends_the_send_with_its_message_id() -> None:
    change = after_outcome(FIRST, Accepted(message_id="m-1", evidence="250"), CALL, ALONE)

    assert change == SendChange(state=SendState.ACCEPTED, message_id="m-1", reason="250")


def test_a_refused_mail_is_refused_unless_another_sender_takes_it() -> None:
    alone, handed = (after_outcome(FIRST, NO, CALL, rule) for rule in (ALONE, WITH_NEXT))

    assert alone == SendChange(state=SendState.REFUSED, reason="no such mailbox")
    assert handed == SendChange(
        state=SendState.PENDING, sender="snr_2", deadline_in_ms=900_000, tries=0,
        reason="no such mailbox",
    )  # fmt: skip


def test_a_sender_that_is_refused_altogether_is_tried_again_or_passed_over() -> None:
    wrong_key = NotSent(reason="401", fault=Fault.SENDER)

    alone, handed = (after_outcome(FIRST, wrong_key, CALL, rule) for rule in (ALONE, WITH_NEXT))

    assert alone == SendChange(state=SendState.PENDING, due_in_ms=10_000, reason="401")
    assert handed is not None
    assert handed.sender == "snr_2"


def test_a_sender_that_is_refused_altogether_is_tried_until_the_deadline() -> None:
    wrong_key = NotSent(reason="401", fault=Fault.SENDER)
    slow = replace(ALONE, work=replace(WORK, waits_s=(10.0, 300.0)))

    often = after_outcome(replace(FIRST, tries=50), wrong_key, CALL, ALONE)
    soon = after_outcome(replace(FIRST, tries=50), wrong_key, CALL, slow)
    late = after_outcome(FIRST, wrong_key, replace(CALL, left_ms=1_000), ALONE)
    once = after_outcome(FIRST, wrong_key, CALL, replace(ALONE, work=replace(WORK, waits_s=())))

    assert often == SendChange(state=SendState.PENDING, due_in_ms=20_000, reason="401")
    # Somebody who has corrected the key does not wait for five minutes.
    assert soon == SendChange(state=SendState.PENDING, due_in_ms=60_000, reason="401")
    assert late == once == SendChange(state=SendState.REFUSED, reason="401")


def test_what_passes_is_tried_again_until_attempts_or_time_are_over() -> None:
    again = after_outcome(FIRST, LATER, CALL, ALONE)
    patient = after_outcome(FIRST, TryAgain(reason="429", retry_after_ms=90_000), CALL, ALONE)
    last = after_outcome(replace(FIRST, tries=3), LATER, CALL, ALONE)
    late = after_outcome(FIRST, LATER, replace(CALL, left_ms=1_000), ALONE)

    assert again == SendChange(state=SendState.PENDING, due_in_ms=10_000, reason="429")
    assert patient is not None
    assert patient.due_in_ms == 90_000
    assert last == late == SendChange(state=SendState.REFUSED, reason="429")


def test_an_unknown_call_is_settled_and_never_handed_to_another_sender() -> None:
    change = after_outcome(FIRST, WHO_KNOWS, CALL, WITH_NEXT)

    assert change is not None
    assert (change.state, change.sender) == (SendState.UNKNOWN, None)
    assert (change.due_in_ms, change.deadline_in_ms) == (86_400_000, 86_400_000)


@pytest.mark.parametrize("outcome", [NO, LATER, WHO_KNOWS])
def test_a_repeated_call_that_is_not_accepted_leaves_the_send_unknown(
    outcome: SendOutcome,
) -> None:
    rule = replace(WITH_NEXT, settle=SettleRule(safe_s=600))

    change = after_outcome(REPEAT, outcome, SendCall(attempt=2, elapsed_s=5.0), rule)

    assert change is not None
    assert (change.state, change.sender, change.tries) == (SendState.UNKNOWN, None, None)
    assert change.due_in_ms == 15_000
    assert change.deadline_in_ms == 86_395_000


def test_the_answer_of_a_lost_call_still_counts() -> None:
    refused, again = (after_outcome(LOST, outcome, CALL, ALONE) for outcome in (NO, LATER))

    assert refused is not None
    assert refused.state is SendState.REFUSED
    assert again is not None
    assert again.state is SendState.PENDING


def test_the_refusal_of_a_call_that_another_one_followed_changes_nothing() -> None:
    assert after_outcome(replace(FIRST, attempt=2), LATER, CALL, ALONE) is None


def test_what_is_accepted_stays_so() -> None:
    accepted = replace(FIRST, state=SendState.ACCEPTED)

    assert [after_outcome(accepted, one, CALL, ALONE) for one in (NO, LATER, WHO_KNOWS)] == [
        None
    ] * 3


def test_a_call_that_was_not_begun_costs_no_attempt() -> None:
    assert after_give_back(FIRST, CALL, ALONE) == SendChange(state=SendState.PENDING, tries=0)
    assert after_give_back(LOST, CALL, ALONE) == SendChange(state=SendState.PENDING, tries=0)
    kept = after_give_back(REPEAT, SendCall(attempt=2, elapsed_s=5.0), ALONE)
    assert kept is not None
    assert kept.state is SendState.UNKNOWN
    assert after_give_back(replace(FIRST, attempt=9), CALL, ALONE) is None


def test_a_lookup_settles_by_presence_alone() -> None:
    rule = replace(ALONE, settle=SettleRule(has_lookup=True))
    call = SendCall(attempt=2, elapsed_s=30.0)

    found = after_lookup(LOST, Found(message_id="m-1", evidence="search"), call, rule)
    absent = after_lookup(LOST, NotFound(), call, rule)
    busy = after_lookup(LOST, Unknown(reason="429", retry_after_ms=300_000), call, rule)

    assert found == SendChange(state=SendState.ACCEPTED, message_id="m-1", reason="lookup: search")
    assert absent == SendChange(state=SendState.UNKNOWN, due_in_ms=90_000)
    assert busy == SendChange(state=SendState.UNKNOWN, due_in_ms=300_000)


def test_no_step_is_later_than_the_deadline() -> None:
    change = still_unknown(SendCall(attempt=1, elapsed_s=86_000.0), ALONE, wait_ms=10**9)

    assert change.due_in_ms == 400_000


def test_at_the_deadline_a_person_decides_or_the_senders_mode() -> None:
    asked, again = (at_deadline(step, ALONE) for step in (AskPerson(), SendAgain()))

    assert (asked.state, asked.waits_for_person) == (SendState.UNKNOWN, True)
    assert (again.state, again.reason) == (SendState.PENDING, "sent again: at_least_once")
    assert (again.deadline_in_ms, again.is_resent) == (600_000, True)
