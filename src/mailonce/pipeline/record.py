"""Record: the group commit. What arrives while one batch commits is the next batch.

`submit` puts an entry into its source's queue. A flusher takes a bounded batch from all queues in
turn, once the event loop has read what was there to be read, and the database judges and writes it
in one transaction, whatever nouns its entries bring.
Only then are the callers answered, while the flusher is at work on the next batch.

What goes wrong with a batch is dealt with here, and each remedy is a batch again:
- its outcome is unknown: the same batch runs again, under the ids it has, and finds its own rows;
- its routes are outdated: they are read again, and the batch is judged by the new ones;
- a row is held elsewhere: entries that need it wait (`locked_rows.py`), the others are written;
- a value cannot be stored: the batch is halved until the entry stands alone, and its bytes become
  a dead letter;
- a mistake of ours: the batch is halved as well, so that only the entry that meets it fails;
- anything else: nothing was written, and every caller is asked to try again.

A crash loses only entries whose callers were not answered, so they send again; after the commit
they find a copy. Nothing is ever half done, and nothing needs to be cleaned up after a start.
"""

import asyncio
from collections import deque
from collections.abc import Awaitable, Callable
from dataclasses import dataclass
from functools import partial

from msgspec.structs import replace

from mailonce.clock import Clock
from mailonce.core.events.key import dead_key
from mailonce.core.ledger.contention import groups_of
from mailonce.core.ledger.entry import Dead, Entry, EntryOutcome
from mailonce.errors import UnavailableError
from mailonce.pipeline.locked_rows import LockedArrivals
from mailonce.pipeline.waiting import (
    NotRecordedError,
    Tell,
    WaitingEntry,
    fail,
    give_up,
    resolve,
    tell_all,
)
from mailonce.store.dialects.contract import (
    Batch,
    Database,
    LockedError,
    OutcomeUnknownError,
    OutdatedError,
    Reserve,
    Routing,
    RowError,
    reserve_nothing,
)
from mailonce.telemetry import BATCH_FAILED, BATCH_SPLIT, DATABASE_AVAILABLE, Metrics, log

# How often what clients send meanwhile is let in before a batch goes off.
GATHER_ROUNDS_MAX = 16
LOST_TRIES = 5
LOST_WAIT_S = 0.2
# How often a batch is split because of held rows; what is still locked then is answered "later".
LOCKED_SPLITS_MAX = 32


class FullError(UnavailableError):
    """More waits than we promise to hold."""

    code = "full"
    reason = "full"


@dataclass(frozen=True, slots=True, kw_only=True)
class Limits:
    """Bounds of the queue and of a batch; a larger arrival is a batch of its own."""

    batch_events_max: int = 500
    batch_bytes_max: int = 8 << 20
    queue_events_max: int = 20_000
    queue_bytes_max: int = 128 << 20
    source_events_max: int = 10_000
    flushers: int = 1


class _Lane:
    """What waits of one source."""

    __slots__ = ("events", "waiting")

    def __init__(self) -> None:
        self.events = 0
        self.waiting: deque[WaitingEntry] = deque()


async def _nothing() -> None:
    """Refresh nothing: where there are no routes, none can be outdated."""


