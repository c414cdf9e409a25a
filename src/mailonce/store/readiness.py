"""Readiness: whether the database commits a write now, as the door needs it.

Any client may call it, so it writes at most once a second: calls in between share its
outcome. A database that is read-only, full, frozen or waits for a standby is not ready, although
it may well answer queries.
"""

import asyncio
from collections.abc import Callable

from mailonce.store.dialects.contract import Database, DatabaseUnavailableError

TIMEOUT_S = 3
EVERY_S = 1.0


class Readiness:
    """One process's view of whether it can write."""

    def __init__(
        self, database: Database, *, process: bytes, monotonic: Callable[[], float]
    ) -> None:
        self._database = database
        self._process = process
        self._monotonic = monotonic
        self._probing: asyncio.Task[None] | None = None
        self._began_s = 0.0

    async def check(self) -> None:
        """Check that a write commits.

        Raises: UnavailableError where it does not, or not in time.
        """
        now_s = self._monotonic()
        if self._probing is None or (self._probing.done() and now_s - self._began_s >= EVERY_S):
            self._began_s = now_s
            self._probing = asyncio.create_task(self._probe(), name="readiness")
        await asyncio.shield(self._probing)

    async def _probe(self) -> None:
        try:
            await asyncio.wait_for(self._database.probe(self._process), TIMEOUT_S)
        except TimeoutError as error:
            raise DatabaseUnavailableError(
                f"the database did not take a write within {TIMEOUT_S} s; look at it"
            ) from error
