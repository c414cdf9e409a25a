"""The database's clock is asked seldom, and once for all who want to know it."""

import asyncio

from mailonce.send.database_time import ASK_EVERY_S, DatabaseTime
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
