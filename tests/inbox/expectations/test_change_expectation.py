"""An expectation is narrowed while it waits, and resends are spent from a budget."""

import asyncio

import pytest

from mailonce.core.expectations.expectation import ExpectationState
from mailonce.core.expectations.narrow import NarrowRequest
from mailonce.errors import AccessError, ClashError
from mailonce.inbox.expectations.change_expectation import ask_resend, narrow_expectation
from mailonce.inbox.expectations.consume import consume
from tests.inbox.expectations.waiting_room import AGENT, WaitingRoom, code_mail


async def test_mails_are_judged_anew_when_it_is_narrowed(room: WaitingRoom) -> None:
    expectation = await room.open()
    await room.send(code_mail("111222", sender="a@shop.example"))
    await room.send(code_mail("333444", sender="b@evil.example"))
    assert (await room.settled(expectation)).state is ExpectationState.AMBIGUOUS

    await narrow_expectation(
        room.parts, AGENT, expectation.id, NarrowRequest(senders=("@shop.example",))
    )

    assert (await room.settled(expectation)).state is ExpectationState.READY
    taken = await consume(room.parts, AGENT, expectation.id, consume_key="run-1")
    assert taken.value == "111222"
    with pytest.raises(ClashError):
        await narrow_expectation(room.parts, AGENT, expectation.id, NarrowRequest(resends=0))


async def test_nobody_widens_it(room: WaitingRoom) -> None:
    expectation = await room.open(senders=("a@shop.example",))

    with pytest.raises(AccessError):
        await narrow_expectation(
            room.parts, AGENT, expectation.id, NarrowRequest(senders=("b@shop.example",))
        )
    await room.send(code_mail("111222", sender="b@shop.example"))
    assert (await room.settled(expectation)).state is ExpectationState.PENDING


async def test_of_ten_questions_at_once_one_resend_is_granted(room: WaitingRoom) -> None:
    expectation = await room.open(resends=1)
    room.wait_for_resends(0)

    answers = await asyncio.gather(
        *(ask_resend(room.parts, AGENT, expectation.id) for _ in range(10))
    )

    assert [one.granted for one in answers].count(True) == 1
    assert {one.reason for one in answers if not one.granted} == {"budget_spent"}
    again = await ask_resend(room.parts, AGENT, expectation.id, number=1)
    assert (again.granted, again.reason) == (True, "already_granted")


async def test_a_loop_that_never_asks_ends_by_itself(room: WaitingRoom) -> None:
    expectation = await room.open(resends=1)

    for number in range(3):
        await room.send(code_mail(f"11122{number}"))

    settled = await room.settled(expectation)
    assert (settled.state, settled.reason) == (ExpectationState.EXHAUSTED, "too_many_mails")
    answer = await ask_resend(room.parts, AGENT, expectation.id)
    assert (answer.granted, answer.reason) == (False, "ended")
