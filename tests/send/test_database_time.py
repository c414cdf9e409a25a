"""The database's clock is asked seldom, and once for all who want to know it."""

import asyncio

from mailonce.send.database_time import ASK_EVERY_S, KNOWN_S_MAX, DatabaseTime
from mailonce.store.dialects.contract import Database, Head
from tests.clock import ManualClock


class CountedHeads:
    """A database that counts who asks for its head."""

    def __init__(self, database: Database) -> None:
        self._database = database
        self.asked = 0

    async def head(self) -> Head:
        self.asked += 1
        return await self._database.head()


async def test_a_hundred_at_once_share_one_look_each_second(database: Database) -> None:
    heads, clock = CountedHeads(database), ManualClock()
    time = DatabaseTime(heads, clock)  # type: ignore[arg-type]

    first = await asyncio.gather(*(time.now_ms() for _ in range(100)))
    await time.now_ms()
    clock.advance(ASK_EVERY_S * 2)
    await asyncio.gather(*(time.now_ms() for _ in range(100)))

    assert len(set(first)) == 1
    assert heads.asked == 2


async def test_a_caller_that_leaves_takes_the_look_from_nobody(database: Database) -> None:
    heads, clock = CountedHeads(database), ManualClock()
    time = DatabaseTime(heads, clock)  # type: ignore[arg-type]
    leaving, staying = (asyncio.create_task(time.now_ms()) for _ in range(2))
    await asyncio.sleep(0)

    leaving.cancel()

    assert await staying > 0
    assert heads.asked == 1


async def test_who_does_not_wait_goes_on_by_what_was_told_lately(database: Database) -> None:
    heads, clock = CountedHeads(database), ManualClock()
    time = DatabaseTime(heads, clock)  # type: ignore[arg-type]
    assert time.known_ms() is None
    told = await time.now_ms()

    clock.advance(0.5)
    soon = time.known_ms()
    clock.advance(ASK_EVERY_S)
    later = [time.known_ms() for _ in range(100)]
    asked_before = heads.asked
    await time.now_ms()

    assert soon == told + 500
    assert set(later) == {told + 1_500}
    assert (asked_before, heads.asked) == (1, 2)
    clock.advance(KNOWN_S_MAX + ASK_EVERY_S)
    assert time.known_ms() is None
    assert await time.now_ms() > 0
