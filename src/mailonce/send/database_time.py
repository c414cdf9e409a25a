"""The database's clock, without a question for each look at it."""

import asyncio

from mailonce.clock import Clock
from mailonce.store.dialects.contract import Database

ASK_EVERY_S = 1.0
# Who need not wait goes on by what was told so long ago, while it is asked anew.
KNOWN_S_MAX = 3.0


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
        if self._known is None or self._age_s(self._known) > ASK_EVERY_S:
            await asyncio.shield(self._ask_once())
        assert self._known is not None, "it was asked"
        return self._count_on(self._known)

    def known_ms(self) -> int | None:
        """Give the time without waiting for it; None where it was not told lately."""
        known = self._known
        if known is None:
            return None
        age_s = self._age_s(known)
        if age_s > ASK_EVERY_S:
            self._ask_once()
        return None if age_s > KNOWN_S_MAX else self._count_on(known)

    def _age_s(self, known: tuple[int, float]) -> float:
        return self._clock.monotonic() - known[1]

    def _count_on(self, known: tuple[int, float]) -> int:
        return known[0] + int(self._age_s(known) * 1000)

    def _ask_once(self) -> "asyncio.Task[None]":
        if self._asking is None or self._asking.done():
            self._asking = asyncio.create_task(self._ask(), name="database time")
            # Perhaps nobody waits for it; whoever does is told what went wrong.
            self._asking.add_done_callback(lambda one: one.cancelled() or one.exception())
        return self._asking

    async def _ask(self) -> None:
        head = await self._database.head()
        self._known = (head.now_ms, self._clock.monotonic())
