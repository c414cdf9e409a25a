"""What was found by attacking expectations; each was seen to fail."""

import asyncio
from collections.abc import Callable
from typing import Any

import pytest

from mailonce.core.expectations.consumption import Consumption, ConsumptionState
from mailonce.core.expectations.expectation import ExpectationState
from mailonce.core.expectations.match_mail import match_mail
from mailonce.core.expectations.narrow import NarrowRequest
from mailonce.core.expectations.redemption import RedemptionState
from mailonce.core.extraction.extraction import ArtifactKind
from mailonce.errors import ParseError
from mailonce.inbox.expectations import match_messages as module
from mailonce.inbox.expectations.change_expectation import narrow_expectation
from mailonce.inbox.expectations.consume import confirm, consume
from mailonce.inbox.expectations.redeem import redeem
from mailonce.store.dialects.contract import Tx
from mailonce.store.expectations import consumptions, matches
from mailonce.store.schema.expectation_tables import CONSUMPTIONS
from tests.inbox.expectations.waiting_room import AGENT, WaitingRoom, code_mail, link_mail


async def test_a_mail_that_we_cannot_judge_holds_up_nobody(
    room: WaitingRoom, monkeypatch: pytest.MonkeyPatch
) -> None:
    expectation = await room.open()
    real = match_mail

    def fails(known: object, message: dict[str, str], *, received_ms: int) -> object:
        if "poison" in message["text"]:
            raise RecursionError("a mistake of ours")
        return real(known, message, received_ms=received_ms)  # type: ignore[arg-type]

    monkeypatch.setattr(module, "match_mail", fails)
    await room.send(b"From: a@shop.example\r\nSubject: x\r\n\r\npoison\r\n")
    await room.send(code_mail("734120"))

    known, settled = await room.standing(expectation)

    assert settled.state is ExpectationState.READY
    explained = await room.parts.database.read(
        lambda tx: matches.latest(tx, expectation.id, most=10)
    )
    assert [one.reason for one in explained] == ["unreadable", "found"]
    assert len(known.mails) == 1


async def test_a_flood_of_mail_that_does_not_match_is_not_read_each_time(
    room: WaitingRoom,
) -> None:
    expectation = await room.open(senders=("a@shop.example",))
    await room.send(code_mail("734120", sender="a@shop.example"))
    for number in range(10):
        await room.accept(code_mail(f"{111_000 + number}", sender="b@evil.example"))
    await room.desk.until_done()

    known, settled = await room.standing(expectation)

    assert (settled.state, len(known.mails)) == (ExpectationState.READY, 1)


async def test_a_process_that_was_paused_before_the_request_does_not_make_it(
    room: WaitingRoom, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Meanwhile an operator may have released the link, and another have opened it."""
    endpoint = room.desk.endpoint
    expectation = await room.open(ArtifactKind.LINK, link_hosts=(endpoint.url("/").rstrip("/"),))
    await room.send(link_mail(endpoint.url("/verify/a")))
    await consume(room.parts, AGENT, expectation.id, consume_key="run-1")
    real, clock = room.parts.database.write, room.parts.clock

    async def paused(work: Callable[[Tx], Any]) -> Any:
        outcome = await real(work)
        later = clock.monotonic() + 60
        monkeypatch.setattr(clock, "monotonic", lambda: later)
        return outcome

    with monkeypatch.context() as patch:
        patch.setattr(room.parts.database, "write", paused)
        outcome = await redeem(room.parts, AGENT, expectation.id, consume_key="run-1")

    assert (outcome.state, outcome.reason) == (RedemptionState.NOT_CALLED, "interrupted")
    assert endpoint.requests == []


async def test_a_deadline_that_is_no_number_is_refused(room: WaitingRoom) -> None:
    expectation = await room.open()

    for wrong in (float("nan"), float("inf"), -1.0, 0.0):
        with pytest.raises(ParseError):
            await narrow_expectation(
                room.parts, AGENT, expectation.id, NarrowRequest(deadline_s=wrong)
            )


async def test_of_a_consume_and_a_newer_mail_at_once_one_value_is_handed_out(
    room: WaitingRoom,
) -> None:
    expectation = await room.open()
    await room.send(code_mail("111222"))

    taken, _ = await asyncio.gather(
        consume(room.parts, AGENT, expectation.id, consume_key="run-1"),
        room.send(code_mail("333444")),
    )
    again = await consume(room.parts, AGENT, expectation.id, consume_key="run-1")

    assert taken.value == again.value
    assert taken.consumption == again.consumption


async def test_a_lease_that_ends_while_it_is_confirmed_is_confirmed(room: WaitingRoom) -> None:
    """The sweep marks it as unconfirmed between the look and the write of whoever confirms."""
    opened = [await room.open(subject=f"agent-{number}") for number in range(12)]
    await room.send(code_mail("734120"))
    for one in opened:
        await consume(room.parts, AGENT, one.id, consume_key="run-1")
    await room.turn_clock(121)
    sweep = room.desk.service.expectations.sweep

    outcomes = await asyncio.gather(
        *(confirm(room.parts, AGENT, one.id, consume_key="run-1", accepted=True) for one in opened),
        *(sweep.run() for _ in range(4)),
        return_exceptions=True,
    )

    assert [one for one in outcomes if isinstance(one, BaseException)] == []
    assert {row["state"] for row in await room.desk.rows(CONSUMPTIONS)} == {"accepted"}


async def test_a_lease_is_not_marked_past_whoever_confirms_it(
    room: WaitingRoom, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The same, with the sweep between the two for certain."""
    expectation = await room.open()
    await room.send(code_mail("734120"))
    taken = await consume(room.parts, AGENT, expectation.id, consume_key="run-1")
    await room.turn_clock(121)
    real = consumptions.end

    def overtaken(tx: Tx, known: Consumption, state: ConsumptionState, *, now_ms: int) -> bool:
        monkeypatch.setattr(consumptions, "end", real)
        real(tx, known, ConsumptionState.UNCONFIRMED, now_ms=now_ms)
        return real(tx, known, state, now_ms=now_ms)

    monkeypatch.setattr(consumptions, "end", overtaken)
    done = await confirm(room.parts, AGENT, expectation.id, consume_key="run-1", accepted=True)

    assert done.consumption.state is ConsumptionState.ACCEPTED
    assert taken.consumption.token == done.consumption.token
