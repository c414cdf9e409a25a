"""Store the outcomes of attempts, many at a time; keep what cannot be stored yet."""

import asyncio
from collections.abc import Callable
from typing import NamedTuple

from mailonce.clock import Clock
from mailonce.core.work.job import Finish
from mailonce.errors import MailonceError
from mailonce.store.dialects.contract import Leases, RowError
from mailonce.telemetry import FINISH_FAILED, RESULTS_FENCED, UNEXPECTED, OutgoingMetrics, log

BATCH_MAX = 500
# Nobody waits for the end of a lease, so it waits for others: at a slow pace the statement that
# ends leases would otherwise cost as much as the one that takes them.
GATHER_S = 0.025
ENOUGH = 64
RETRY_S = 0.2
RETRY_S_MAX = 2.0
UNWRITABLE = "the outcome of the attempt could not be stored"


class _Result(NamedTuple):
    finish: Finish
    # When the lease has run out for certain; then another worker has the delivery.
    until_s: float
    done: Callable[[], None]


class Finisher:
    """Ends leases in batches.

    Invariant: a result is kept until it is written, or until its lease ran out and the delivery
    is another worker's. A crash before the write makes the attempt once more, with the same key.
    """

    def __init__(self, leases: Leases, clock: Clock, metrics: OutgoingMetrics) -> None:
        self._leases = leases
        self._clock = clock
        self._metrics = metrics
        self._results: list[_Result] = []
        self._work = asyncio.Event()
        self._enough = asyncio.Event()
        self._closing = False
        self._task: asyncio.Task[None] | None = None

    def start(self) -> None:
        self._task = asyncio.create_task(self._run(), name="finisher")

    def put(self, finish: Finish, *, until_s: float, done: Callable[[], None]) -> None:
        """Take a result; `done` is called when it is stored, or its lease was lost."""
        self._results.append(_Result(finish, until_s, done))
        self._work.set()
        if len(self._results) >= ENOUGH:
            self._enough.set()

    async def close(self, *, timeout_s: float) -> None:
        self._closing = True
        self._work.set()
        self._enough.set()
        if self._task is not None:
            try:
                await asyncio.wait_for(self._task, timeout_s)
            except TimeoutError:
                log.warning(FINISH_FAILED, results=len(self._results), code="closing")

    async def _run(self) -> None:
        while True:
            if not self._results:
                if self._closing:
                    return
                self._work.clear()
                await self._work.wait()
            if not self._closing and len(self._results) < ENOUGH:
                await self._gather()
            batch, self._results = self._results[:BATCH_MAX], self._results[BATCH_MAX:]
            await self._write_surely(batch)

    async def _gather(self) -> None:
        """Wait until there are enough, or for long enough."""
        self._enough.clear()
        timer = asyncio.get_running_loop().call_later(GATHER_S, self._enough.set)
        await self._enough.wait()
        timer.cancel()

    async def _write_surely(self, batch: list[_Result]) -> None:
        wait_s = RETRY_S
        while batch:
            try:
                stood = await self._leases.finish([one.finish for one in batch])
            except RowError as error:
                await self._isolate(batch, error)
                return
            except MailonceError as error:
                many, reason = len(batch), str(error)
                log.warning(FINISH_FAILED, results=many, code=error.code, reason=reason)
            except Exception as error:  # noqa: BLE001 - an outermost loop
                log.error(UNEXPECTED, where="finish", error=type(error).__name__, exc_info=error)
                await self._isolate(batch, error)
                return
            else:
                self._note(batch, {*stood})
                return
            await asyncio.sleep(wait_s)
            wait_s = min(RETRY_S_MAX, wait_s * 2)
            batch = self._still_ours(batch)

    async def _isolate(self, batch: list[_Result], error: Exception) -> None:
        """Split a batch that cannot be written, so that one result never holds up the others.

        The one that stands alone in the end is written without what it met; should that fail as
        well, its lease runs out.
        """
        log.warning(FINISH_FAILED, results=len(batch), code=type(error).__name__)
        if len(batch) > 1:
            middle = len(batch) // 2
            await self._write_surely(batch[:middle])
            await self._write_surely(batch[middle:])
            return
        [one] = batch
        if one.finish.error != UNWRITABLE:
            plain = one.finish._replace(status=None, error=UNWRITABLE, answer=None)
            await self._write_surely([one._replace(finish=plain)])
            return
        one.done()

    def _note(self, batch: list[_Result], stood: set[bytes]) -> None:
        fenced = 0
        for one in batch:
            if one.finish.key not in stood:
                fenced += 1
            one.done()
        if fenced:
            self._metrics.fenced.inc(fenced)
            log.warning(RESULTS_FENCED, results=fenced)

    def _still_ours(self, batch: list[_Result]) -> list[_Result]:
        now_s = self._clock.monotonic()
        ours = [one for one in batch if one.until_s > now_s]
        for one in batch:
            if one.until_s <= now_s:
                self._metrics.fenced.inc()
                one.done()
        return ours
