"""Expectations read for all who ask at the same time: one read serves many of them.

Thousands of requests may wait, and each looks when it begins and when its time is over. Who asks
while a read is under way is served by the next one, together with all who came meanwhile. Never by
the one under way: it may have looked before that happened by which somebody was woken.

There are two queues, each with one read at a time. Who was woken, because something happened, has
one of their own: they do not stand behind those who just ask again. A read is short, so that what
follows it, for all whom it serves, keeps the event loop for some milliseconds.
"""

import asyncio
from collections.abc import Awaitable, Callable, Sequence
from functools import partial
from itertools import islice

from mailonce.errors import UnavailableError
from mailonce.store.dialects.contract import Database
from mailonce.store.expectations import standing
from mailonce.store.expectations.standing import ExpectationStanding

# Expectations of one read.
READ_MAX = 64
# How long a read for several is followed by none, so that the next one serves more: thousands who
# ask again are in no hurry, and most of what a read takes does not depend on how many it serves.
REST_S = 0.02

Standings = dict[bytes, ExpectationStanding]


class SharedReads:
    """Reads expectations for all who ask through this process."""

    def __init__(self, database: Database) -> None:
        load = partial(_load, database)
        self._usual = _ReadQueue(load, rest_s=REST_S)
        self._urgent = _ReadQueue(load)

    async def read(
        self, workspace: str, id_: bytes, *, is_urgent: bool
    ) -> ExpectationStanding | None:
        """Read an expectation as it stands now, or later; None where there is none.

        Raises: UnavailableError.
        """
        queue = self._urgent if is_urgent else self._usual
        known = await queue.ask(id_)
        return None if known is None or known.expectation.workspace != workspace else known


class _ReadQueue:
    """Those who wait for the next read, by what they ask for."""

    def __init__(
        self, load: Callable[[Sequence[bytes]], Awaitable[Standings]], *, rest_s: float = 0
    ) -> None:
        self._load = load
        self._rest_s = rest_s
        self._waiting: dict[bytes, list[asyncio.Future[ExpectationStanding | None]]] = {}
        self._reading: asyncio.Task[None] | None = None

    def ask(self, id_: bytes) -> "asyncio.Future[ExpectationStanding | None]":
        """Stand in the queue; the first one begins to read."""
        future = asyncio.get_running_loop().create_future()
        self._waiting.setdefault(id_, []).append(future)
        if self._reading is None:
            self._reading = asyncio.create_task(self._read_all(), name="expectation reads")
        return future

    async def _read_all(self) -> None:
        try:
            while self._waiting:
                ids = list(islice(self._waiting, READ_MAX))
                # Taken out before the read begins: who asks from now on is served by the next one.
                await self._serve({id_: self._waiting.pop(id_) for id_ in ids})
                if self._rest_s and len(ids) > 1 and len(self._waiting) < READ_MAX:
                    await asyncio.sleep(self._rest_s)
        finally:
            self._reading = None

    async def _serve(
        self, askers: "dict[bytes, list[asyncio.Future[ExpectationStanding | None]]]"
    ) -> None:
        ids = list(askers)
        try:
            known = await self._load(ids)
        except asyncio.CancelledError:
            for future in _open(askers):
                future.cancel()
            raise
        except Exception as error:  # noqa: BLE001 - whoever asked is told
            if len(ids) > 1 and not isinstance(error, UnavailableError):
                # What cannot be read stands alone at last, and harms nobody else.
                half = len(ids) // 2
                await self._serve({id_: askers[id_] for id_ in ids[:half]})
                await self._serve({id_: askers[id_] for id_ in ids[half:]})
                return
            for future in _open(askers):
                future.set_exception(error)
            return
        for id_, futures in askers.items():
            for future in futures:
                if not future.done():
                    future.set_result(known.get(id_))


def _open(
    askers: "dict[bytes, list[asyncio.Future[ExpectationStanding | None]]]",
) -> "list[asyncio.Future[ExpectationStanding | None]]":
    return [future for futures in askers.values() for future in futures if not future.done()]


async def _load(database: Database, ids: Sequence[bytes]) -> Standings:
    return await database.read(partial(standing.load_all, ids=ids))
