"""Deadlines and leases end by themselves, and ends are events that routes forward once."""

import asyncio
from typing import Any

import orjson
from sqlalchemy import update

from mailonce.core.expectations.consumption import ConsumptionState
from mailonce.core.expectations.expectation import ExpectationState
from mailonce.inbox.expectations.consume import confirm, consume
from mailonce.store.schema.expectation_tables import CONSUMPTION_ACTS, CONSUMPTIONS, EXPECTATIONS
from mailonce.store.schema.tables import DELIVERIES, EVENTS, HEAD
from mailonce.store.work import clock_step
from tests.inbox.expectations.waiting_room import AGENT, WaitingRoom, code_mail


async def test_an_expectation_expires_and_a_route_hears_of_it_once(room: WaitingRoom) -> None:
    await room.desk.add_route(events=["other"])
    expectation = await room.open(deadline_s=60)
    await room.turn_clock(61)

    for _ in range(3):
        await room.desk.service.expectations.sweep.run()
    await room.desk.until_done()

    assert (await room.settled(expectation)).state is ExpectationState.EXPIRED
    [event] = await room.desk.rows(EVENTS)
    assert (event["type"], event["source"]) == ("other", "expectations")
    assert len(await room.desk.rows(DELIVERIES)) == 1
    [request] = room.desk.endpoint.requests
    body: dict[str, Any] = orjson.loads(request.body)
    assert body["reason"] == "expectation_expired"
    assert body["metadata"]["inbox"] == room.inbox


async def test_a_waiter_is_woken_when_it_expires(room: WaitingRoom) -> None:
    expectation = await room.open(deadline_s=60)
    waiters = room.desk.service.expectations.waiters
    waiting = asyncio.create_task(waiters.read("default", expectation.id, wait_s=25))
    await room.desk.until(lambda: room.are_waiting(1))
    await room.turn_clock(61)

    await room.desk.service.expectations.sweep.run()

    assert (await waiting)[1].state is ExpectationState.EXPIRED
    assert waiters.waiting == 0


async def test_late_mail_does_not_revive_it(room: WaitingRoom) -> None:
    expectation = await room.open(deadline_s=60)
    await room.turn_clock(61)
    await room.desk.service.expectations.sweep.run()

    await room.send(code_mail("734120"))

    assert (await room.settled(expectation)).state is ExpectationState.EXPIRED


async def test_a_lease_that_ends_stays_with_whoever_had_it(room: WaitingRoom) -> None:
    expectation = await room.open()
    await room.send(code_mail("734120"))
    first = await consume(room.parts, AGENT, expectation.id, consume_key="run-1")
    await room.turn_clock(121)

    for _ in range(2):
        await room.desk.service.expectations.sweep.run()

    [row] = await room.desk.rows(CONSUMPTIONS)
    assert row["state"] == ConsumptionState.UNCONFIRMED
    assert (await room.settled(expectation)).state is ExpectationState.CONSUMED
    again = await consume(room.parts, AGENT, expectation.id, consume_key="run-1")
    assert (again.value, again.consumption.token) == (first.value, 1)
    done = await confirm(room.parts, AGENT, expectation.id, consume_key="run-1", accepted=True)
    assert done.consumption.state is ConsumptionState.ACCEPTED
    acts = [row["act"] for row in await room.desk.rows(CONSUMPTION_ACTS)]
    assert sorted(acts) == ["accept", "consume", "lapse"]


async def test_what_is_old_is_forgotten_and_nothing_else(room: WaitingRoom) -> None:
    expectation = await room.open()
    await room.send(code_mail("734120"))
    await consume(room.parts, AGENT, expectation.id, consume_key="run-1")
    sweep = room.desk.service.expectations.sweep

    await sweep.forget()
    assert len(await room.desk.rows(EXPECTATIONS)) == 1
    await room.turn_clock(401 * 86_400)
    await sweep.forget()

    assert await room.desk.rows(EXPECTATIONS) == await room.desk.rows(CONSUMPTIONS) == []


async def test_with_the_inbox_go_the_values_but_not_who_had_them(room: WaitingRoom) -> None:
    expectation = await room.open()
    waiting = await room.open(senders=("x@y.example",))
    await room.send(code_mail("734120"))
    await consume(room.parts, AGENT, expectation.id, consume_key="run-1")

    await room.delete_inbox()

    assert (await room.settled(waiting)).reason == "inbox_deleted"
    assert (await room.settled(expectation)).state is ExpectationState.CONSUMED
    assert [row["sealed"] for row in await room.sealed()] == [None]
    assert len(await room.desk.rows(CONSUMPTIONS)) == 1


async def test_a_clock_that_is_set_back_makes_nothing_last_longer(room: WaitingRoom) -> None:
    """An hour back: leases and deadlines end when they were meant to, by the new clock."""
    waiting = await room.open(senders=("x@y.example",))
    expectation = await room.open()
    await room.send(code_mail("734120"))
    before = await consume(room.parts, AGENT, expectation.id, consume_key="run-1")
    database = room.parts.database
    now_ms = await room.parts.now_ms()
    hour_ms = 3_600_000
    # The clock said an hour more when it was noted last.
    note = update(HEAD).values(clock_ms=now_ms + hour_ms)
    await database.write(lambda tx: tx.execute(note) and None)
    await database.write(lambda tx: clock_step.mend(tx, now_ms=now_ms))

    known, _ = await room.standing(waiting)
    [row] = await room.desk.rows(CONSUMPTIONS)

    back_ms = waiting.deadline_ms - known.expectation.deadline_ms
    assert abs(back_ms - hour_ms) < 60_000
    assert before.consumption.lease_ms - row["lease_ms"] == back_ms
    again = await consume(room.parts, AGENT, expectation.id, consume_key="run-1")
    assert again.value == "734120", "an earlier end takes nothing from whoever had it"
