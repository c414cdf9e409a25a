"""The database's clock, without a question for each look at it."""

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

    async def now_ms(self) -> int:
        """Give the time by the database's clock.

        Raises: UnavailableError where it must be asked and does not answer.
        """
        now_s = self._clock.monotonic()
        if self._known is None or now_s - self._known[1] > ASK_EVERY_S:
            self._known = ((await self._database.head()).now_ms, self._clock.monotonic())
        base_ms, base_s = self._known
        return base_ms + int((self._clock.monotonic() - base_s) * 1000)
