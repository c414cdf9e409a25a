"""Mail is judged once by each expectation that was open when it came."""

import asyncio

import pytest

from mailonce.core.expectations.expectation import ExpectationState
from mailonce.core.extraction.extraction import ArtifactKind
from mailonce.errors import UnavailableError
from mailonce.inbox.expectations import match_messages as module
from mailonce.inbox.expectations.match_messages import match_messages
from mailonce.store.expectations import matches
from mailonce.store.schema.expectation_tables import ARTIFACTS, EXPECTATION_MAILS
from mailonce.store.schema.mail_tables import MAILS
from tests.inbox.expectations.waiting_room import WaitingRoom, code_mail, link_mail

READY, PENDING = ExpectationState.READY, ExpectationState.PENDING


async def test_older_mail_does_not_count_and_mail_before_the_first_wait_does(
    room: WaitingRoom,
) -> None:
    await room.send(code_mail("111222"))
    expectation = await room.open()
    assert (await room.settled(expectation)).state is PENDING

    await room.send(code_mail("333444"))

    settled = await room.settled(expectation)
    assert (settled.state, settled.candidates) == (READY, 1)


async def test_the_newer_of_two_codes_wins_whichever_is_read_first(room: WaitingRoom) -> None:
    expectation = await room.open()
    for code in ("111222", "333444"):
        await room.accept(code_mail(code))
    await room.desk.until_done()

    settled = await room.settled(expectation)

    assert settled.offer is not None
    assert (settled.state, settled.offer.match.seq) == (READY, 2)


async def test_judging_twice_at_once_changes_nothing(room: WaitingRoom) -> None:
    expectation = await room.open()
    await room.send(code_mail("734120"))

    await asyncio.gather(*(match_messages(room.parts, room.inbox) for _ in range(10)))

    assert (await room.settled(expectation)).candidates == 1
    assert len(await room.desk.rows(EXPECTATION_MAILS)) == 1
    assert len(await room.desk.rows(ARTIFACTS)) == 1


async def test_a_crash_between_message_and_verdict_is_made_good(
    room: WaitingRoom, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The mail's own work is not done before its expectations have judged it."""
    expectation = await room.open()
    real, crashes = module.match_expectation, [1]

    async def dies_once(*arguments: object) -> None:
        if crashes:
            crashes.pop()
            raise UnavailableError("the process died here")
        await real(*arguments)  # type: ignore[arg-type]

    monkeypatch.setattr(module, "match_expectation", dies_once)
    await room.send(code_mail("734120"))

    assert (await room.settled(expectation)).state is READY
    [mail] = await room.desk.rows(MAILS)
    assert mail["attempts"] == 2


async def test_each_expectation_of_an_inbox_judges_for_itself(room: WaitingRoom) -> None:
    code = await room.open()
    link = await room.open(ArtifactKind.LINK, link_hosts=("shop.example",))
    other = await room.open(senders=("x@other.example",))

    await room.send(code_mail("734120"))
    await room.send(link_mail("https://shop.example/verify?token=abc"))

    assert (await room.settled(code)).state is READY
    assert (await room.settled(link)).state is READY
    assert (await room.settled(other)).state is PENDING
    judged = await room.parts.database.read(lambda tx: matches.latest(tx, other.id, most=10))
    assert [one.reason for one in judged] == ["other_sender", "other_sender"]


async def test_values_stand_nowhere_in_the_clear(room: WaitingRoom) -> None:
    await room.open()
    await room.send(code_mail("734120"))

    for table in (ARTIFACTS, EXPECTATION_MAILS):
        for row in await room.desk.rows(table):
            assert b"734120" not in b"".join(
                bytes(value) for value in row.values() if isinstance(value, bytes | memoryview)
            )
            assert "734120" not in str([one for one in row.values() if isinstance(one, str)])


async def test_mail_that_comes_while_it_is_opened_counts_exactly_once(room: WaitingRoom) -> None:
    """Whichever is first, the number that the inbox gives decides."""
    accepting = [asyncio.create_task(room.accept(code_mail(f"11122{n}"))) for n in range(5)]
    opened = await room.open(resends=20)
    await asyncio.gather(*accepting)
    await room.desk.until_done()

    standing, _ = await room.standing(opened)

    judged = [one.seq for one in standing.mails]
    assert judged == list(range(opened.watermark + 1, 6))
