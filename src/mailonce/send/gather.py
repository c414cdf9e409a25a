"""Gather what many callers want at once into one call: what comes while one runs is the next."""

import asyncio
from collections.abc import Awaitable, Callable, Sequence
from typing import Generic, TypeVar

from mailonce.telemetry import UNEXPECTED, log

T = TypeVar("T")
R = TypeVar("R")

BATCH_MAX = 200


class Gather(Generic[T, R]):
    """Hands what it is given to `work`, some at a time, and each caller its own result.

    Whatever `work` raises goes to all callers of that batch. A caller that stops waiting changes
    nothing: what it gave is still worked on.
    """

    def __init__(
        self,
        work: Callable[[Sequence[T]], Awaitable[Sequence[R]]],
        *,
        linger_s: float = 0.0,
        batch_max: int = BATCH_MAX,
    ) -> None:
        self._work = work
        # How long the first of a batch waits for others.
        self._linger_s = linger_s
        self._batch_max = batch_max
        self._waiting: list[tuple[T, asyncio.Future[R]]] = []
        self._task: asyncio.Task[None] | None = None

    async def __call__(self, item: T) -> R:
        answered: asyncio.Future[R] = asyncio.get_running_loop().create_future()
        self.put(item, answered)
        return await answered

    def put(self, item: T, answered: "asyncio.Future[R]") -> None:
        """Take an item whose result somebody may wait for."""
        self._waiting.append((item, answered))
        if self._task is None:
            self._task = asyncio.create_task(self._run(), name="gather")

    @property
    def is_idle(self) -> bool:
        """Say whether nothing is left to do."""
        return self._task is None

    async def close(self) -> None:
        """Wait until all is done that was given."""
        while self._task is not None:
            await asyncio.shield(self._task)

    async def _run(self) -> None:
        try:
            while self._waiting:
                if self._linger_s and len(self._waiting) < self._batch_max:
                    await asyncio.sleep(self._linger_s)
                batch = self._waiting[: self._batch_max]
                del self._waiting[: self._batch_max]
                await self._hand_over(batch)
        finally:
            self._task = None

    async def _hand_over(self, batch: Sequence[tuple[T, "asyncio.Future[R]"]]) -> None:
        try:
            results = await self._work([item for item, _ in batch])
        except Exception as error:  # noqa: BLE001 - it belongs to those who wait
            if all(answered.cancelled() for _, answered in batch):
                log.error(UNEXPECTED, where="gather", error=type(error).__name__, exc_info=error)
            for _, answered in batch:
                if not answered.done():
                    answered.set_exception(error)
            return
        for (_, answered), result in zip(batch, results, strict=True):
            if not answered.done():
                answered.set_result(result)
