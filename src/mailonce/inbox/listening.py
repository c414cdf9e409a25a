"""Listening: whoever runs the SMTP door says so every other second, in the database.

What is stored is what counts: a process that cannot write says nothing, and what cannot be written
cannot be accepted either. So a door that only looks healthy leaves a gap.
"""

from functools import partial

from mailonce.clock import Clock
from mailonce.core.inboxes.listening import gap_free_since
from mailonce.loop import Loop
from mailonce.store.dialects.contract import Database, Priority
from mailonce.store.inboxes import listeners

# Each costs a commit, also of a server to which nobody sends mail; see `ALIVE_MS`.
BEAT_S = 2.0
RETRY_S = 1.0
# How long an answer is believed: thousands may ask in a second.
REMEMBER_S = 1.0


class Listening:
    """What this process says of its own door, and what is known of all doors together."""

    def __init__(self, database: Database, clock: Clock, process: bytes) -> None:
        self._database = database
        self._clock = clock
        self._process = process
        self._loop = Loop("listening", self._beat, retry_s=RETRY_S)
        self._known: tuple[int | None, float] | None = None
        # Call it once the door listens, and `stop` when it no longer does.
        self.start = self._loop.start

    async def stop(self) -> None:
        """Say no more that this process listens."""
        await self._loop.stop()

    async def since_ms(self) -> int | None:
        """Give since when some door listened without a gap, by the database's clock.

        Raises: UnavailableError.
        """
        now_s = self._clock.monotonic()
        if self._known is None or now_s - self._known[1] > REMEMBER_S:
            now_ms = (await self._database.head()).now_ms
            periods = await self._database.read(listeners.periods)
            self._known = gap_free_since(periods, now_ms=now_ms), now_s
        return self._known[0]

    async def beat(self) -> None:
        """Store that this process's door listens."""
        now_ms = (await self._database.head()).now_ms
        work = partial(listeners.beat, process=self._process, now_ms=now_ms)
        await self._database.write(work, priority=Priority.WORKER)

    async def _beat(self) -> float:
        await self.beat()
        return BEAT_S
