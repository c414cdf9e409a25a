"""The life of a send: which moves there are, and that no order of them doubles a mail."""

from dataclasses import replace

import pytest
from hypothesis import given
from hypothesis import strategies as st

from mailonce.core.sends import send_lifecycle
from mailonce.core.sends.send_lifecycle import (
    ENDS,
    MOVES,
    PROVABLE,
    Flight,
    SendAct,
    SendState,
    act_of,
    after_call,
    after_expiry,
    after_lost_lease,
    work_state,
)
from mailonce.core.sends.sending import Accepted, NotSent, SendOutcome, TryAgain, Unknown
from mailonce.core.work.states import State

ACCEPTED = Accepted(message_id="m", evidence="answer")
OUTCOMES: list[SendOutcome] = [
    ACCEPTED,
    NotSent(reason="no"),
    TryAgain(reason="later"),
    Unknown(reason="?"),
]


def test_what_was_in_flight_when_its_worker_died_is_unknown_and_never_pending() -> None:
    assert after_lost_lease(SendState.IN_FLIGHT) is SendState.UNKNOWN
    assert after_lost_lease(SendState.PENDING) is SendState.PENDING
    assert after_lost_lease(SendState.UNKNOWN) is SendState.UNKNOWN


def test_what_nobody_tries_any_more_is_refused_only_where_nothing_was_sent() -> None:
    assert after_expiry(SendState.PENDING) is SendState.REFUSED
    assert after_expiry(SendState.IN_FLIGHT) is SendState.UNKNOWN
    assert after_expiry(SendState.UNKNOWN) is SendState.UNKNOWN


def test_proof_counts_in_every_state() -> None:
    assert {*SendState} - {SendState.ACCEPTED} == PROVABLE
    assert {MOVES[state, SendAct.PROVE] for state in PROVABLE} == {SendState.ACCEPTED}


def test_a_person_can_neither_cancel_nor_resend_what_is_in_flight_or_accepted() -> None:
    for state in (SendState.IN_FLIGHT, SendState.ACCEPTED):
        assert send_lifecycle.move(state, SendAct.CANCEL) is None
        assert send_lifecycle.move(state, SendAct.RESEND) is None


def test_an_end_is_done_and_all_else_is_due() -> None:
    assert {state for state in SendState if work_state(state) is State.DONE} == ENDS


@pytest.mark.parametrize("outcome", OUTCOMES)
def test_a_repeated_call_proves_only_what_is_accepted(outcome: SendOutcome) -> None:
    act = act_of(outcome, is_repeat=True)

    assert act is (SendAct.PROVE if outcome is ACCEPTED else SendAct.LOSE)


def test_a_refusal_of_an_earlier_call_says_nothing_of_the_last() -> None:
    flight = Flight(state=SendState.IN_FLIGHT, attempt=2, tries=2)

    assert after_call(flight, SendAct.RETRY, attempt=1) is None
    assert after_call(flight, SendAct.PROVE, attempt=1) is SendState.ACCEPTED


def test_nothing_proves_a_mail_that_no_call_was_made_for() -> None:
    flight = Flight(state=SendState.PENDING, attempt=0, tries=0)

    assert after_call(flight, SendAct.PROVE, attempt=1) is None


def test_a_repetition_that_was_not_begun_leaves_the_send_unknown() -> None:
    flight = Flight(state=SendState.IN_FLIGHT, attempt=2, tries=1, is_repeat=True)

    assert after_call(flight, SendAct.GIVE_BACK, attempt=2) is SendState.UNKNOWN


STEPS = st.one_of(
    st.sampled_from(["begin", "repeat", "die", "expire", "give_back"]),
    st.tuples(st.sampled_from(["answer", "late", "webhook"]), st.sampled_from(OUTCOMES)),
)


@given(st.lists(STEPS, max_size=30))
def test_no_second_call_without_the_providers_key_unless_the_first_is_known_not_sent(  # noqa: PLR0912
    steps: list[str | tuple[str, SendOutcome]],
) -> None:
    """Two calls, of which neither repeats the other, have a known "not sent" between them."""
    flight = Flight(state=SendState.PENDING, attempt=0, tries=0)
    calls: list[int] = []
    # Calls that are known not to have been sent, by the provider's answer or because none left.
    not_sent: set[int] = set()

    def go(state: SendState | None) -> None:
        nonlocal flight
        if state is not None:
            flight = replace(flight, state=state)

    for step in steps:
        last = calls[-1] if calls else 0
        match step:
            case "begin" if flight.state is SendState.PENDING:
                assert set(calls) <= not_sent, f"{calls} before the next, of which {not_sent}"
                calls.append(last + 1)
                go(MOVES[flight.state, SendAct.BEGIN])
                flight = replace(flight, attempt=last + 1, tries=flight.tries + 1, is_repeat=False)
            case "repeat" if flight.state is SendState.UNKNOWN:
                flight = replace(flight, attempt=flight.attempt + 100, is_repeat=True)
                go(MOVES[flight.state, SendAct.REPEAT])
            case "die":
                go(after_lost_lease(flight.state))
            case "expire" if flight.state is not SendState.IN_FLIGHT:
                if flight.state not in ENDS:
                    go(after_expiry(flight.state))
            case "give_back" if flight.state in (SendState.IN_FLIGHT, SendState.UNKNOWN):
                if not flight.is_repeat:
                    not_sent.add(last)
                go(after_call(flight, SendAct.GIVE_BACK, attempt=flight.attempt))
            case ("answer", outcome) if flight.state in (SendState.IN_FLIGHT, SendState.UNKNOWN):
                act = act_of(outcome, is_repeat=flight.is_repeat)
                if act in (SendAct.REFUSE, SendAct.RETRY):
                    not_sent.add(last)
                go(after_call(flight, act, attempt=flight.attempt))
            case ("late", outcome) if calls:
                # The answer of an earlier call, which another one has followed.
                act = act_of(outcome, is_repeat=False)
                go(after_call(flight, act, attempt=flight.attempt - 1))
            case ("webhook", _):
                go(after_call(flight, SendAct.PROVE, attempt=last))
            case _:
                pass
