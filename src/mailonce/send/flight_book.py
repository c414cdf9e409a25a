"""The book of flights: reads sends, marks them as in flight and writes outcomes, many at a time.

An outcome is kept until it is written, however long the database is away: it belongs to the attempt
that made the call, not to the lease, which may be somebody else's by then. Where a send was changed
since it was read, by a webhook, a person or another worker, it is read again and decided again.
"""

import asyncio
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from functools import partial

from mailonce.clock import Clock
from mailonce.core.sends.send_decision import SendChange
from mailonce.core.text import storable
from mailonce.errors import MailonceError
from mailonce.send.database_time import DatabaseTime
from mailonce.send.gather import Gather, resolve
from mailonce.store.dialects.contract import Database
from mailonce.store.sends.flight_batches import FlightBatches
from mailonce.store.sends.flights import FlightMark, SendEnd, SendJob, SendStep
from mailonce.telemetry import FINISH_FAILED, UNEXPECTED, log

# Nobody waits for the outcome of a call but its slot; see `queue/finish.py`.
LINGER_S = 0.025
RETRY_S, RETRY_S_MAX = 0.2, 2.0
# A send that others change more often than this at one moment is left to its lease.
ROUNDS_MAX = 20
REASON_CHARS_MAX = 300
MESSAGE_ID_CHARS_MAX = 500

# Says what an outcome changes of a send as it stands; None: nothing.
Decide = Callable[[SendJob], SendChange | None]


@dataclass(frozen=True, slots=True)
class InFlight:
    """It is in flight, and its first byte may leave."""


@dataclass(frozen=True, slots=True)
class SuppressedNow:
    """Its address was suppressed meanwhile; it is never sent."""

    cause: str


@dataclass(frozen=True, slots=True)
class NotOurs:
    """Its lease was lost, or it was cancelled or settled meanwhile."""


MarkResult = InFlight | SuppressedNow | NotOurs


@dataclass(slots=True, eq=False)
class _Ending:
    """An outcome on its way into the ledger."""

    job: SendJob
    decide: Decide
    step: SendStep | None
    change: SendChange | None = None


class FlightBook:
    """The sends of one process, as its steps see and change them."""

    def __init__(self, database: Database, clock: Clock, time: DatabaseTime) -> None:
        self._flights = FlightBatches(database)
        self._clock = clock
        self.time = time
        self.read: Gather[bytes, SendJob | None] = Gather(self._read)
        self.begin: Gather[FlightMark, MarkResult] = Gather(self._begin)
        self._ends: Gather[_Ending, SendChange | None] = Gather(self._end, linger_s=LINGER_S)

    async def end(
        self, job: SendJob, decide: Decide, step: SendStep | None = None
    ) -> SendChange | None:
        """Write what a step changes; give what was written, None where that was nothing.

        A caller that is cancelled stops waiting; the outcome is written all the same.
        """
        return await self._ends(_Ending(job, decide, step))

    def end_later(
        self, job: SendJob, decide: Decide, step: SendStep | None = None
    ) -> "asyncio.Future[SendChange | None]":
        """Have it written without waiting for it; what is given says when it is."""
        answered: asyncio.Future[SendChange | None] = asyncio.get_running_loop().create_future()
        # Perhaps nobody looks at what came of it; what went wrong is logged.
        answered.add_done_callback(lambda one: one.cancelled() or one.exception())
        self._ends.put(_Ending(job, decide, step), partial(resolve, answered))
        return answered

    async def close(self, *, timeout_s: float) -> None:
        """Write what is left to write, within a time limit."""
        try:
            await asyncio.wait_for(self._ends.close(), timeout_s)
        except TimeoutError:
            log.warning(FINISH_FAILED, code="closing")

    async def _read(self, keys: Sequence[bytes]) -> list[SendJob | None]:
        jobs = await self._flights.read(keys)
        return [jobs.get(key) for key in keys]

    async def _begin(self, marks: Sequence[FlightMark]) -> list[MarkResult]:
        now_ms = await self.time.now_ms()
        flying, causes = await self._flights.begin(marks, now_ms=now_ms)
        return [
            InFlight()
            if mark.key in flying
            else SuppressedNow(causes[mark.key])
            if mark.key in causes
            else NotOurs()
            for mark in marks
        ]

    async def _end(self, endings: Sequence[_Ending]) -> list[SendChange | None]:
        left = list(endings)
        wait_s = RETRY_S
        for _ in range(ROUNDS_MAX):
            # Of two outcomes of one send, each is decided by what the other left.
            firsts = list({one.job.key: one for one in reversed(left)}.values())
            try:
                others = [one for one in left if one not in firsts]
                left = await self._end_once(firsts) + others
            except MailonceError as error:
                many, reason = len(left), str(error)
                log.warning(FINISH_FAILED, results=many, code=error.code, reason=reason)
                await asyncio.sleep(wait_s)
                wait_s = min(RETRY_S_MAX, wait_s * 2)
                await self._reread_surely(left)
            except Exception as error:  # noqa: BLE001 - one bad outcome must not keep the others
                log.error(UNEXPECTED, where="sends", error=type(error).__name__, exc_info=error)
                if len(left) == 1:
                    # Its lease runs out; what was in flight is unknown then.
                    break
                halves = left[: len(left) // 2], left[len(left) // 2 :]
                for half in halves:
                    await self._end(half)
                break
            if not left:
                break
        return [one.change for one in endings]

    async def _end_once(self, endings: list[_Ending]) -> list[_Ending]:
        """Write outcomes; give those whose sends were changed by somebody else, read again."""
        ends: list[SendEnd] = []
        for one in endings:
            one.change = _storable(one.decide(one.job))
            if one.change is not None:
                ends.append(SendEnd(one.job, one.change))
        steps = [one.step for one in endings if one.step is not None]
        now_ms = await self.time.now_ms()
        stood = await self._flights.end(ends, steps, now_ms=now_ms)
        for one in endings:
            one.step = None
        overtaken = [one for one in endings if one.change and one.job.key not in stood]
        return await self._reread(overtaken) if overtaken else []

    async def _reread(self, endings: list[_Ending]) -> list[_Ending]:
        keys = [one.job.key for one in endings]
        jobs = await self._flights.read(keys)
        for one in endings:
            one.change = None
            if one.job.key in jobs:
                one.job = jobs[one.job.key]
        return [one for one in endings if one.job.key in jobs]

    async def _reread_surely(self, endings: list[_Ending]) -> None:
        """Read again what may have been written although nobody heard so."""
        wait_s = RETRY_S
        while True:
            try:
                await self._reread(endings)
            except MailonceError:
                await asyncio.sleep(wait_s)
                wait_s = min(RETRY_S_MAX, wait_s * 2)
            else:
                return


def _storable(change: SendChange | None) -> SendChange | None:
    """Make what a provider said storable."""
    if change is None:
        return None
    reason, message_id = change.reason, change.message_id
    return replace(
        change,
        reason=None if reason is None else storable(reason, chars_max=REASON_CHARS_MAX),
        message_id=None
        if message_id is None
        else storable(message_id, chars_max=MESSAGE_ID_CHARS_MAX),
    )
