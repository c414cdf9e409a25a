"""Gather what many callers want at once into one call: what comes while one runs is the next."""

import asyncio
from collections.abc import Awaitable, Callable, Sequence
from functools import partial
from typing import Any, Generic, TypeVar

from mailonce.telemetry import UNEXPECTED, log

T = TypeVar("T")
R = TypeVar("R")

BATCH_MAX = 200

# Takes a result, or what went wrong; says whether anybody hears it.
Hear = Callable[[R | Exception], bool]


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
        self._waiting: list[tuple[T, Hear[R]]] = []
        self._task: asyncio.Task[None] | None = None

    async def __call__(self, item: T) -> R:
        answered: asyncio.Future[R] = asyncio.get_running_loop().create_future()
        self.put(item, partial(resolve, answered))
        return await answered

    def put(self, item: T, hear: Hear[R]) -> None:
        """Take an item; `hear` is called with its result."""
        self._waiting.append((item, hear))
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

    async def _hand_over(self, batch: Sequence[tuple[T, Hear[R]]]) -> None:
        try:
            results = await self._work([item for item, _ in batch])
        except Exception as error:  # noqa: BLE001 - it belongs to those who wait
            listeners = sum(_tell(hear, error) for _, hear in batch)
            if not listeners:
                _log(error)
            return
        for (_, hear), result in zip(batch, results, strict=True):
            _tell(hear, result)


def resolve(answered: "asyncio.Future[R]", result: R | Exception) -> bool:
    """Hand a result to whoever awaits it; say whether anybody does."""
    if answered.done():
        return False
    if isinstance(result, Exception):
        answered.set_exception(result)
    else:
        answered.set_result(result)
    return True


def _tell(hear: Hear[Any], result: Any) -> bool:
    """Hand a result on; what goes wrong on one side does not concern the others."""
    try:
        return hear(result)
    except Exception as error:  # noqa: BLE001 - the others must hear as well
        _log(error)
        return True


def _log(error: Exception) -> None:
    log.error(UNEXPECTED, where="gather", error=type(error).__name__, exc_info=error)
