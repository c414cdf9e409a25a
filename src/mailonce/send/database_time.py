"""The database's clock, without a question for each look at it."""

import asyncio

from mailonce.clock import Clock
from mailonce.store.dialects.contract import Database

ASK_EVERY_S = 1.0


class DatabaseTime:
    """Asks the database at most once a second, and counts on by the clock that nobody sets."""

    def __init__(self, database: Database, clock: Clock) -> None:
        self._database = database
        self._clock = clock
        # What the database said, and when that was.
        self._known: tuple[int, float] | None = None
        self._asking: asyncio.Task[None] | None = None

    async def now_ms(self) -> int:
        """Give the time by the database's clock; callers at the same time share one look.

        Raises: UnavailableError where it must be asked and does not answer.
        """
        known = self._known
        if known is None or self._clock.monotonic() - known[1] > ASK_EVERY_S:
            if self._asking is None or self._asking.done():
                self._asking = asyncio.create_task(self._ask(), name="database time")
            await asyncio.shield(self._asking)
            known = self._known
            assert known is not None, "it was just asked"
        base_ms, base_s = known
        return base_ms + int((self._clock.monotonic() - base_s) * 1000)

    async def _ask(self) -> None:
        head = await self._database.head()
        self._known = (head.now_ms, self._clock.monotonic())
