"""Many who ask at once are served by few reads, and none by one that began before they asked."""

import asyncio
from collections.abc import Sequence

import pytest

from mailonce.core.expectations.expectation import ExpectationState
from mailonce.errors import UnavailableError
from mailonce.inbox.expectations.shared_reads import SharedReads, Standings
from mailonce.inbox.read_queue import READ_MAX
from tests.inbox.expectations.waiting_room import WaitingRoom, code_mail


class ReadLog:
    """Lets reads pass one at a time, and knows what they were for."""

    def __init__(self, reads: SharedReads, monkeypatch: pytest.MonkeyPatch) -> None:
        self.reads: list[Sequence[bytes]] = []
        self.may_read = asyncio.Event()
        self.may_read.set()
        self.broken: set[bytes] = set()
        self.error: Exception | None = None
        self._load = reads._usual._load
        monkeypatch.setattr(reads._usual, "_load", self._log)

    async def _log(self, ids: Sequence[bytes]) -> Standings:
        self.reads.append(ids)
        known = await self._load(ids)
        await self.may_read.wait()
        if self.error is not None:
            raise self.error
        if self.broken & set(ids):
            raise ValueError("of a row that cannot be read")
        return known


@pytest.fixture
def reads(room: WaitingRoom) -> SharedReads:
    return SharedReads(room.desk.service.database)


@pytest.fixture
def log(reads: SharedReads, monkeypatch: pytest.MonkeyPatch) -> ReadLog:
    return ReadLog(reads, monkeypatch)


async def begin(reads: SharedReads, log: ReadLog, id_: bytes) -> "asyncio.Task[object]":
    """Ask, and come back when the read is under way."""
    log.may_read.clear()
    task: asyncio.Task[object] = asyncio.create_task(reads.read("default", id_, is_urgent=False))
    while not log.reads:
        await asyncio.sleep(0)
    return task


async def test_all_who_ask_while_a_read_is_under_way_share_the_next(
    room: WaitingRoom, reads: SharedReads, log: ReadLog
) -> None:
    opened = [await room.open() for _ in range(5)]
    first = await begin(reads, log, opened[0].id)
    asked = [
        asyncio.create_task(reads.read("default", one.id, is_urgent=False))
        for one in opened
        for _ in range(20)
    ]
    await asyncio.sleep(0)

    log.may_read.set()
    known = await asyncio.gather(*asked)
    await first

    assert [len(ids) for ids in log.reads] == [1, 5]
    ids = [None if one is None else one.expectation.id for one in known]
    assert ids == [one.id for one in opened for _ in range(20)]


async def test_who_asks_during_a_read_does_not_get_what_it_saw_before(
    room: WaitingRoom, reads: SharedReads, log: ReadLog
) -> None:
    expectation = await room.open()
    early = asyncio.create_task(reads.read("default", expectation.id, is_urgent=False))
    log.may_read.clear()
    while not log.reads:
        await asyncio.sleep(0)
    # It has looked, and is not done yet, when the mail comes.
    await room.send(code_mail("734120"))
    late = asyncio.create_task(reads.read("default", expectation.id, is_urgent=False))
    await asyncio.sleep(0)

    log.may_read.set()
    known = await late

    assert known is not None
    assert known.settle(now_ms=0).state is ExpectationState.READY
    assert len(log.reads) == 2
    await early


async def test_a_read_is_short_however_many_ask(
    room: WaitingRoom, reads: SharedReads, log: ReadLog
) -> None:
    expectation = await room.open()
    unknown = [number.to_bytes(16, "big") for number in range(3 * READ_MAX - 1)]

    known = await asyncio.gather(
        *(reads.read("default", id_, is_urgent=False) for id_ in [*unknown, expectation.id])
    )

    assert [len(ids) for ids in log.reads] == [READ_MAX] * 3
    assert known[:-1] == [None] * len(unknown)
    assert known[-1] is not None


async def test_what_cannot_be_read_harms_nobody_else(
    room: WaitingRoom, reads: SharedReads, log: ReadLog
) -> None:
    opened = [await room.open() for _ in range(7)]
    log.broken = {opened[3].id}

    known = await asyncio.gather(
        *(reads.read("default", one.id, is_urgent=False) for one in opened),
        return_exceptions=True,
    )

    assert isinstance(known[3], ValueError)
    assert not any(isinstance(one, BaseException) for n, one in enumerate(known) if n != 3)


async def test_where_the_database_is_away_all_are_told_at_once(
    room: WaitingRoom, reads: SharedReads, log: ReadLog
) -> None:
    opened = [await room.open() for _ in range(7)]
    log.error = UnavailableError("the database is away")

    known = await asyncio.gather(
        *(reads.read("default", one.id, is_urgent=False) for one in opened),
        return_exceptions=True,
    )
    log.error = None
    again = await reads.read("default", opened[0].id, is_urgent=False)

    assert [type(one) for one in known] == [UnavailableError] * 7
    # Not one by one: each try may last until its time limit.
    assert len(log.reads) == 2
    assert again is not None


async def test_who_hangs_up_during_a_read_takes_nobody_along(
    room: WaitingRoom, reads: SharedReads, log: ReadLog
) -> None:
    expectation = await room.open()
    gone = await begin(reads, log, expectation.id)
    asked = [
        asyncio.create_task(reads.read("default", expectation.id, is_urgent=False))
        for _ in range(2)
    ]
    await asyncio.sleep(0)

    gone.cancel()
    asked[0].cancel()
    log.may_read.set()

    assert await asked[1] is not None
    assert gone.cancelled() or gone.cancelling()


async def test_an_expectation_of_another_workspace_is_none(
    room: WaitingRoom, reads: SharedReads
) -> None:
    expectation = await room.open()

    mine, others = await asyncio.gather(
        reads.read("default", expectation.id, is_urgent=False),
        reads.read("other", expectation.id, is_urgent=False),
    )

    assert mine is not None
    assert others is None
