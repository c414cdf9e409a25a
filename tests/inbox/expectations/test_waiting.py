"""Waiting for an expectation ends at once when it is ready, and costs the database nothing."""

import asyncio
from collections.abc import Callable, Sequence
from typing import Any

import pytest

from mailonce.core.expectations.expectation import ExpectationState
from mailonce.core.extraction.extraction import ArtifactKind
from mailonce.errors import MissingError
from mailonce.inbox.expectations.expectation_parts import topic_of
from mailonce.inbox.expectations.shared_reads import Standings
from mailonce.inbox.expectations.waiting import ExpectationWait
from mailonce.store.expectations import expectations, standing
from tests.inbox.expectations.waiting_room import WaitingRoom, code_mail, link_mail


async def test_who_waits_is_answered_when_the_mail_is_there(room: WaitingRoom) -> None:
    expectation = await room.open()
    waiters = room.desk.service.expectations.waiters
    waits = [
        asyncio.create_task(waiters.read("default", expectation.id, wait_s=25)) for _ in range(5)
    ]
    await room.desk.until(lambda: room.are_waiting(5))

    await room.accept(code_mail("734120"))

    states = [(await one)[1].state for one in waits]
    assert states == [ExpectationState.READY] * 5
    assert waiters.waiting == 0


async def _is_none(counts: object) -> bool:
    return not counts


