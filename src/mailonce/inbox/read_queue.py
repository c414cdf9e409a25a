"""Reads for all who ask at the same time: one read serves many of them.

Thousands of requests may wait for mail, and each looks when it begins and when its time is over.
Who asks while a read is under way is served by the next one, together with all who came meanwhile.
Never by the one under way: it may have looked before that happened by which somebody was woken.

A queue has one read at a time. A read is short, so that what follows it, for all whom it serves,
keeps the event loop for some milliseconds.
"""

import asyncio
from collections import Counter
from collections.abc import Awaitable, Callable, Collection, Hashable, Mapping, Sequence
from itertools import islice
from typing import Generic, TypeVar

from mailonce.errors import UnavailableError

# What one read is for.
READ_MAX = 64
# How long a read for several is followed by none, so that the next one serves more: thousands who
# ask again are in no hurry, and most of what a read takes does not depend on how many it serves.
REST_S = 0.02

K = TypeVar("K", bound=Hashable)
V = TypeVar("V")


class ReadQueue(Generic[K, V]):
    """Those who wait for the next read, by what they ask for; `rest_s` follows one for several.

    `load` gives what there is of what was asked for.
    """

    def __init__(
        self, load: Callable[[Sequence[K]], Awaitable[Mapping[K, V]]], *, rest_s: float = 0
    ) -> None:
        self._load = load
        self._rest_s = rest_s
        self._waiting: dict[K, list[asyncio.Future[V | None]]] = {}
        self._reading: asyncio.Task[None] | None = None

    def ask(self, key: K) -> "asyncio.Future[V | None]":
        """Stand in the queue; the first one begins to read. None: there is no such thing.

        What is awaited raises what the read does.
        """
        future = asyncio.get_running_loop().create_future()
        self._waiting.setdefault(key, []).append(future)
        if self._reading is None:
            self._reading = asyncio.create_task(self._read_all(), name="shared reads")
        return future

    async def _read_all(self) -> None:
        try:
            while self._waiting:
                keys = list(islice(self._waiting, READ_MAX))
                # Taken out before the read begins: who asks from now on is served by the next one.
                await self._serve({key: self._waiting.pop(key) for key in keys})
                if self._rest_s and len(keys) > 1 and len(self._waiting) < READ_MAX:
                    await asyncio.sleep(self._rest_s)
        finally:
            self._reading = None

    async def _serve(self, askers: "dict[K, list[asyncio.Future[V | None]]]") -> None:
        keys = list(askers)
        try:
            known = await self._load(keys)
        except asyncio.CancelledError:
            for future in _open(askers):
                future.cancel()
            raise
        except Exception as error:  # noqa: BLE001 - whoever asked is told
            if len(keys) > 1 and not isinstance(error, UnavailableError):
                # What cannot be read stands alone at last, and harms nobody else.
                half = len(keys) // 2
                await self._serve({key: askers[key] for key in keys[:half]})
                await self._serve({key: askers[key] for key in keys[half:]})
                return
            for future in _open(askers):
                future.set_exception(error)
            return
        for key, futures in askers.items():
            for future in futures:
                if not future.done():
                    future.set_result(known.get(key))


class WakeCounts:
    """How many were woken, by what they wait for, and have not looked yet: they come first."""

    def __init__(self) -> None:
        self._woken: Counter[str] = Counter()

    def add(self, topic: str, many: int) -> None:
        """Count those who are woken now."""
        self._woken[topic] = many

    def take(self, topic: str) -> bool:
        """Say whether a look at this is that of somebody who was woken."""
        left = self._woken.pop(topic, 0)
        if left > 1:
            self._woken[topic] = left - 1
        return left > 0

    def keep(self, topics: Collection[str]) -> None:
        """Forget all others: who was woken and has hung up since does not look any more."""
        for topic in self._woken.keys() - set(topics):
            del self._woken[topic]

    def __len__(self) -> int:
        return len(self._woken)


def _open(askers: "Mapping[K, list[asyncio.Future[V | None]]]") -> "list[asyncio.Future[V | None]]":
    return [future for futures in askers.values() for future in futures if not future.done()]
