"""A value is handed out once: to one consume key, again and again, and to nobody else."""

import asyncio

import pytest

from mailonce.core.access import Caller
from mailonce.core.expectations.consumption import ConsumptionState
from mailonce.core.expectations.expectation import ExpectationState
from mailonce.core.ids import public
from mailonce.core.moment import moment
from mailonce.errors import ClashError, MissingError
from mailonce.inbox.expectations.consume import (
    ConsumedError,
    ConsumedValue,
    LeaseReleasedError,
    NotReadyError,
    RejectedValueError,
    confirm,
    consume,
    release,
)
from mailonce.store.schema.expectation_tables import ARTIFACTS, CONSUMPTIONS, EXPECTATION_MAILS
from tests.inbox.expectations.waiting_room import AGENT, OPERATOR, WaitingRoom, code_mail


async def take(room: WaitingRoom, id_: bytes, key: str, caller: Caller = AGENT) -> ConsumedValue:
    return await consume(room.parts, caller, id_, consume_key=key)


async def test_the_code_of_a_mail_is_consumed_once(room: WaitingRoom) -> None:
    expectation = await room.open()
    with pytest.raises(NotReadyError):
        await take(room, expectation.id, "run-1")
    await room.send(code_mail("734120"))

    first = await take(room, expectation.id, "run-1")
    again = await take(room, expectation.id, "run-1")

    assert (first.value, again.value) == ("734120", "734120")
    assert first.consumption == again.consumption
    with pytest.raises(ConsumedError) as other:
        await take(room, expectation.id, "run-2")
    assert "retry_at" in other.value.members
    with pytest.raises(ConsumedError):
        # The key is the caller's own: another API key with the same word is somebody else.
        await take(room, expectation.id, "run-1", OPERATOR)
    assert (await room.settled(expectation)).state is ExpectationState.CONSUMED


async def test_of_twenty_agents_at_once_one_gets_the_code(room: WaitingRoom) -> None:
    expectation = await room.open()
    await room.send(code_mail("734120"))

    outcomes = await asyncio.gather(
        *(take(room, expectation.id, f"run-{n}") for n in range(20)), return_exceptions=True
    )

    taken = [one for one in outcomes if isinstance(one, ConsumedValue)]
    assert [one.value for one in taken] == ["734120"]
    assert [type(one) for one in outcomes].count(ConsumedError) == 19
    assert len(await room.desk.rows(CONSUMPTIONS)) == 1


async def test_a_value_of_the_same_subject_is_one_artifact_for_two_expectations(
    room: WaitingRoom,
) -> None:
    """A resend without rotation: another mail, another expectation, the same code."""
    first = await room.open()
    await room.send(code_mail("734120"))
    await take(room, first.id, "run-1")
    second = await room.open()
    await room.send(code_mail("734120", Date="Tue, 17 Nov 2099 08:00:00 +0000"))

    settled = await room.settled(second)

    assert settled.state is ExpectationState.CONSUMED
    with pytest.raises(ConsumedError):
        await take(room, second.id, "run-2")
    assert len(await room.desk.rows(ARTIFACTS)) == 1
    assert len(await room.desk.rows(EXPECTATION_MAILS)) == 3


async def test_a_rejected_value_makes_room_for_the_next(room: WaitingRoom) -> None:
    expectation = await room.open()
    await room.send(code_mail("111222"))
    await room.send(code_mail("333444"))
    await take(room, expectation.id, "run-1")

    rejected = await confirm(room.parts, AGENT, expectation.id, consume_key="run-1", accepted=False)

    assert rejected.settled.state is ExpectationState.READY
    with pytest.raises(RejectedValueError):
        await take(room, expectation.id, "run-1")
    assert (await take(room, expectation.id, "run-2")).value == "111222"
    last = await confirm(room.parts, AGENT, expectation.id, consume_key="run-2", accepted=False)
    assert last.settled.state is ExpectationState.EXHAUSTED


async def test_a_confirmation_is_kept_once_and_reports_what_came_later(room: WaitingRoom) -> None:
    expectation = await room.open()
    await room.send(code_mail("111222"))
    await take(room, expectation.id, "run-1")
    await room.send(code_mail("333444"))
    assert (await take(room, expectation.id, "run-1")).value == "111222"

    first = await confirm(room.parts, AGENT, expectation.id, consume_key="run-1", accepted=True)
    again = await confirm(room.parts, AGENT, expectation.id, consume_key="run-1", accepted=True)

    assert first.consumption.state is ConsumptionState.ACCEPTED
    assert first.consumption == again.consumption
    assert len(first.superseding) == 1
    assert first.superseding[0] != first.consumption.artifact
    with pytest.raises(ClashError):
        await confirm(room.parts, AGENT, expectation.id, consume_key="run-1", accepted=False)
    with pytest.raises(MissingError):
        await confirm(room.parts, AGENT, expectation.id, consume_key="run-9", accepted=True)
    assert (await room.settled(expectation)).state is ExpectationState.CONSUMED


async def test_who_comes_after_a_confirmation_hears_of_it(room: WaitingRoom) -> None:
    expectation = await room.open()
    await room.send(code_mail("734120"))
    taken = (await take(room, expectation.id, "run-1")).consumption
    with pytest.raises(ConsumedError, match="see at `retry_at` what became of it"):
        await take(room, expectation.id, "run-2")
    confirmed = await confirm(room.parts, AGENT, expectation.id, consume_key="run-1", accepted=True)

    with pytest.raises(ConsumedError) as other:
        await take(room, expectation.id, "run-2")
    again = (await take(room, expectation.id, "run-1")).consumption

    consumed_at, confirmed_at = moment(taken.leased_ms), moment(confirmed.consumption.ended_ms)
    assert other.value.members == {"consumed_at": consumed_at, "confirmed_at": confirmed_at}
    assert f"consumed it at {consumed_at} and confirmed it at {confirmed_at};" in str(other.value)
    assert "release" not in str(other.value), "what was confirmed cannot be released"
    assert moment(again.confirmed_ms) == confirmed_at
    with pytest.raises(ClashError, match=f"it was accepted at {confirmed_at}, and stays that"):
        await confirm(room.parts, AGENT, expectation.id, consume_key="run-1", accepted=False)


async def test_who_comes_after_a_lease_that_ended_hears_that(room: WaitingRoom) -> None:
    expectation = await room.open()
    await room.send(code_mail("734120"))
    taken = (await take(room, expectation.id, "run-1")).consumption
    now_ms = taken.lease_ms + 1

    error = ConsumedError(taken, now_ms=now_ms)

    assert str(error).endswith("and did not confirm it; an operator may release it")
    assert error.members == {"consumed_at": moment(taken.leased_ms)}


async def test_an_operator_releases_what_nobody_confirmed(room: WaitingRoom) -> None:
    expectation = await room.open()
    await room.send(code_mail("734120"))
    taken = await take(room, expectation.id, "run-1")

    released = await release(room.parts, OPERATOR, taken.consumption.id)

    assert released.state is ConsumptionState.RELEASED
    with pytest.raises(LeaseReleasedError):
        await confirm(room.parts, AGENT, expectation.id, consume_key="run-1", accepted=True)
    with pytest.raises(LeaseReleasedError):
        await take(room, expectation.id, "run-1")
    later = await take(room, expectation.id, "run-2")
    assert (later.value, later.consumption.token) == ("734120", 2)
    assert public("con", later.consumption.id) != public("con", taken.consumption.id)