async def test_who_has_mail_does_not_queue_behind_those_who_ask_again(
    room: WaitingRoom, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Ten thousand requests may begin or end at once."""
    expectation, other = await room.open(), await room.open()
    waiters = room.desk.service.expectations.waiters
    waiting = [
        asyncio.create_task(waiters.read("default", expectation.id, wait_s=25)) for _ in range(3)
    ]
    await room.desk.until(lambda: room.are_waiting(3))
    await waiters.read("default", expectation.id)
    usual = waiters._reads._usual
    may_read, load = asyncio.Event(), usual._load

    async def held_up(ids: Sequence[bytes]) -> Standings:
        await may_read.wait()
        return await load(ids)

    monkeypatch.setattr(usual, "_load", held_up)
    crowd = [asyncio.create_task(waiters.read("default", other.id)) for _ in range(10)]

    await room.accept(code_mail("734120"))

    states = {(await asyncio.wait_for(one, 20))[1].state for one in waiting}
    assert states == {ExpectationState.READY}
    assert not any(one.done() for one in crowd)
    may_read.set()
    await asyncio.gather(*crowd)
    await room.desk.until(lambda: _is_none(waiters._urgent))


async def test_who_was_woken_and_hung_up_leaves_nothing_behind(room: WaitingRoom) -> None:
    expectation = await room.open()
    waiters = room.desk.service.expectations.waiters
    outcome = await waiters.look("default", expectation.id, waits=True)
    assert isinstance(outcome, ExpectationWait)

    waiters.wake([topic_of(expectation.id)])
    outcome.close()
    await waiters._look()

    await room.desk.until(lambda: _is_none(waiters._urgent))


async def test_many_who_wait_share_one_look(
    room: WaitingRoom, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Each looks once; from then on one loop looks for all of them, some at a time."""
    expectation = await room.open()
    waiters = room.desk.service.expectations.waiters
    looks: list[str] = []

    def counting(name: str, real: Callable[..., Any]) -> Callable[..., Any]:
        def look(*arguments: Any, **named: Any) -> Any:
            outcome = real(*arguments, **named)
            looks.append(name)
            return outcome

        return look

    async def have_looked() -> bool:
        return waiters.waiting == 300 and not waiters._reads._usual._waiting and "load" in looks

    monkeypatch.setattr(standing, "load_all", counting("load", standing.load_all))
    monkeypatch.setattr(expectations, "changed", counting("changed", expectations.changed))
    waits = [
        asyncio.create_task(waiters.read("default", expectation.id, wait_s=25)) for _ in range(300)
    ]
    await room.desk.until(have_looked)
    # What came before it was served by the same read, or an earlier one.
    await waiters.read("default", expectation.id)
    assert looks.count("load") < 10
    looks.clear()
    for _ in range(3):
        await waiters._look()

    assert "load" not in looks
    # One for each of ours, and those of the loop meanwhile.
    assert 3 <= looks.count("changed") < 100
    waiters.release()
    assert {(await one)[1].state for one in waits} == {ExpectationState.PENDING}
    assert "load" not in looks, "who is sent away does not look again"


async def test_a_hint_that_was_lost_costs_a_moment(room: WaitingRoom) -> None:
    expectation = await room.open()
    waiters = room.desk.service.expectations.waiters
    waiting = asyncio.create_task(waiters.read("default", expectation.id, wait_s=25))
    await room.desk.until(lambda: room.are_waiting(1))
    room.change(publish=lambda _: None)

    await room.send(code_mail("734120"))

    assert (await waiting)[1].state is ExpectationState.READY


async def test_a_waiter_that_leaves_is_forgotten(room: WaitingRoom) -> None:
    expectation = await room.open()
    waiters = room.desk.service.expectations.waiters
    waiting = asyncio.create_task(waiters.read("default", expectation.id, wait_s=25))
    await room.desk.until(lambda: room.are_waiting(1))

    waiting.cancel()
    await asyncio.gather(waiting, return_exceptions=True)

    assert waiters.waiting == 0


async def test_another_workspace_has_no_such_expectation(room: WaitingRoom) -> None:
    expectation = await room.open()

    with pytest.raises(MissingError):
        await room.desk.service.expectations.waiters.read("other", expectation.id)


async def test_who_is_parked_is_called_once_when_it_may_have_changed(room: WaitingRoom) -> None:
    expectation = await room.open()
    waiters = room.desk.service.expectations.waiters
    wait = await waiters.look("default", expectation.id, waits=True)
    assert isinstance(wait, ExpectationWait)
    called = asyncio.Event()
    wait.then(called.set)
    assert waiters.waiting == 1

    await room.accept(code_mail("734120"))
    await asyncio.wait_for(called.wait(), 60)
    wait.close()
    wait.close()

    assert waiters.waiting == 0
    outcome = await waiters.look("default", expectation.id, waits=True)
    assert not isinstance(outcome, ExpectationWait)
    assert outcome[1].state is ExpectationState.READY
    assert waiters.waiting == 0


async def test_a_mail_that_is_held_back_ends_no_wait_before_the_deadline(room: WaitingRoom) -> None:
    expectation = await room.open(ArtifactKind.LINK, link_hosts=("shop.example",))
    waiters = room.desk.service.expectations.waiters
    await room.send(link_mail("https://evil.example/verify?token=1"))
    held_back = await room.settled(expectation)
    waiting = asyncio.create_task(waiters.read("default", expectation.id, wait_s=25))
    parked = await waiters.look("default", expectation.id, waits=True)
    await room.desk.until(lambda: room.are_waiting(2))

    await room.accept(link_mail("https://shop.example/verify?token=1"))

    assert (held_back.state, held_back.is_waiting) == (ExpectationState.QUARANTINED, True)
    assert isinstance(parked, ExpectationWait)
    parked.close()
    assert (await waiting)[1].state is ExpectationState.READY


async def test_at_its_deadline_a_wait_ends_with_what_was_held_back(room: WaitingRoom) -> None:
    expectation = await room.open(ArtifactKind.LINK, link_hosts=("shop.example",))
    waiters = room.desk.service.expectations.waiters
    await room.send(link_mail("https://evil.example/verify?token=1"))
    waiting = asyncio.create_task(waiters.read("default", expectation.id, wait_s=25))
    await room.desk.until(lambda: room.are_waiting(1))

    await room.turn_clock(10_000)

    settled = (await waiting)[1]
    assert (settled.state, settled.is_waiting) == (ExpectationState.QUARANTINED, False)
    assert not isinstance(
        await waiters.look("default", expectation.id, waits=True), ExpectationWait
    )