class Recorder:
    """Collects entries of many requests and makes them durable together.

    Invariant: `record` returns only after the commit. A crash before it keeps nothing and
    answers nobody, so the provider sends again; a crash after it keeps everything.
    """

    def __init__(
        self,
        database: Database,
        clock: Clock,
        metrics: Metrics,
        limits: Limits,
        *,
        routing: Callable[[], Routing | None] = lambda: None,
        refresh: Callable[[], Awaitable[object]] = _nothing,
        owed: Callable[[frozenset[str]], None] = lambda _: None,
    ) -> None:
        self._database = database
        self._clock = clock
        self._metrics = metrics
        self.limits = limits
        self._routing = routing
        self._refresh = refresh
        # Called after a commit with the routes that it made deliveries due for.
        self._owed = owed
        # Asks a worker of this process for slots, so that what is recorded is leased at once.
        self.reserve: Reserve = reserve_nothing
        self._lanes: dict[str, _Lane] = {}
        self._turns: deque[str] = deque()
        self._events = 0
        self._last_events = 0
        self._bytes = 0
        self._work = asyncio.Event()
        self._closing = False
        # Whether the last batch failed because the database was away.
        self._is_away = False
        self._retries = True
        self._flushers: list[asyncio.Task[None]] = []
        self._locked = LockedArrivals[WaitingEntry](
            clock, self._retry_locked, batch_max=limits.batch_events_max
        )

    def start(self) -> None:
        self._flushers = [
            asyncio.create_task(self._flush_forever(), name=f"flusher-{number}")
            for number in range(self.limits.flushers)
        ]

    async def record(self, entry: Entry) -> EntryOutcome:
        """Wait until `entry` is durable and say what became of it.

        A caller that is cancelled has no say any more: the commit stands.
        Raises: FullError, or UnavailableError where nothing was written.
        """
        answered: asyncio.Future[EntryOutcome] = asyncio.get_running_loop().create_future()
        self.submit(entry, partial(resolve, answered))
        return await answered

    def submit(self, entry: Entry, tell: Tell) -> None:
        """Take `entry`; `tell` is called once it is durable, or where nothing was written.

        Raises: FullError.
        """
        weight, size = len(entry.events) + len(entry.items) or 1, len(entry.body)
        lane = self._lanes.get(entry.source)
        if self._closing or (self._events and self._is_full(lane, weight, size)):
            raise FullError("more arrivals wait than can be held; try again in a moment")
        if lane is None:
            lane = self._lanes[entry.source] = _Lane()
            self._turns.append(entry.source)
        lane.waiting.append(WaitingEntry(entry, weight, tell))
        lane.events += weight
        self._events += weight
        self._bytes += size
        self._work.set()

    @property
    def queued_events(self) -> int:
        return self._events

    def stop_retrying(self) -> None:
        """Retry nothing from now on: callers that wait for a lost database get an error soon."""
        self._retries = False

    async def close(self) -> None:
        """Take nothing more, and finish all that was taken."""
        self._closing = True
        self._work.set()
        await asyncio.gather(*self._flushers)
        await self._locked.close()
        # The last ones are answered in the next turn of the loop.
        await asyncio.sleep(0)

    def _is_full(self, lane: _Lane | None, weight: int, size: int) -> bool:
        """Say whether there is no room beside what waits.

        An arrival that is larger than a limit is let in alone, or it could never come in.
        """
        limits = self.limits
        return (
            self._events + weight > limits.queue_events_max
            or self._bytes + size > limits.queue_bytes_max
            or (lane is not None and lane.events + weight > limits.source_events_max)
        )

    async def _flush_forever(self) -> None:
        while True:
            await self._work.wait()
            await self._gather()
            batch = self._take()
            if batch:
                await self._flush(batch)
            elif self._closing:
                return
            else:
                self._work.clear()

    async def _gather(self) -> None:
        """Let in what clients are sending at this moment: each batch costs as much as many entries.

        We are the slower one where turn after turn brings more, so a database that waits for us
        loses nothing. Once nothing more comes, or as much is there as `_take` would take of callers
        who come back at once, the batch goes off.
        """
        seen = 0
        for _ in range(GATHER_ROUNDS_MAX):
            if not seen < self._events < self._last_events:
                return
            seen = self._events
            # One turn of the event loop reads what came, the next one hands it on.
            await asyncio.sleep(0)
            await asyncio.sleep(0)

    def _take(self) -> list[WaitingEntry]:
        """Fill a batch from all sources in turn, so that none can starve the others.

        Right behind another batch it takes no more than half of what waits and what that one had:
        so callers who come back at once are parted into two halves of one size, and we serve one
        while the database has the other.
        """
        batch: list[WaitingEntry] = []
        taken_events = taken_bytes = 0
        events_max, bytes_max = self.limits.batch_events_max, self.limits.batch_bytes_max
        if self._last_events:
            events_max = min(events_max, (self._events + self._last_events + 1) // 2)
        turns, lanes = self._turns, self._lanes
        while turns:
            lane = lanes[turns[0]]
            waiting = lane.waiting[0]
            events = taken_events + waiting.weight
            size = taken_bytes + len(waiting.entry.body)
            if batch and (events > events_max or size > bytes_max):
                break
            batch.append(lane.waiting.popleft())
            taken_events, taken_bytes = events, size
            lane.events -= waiting.weight
            if not lane.waiting:
                del lanes[turns.popleft()]
            elif len(turns) > 1:
                turns.rotate(-1)
        self._events -= taken_events
        self._bytes -= taken_bytes
        self._last_events = taken_events
        return batch

    async def _flush(self, batch: list[WaitingEntry]) -> None:
        batch = self._locked.divert(batch)
        if not batch:
            return
        try:
            await self._write(batch)
        except Exception as error:  # noqa: BLE001 - an outermost loop: one bad batch is not the end
            give_up(batch, error)

    async def _write(self, batch: list[WaitingEntry], received_ms: int | None = None) -> None:
        """Write a batch and answer its callers; split it where a row is held."""
        written = self._batch(batch, received_ms)
        try:
            await self._attempt(batch, written, short_lock_wait=False)
        except LockedError as error:
            await self._split(batch, written, error)

    def _batch(self, batch: list[WaitingEntry], received_ms: int | None = None) -> Batch:
        entries = [waiting.entry for waiting in batch]
        return Batch(self._clock.new_id(), entries, received_ms, reserve=self.reserve)

    async def _attempt(
        self, batch: list[WaitingEntry], written: Batch, *, short_lock_wait: bool
    ) -> None:
        """Write a batch and answer its callers.

        Raises: LockedError where nothing was written, because a row is held.
        """
        started = self._clock.monotonic()
        try:
            answers = await self._record_surely(written, short_lock_wait=short_lock_wait)
        except LockedError:
            raise
        except UnavailableError as error:
            if not self._is_away:
                # The first of an outage alone: a full disk has no room for a line for each.
                many, reason = len(batch), str(error)
                log.warning(BATCH_FAILED, arrivals=many, code=error.code, reason=reason)
            self._is_away = True
            fail(batch, error)
        except Exception as error:  # noqa: BLE001 - it may be the fault of one arrival
            await self._isolate(batch, written, error)
        else:
            if self._is_away:
                self._is_away = False
                log.info(DATABASE_AVAILABLE, where="record")
            written.start()
            if written.owed:
                self._owed(written.owed)
            self._metrics.commit_seconds.observe(self._clock.monotonic() - started)
            self._metrics.batch_events.observe(sum(waiting.weight for waiting in batch))
            # The next batch goes off first: the database works while we write answers.
            asyncio.get_running_loop().call_soon(tell_all, batch, answers)
        finally:
            written.release()

    async def _record_surely(self, batch: Batch, *, short_lock_wait: bool) -> list[EntryOutcome]:
        """Run the same batch again where its commit is in doubt: it recognises its own rows."""
        for left in range(LOST_TRIES - 1, -1, -1):
            batch.routing = self._routing()
            try:
                return await self._database.record(batch, short_lock_wait=short_lock_wait)
            except OutdatedError as error:
                if not left:
                    raise NotRecordedError("the routes change too often; try again") from error
                await self._refresh()
            except OutcomeUnknownError:
                batch.was_lost = True
                if not left or not self._retries:
                    raise
                await asyncio.sleep(LOST_WAIT_S)
        raise AssertionError("the loop above returns or raises")

    async def _split(self, batch: list[WaitingEntry], written: Batch, error: LockedError) -> None:
        """Separate the entries that need a held row from those that do not.

        Arrivals that share a row stay together, so that one held row is found in few steps. The
        parts keep the time of the batch: should an earlier try of it stand, they find their rows.
        """
        log.info(BATCH_SPLIT, arrivals=len(batch), code=error.code)
        groups = [[batch[place] for place in group] for group in groups_of(written.entries)]
        parts = _halves(groups)
        locked = 0
        while parts:
            part = parts.pop()
            some = [waiting for group in part for waiting in group]
            if len(groups) > 1:
                part_batch = self._batch(some, written.received_ms)
                try:
                    await self._attempt(some, part_batch, short_lock_wait=True)
                    continue
                except LockedError as again:
                    error = again
            locked += 1
            if written.was_lost or locked > LOCKED_SPLITS_MAX:
                fail(some, error)
            elif len(part) == 1:
                self._locked.put(some)
            else:
                parts += _halves(part)

    async def _retry_locked(self, some: list[WaitingEntry], short_lock_wait: bool) -> None:  # noqa: FBT001
        try:
            await self._attempt(some, self._batch(some), short_lock_wait=short_lock_wait)
        except LockedError:
            raise
        except Exception as error:  # noqa: BLE001 - an outermost loop: the next lane has its turn
            give_up(some, error)

    async def _isolate(self, batch: list[WaitingEntry], written: Batch, error: Exception) -> None:
        """Find the arrival that cannot be written.

        The bytes of one that the database cannot hold are kept as a dead letter. One that meets a
        mistake of ours is tried again by its sender, until the mistake is mended.
        """
        if len(batch) > 1:
            log.info(BATCH_SPLIT, arrivals=len(batch), code=type(error).__name__)
            middle = len(batch) // 2
            await self._write(batch[:middle], written.received_ms)
            await self._write(batch[middle:], written.received_ms)
            return
        [waiting] = batch
        has_bytes = bool(waiting.entry.events or waiting.entry.items) and not waiting.entry.is_whole
        if not isinstance(error, RowError) or not has_bytes:
            give_up(batch, error)
            return
        body = waiting.entry.body
        key = dead_key(waiting.entry.workspace, waiting.entry.account, body)
        dead = Dead(self._clock.new_id(), 0, str(error), body, key)
        entry = replace(waiting.entry, events=(), items=(), dead=(dead,))
        await self._write([WaitingEntry(entry, 1, waiting.notify)], written.received_ms)


def _halves(groups: list[list[WaitingEntry]]) -> list[list[list[WaitingEntry]]]:
    middle = len(groups) // 2
    return [half for half in (groups[middle:], groups[:middle]) if half]
