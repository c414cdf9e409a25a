"""Arrivals that need a row which another transaction holds wait here, beside the group commit.

A person's transaction or a paused process may hold a row for long. An arrival that needs it waits
for a bounded time and is then answered "later"; no other may notice. So arrivals that need a held
row are put into a lane of their own, and as long as the lane stands, what comes later for the same
row joins it without being tried by a flusher. At most two lanes are tried at a time, each on one
connection, whatever number of callers waits. A crash loses nothing: nobody here was answered.
"""

import asyncio
from collections import deque
from collections.abc import Awaitable, Callable, Hashable, Sequence
from dataclasses import dataclass, field
from typing import Generic, Protocol, TypeVar

from mailonce.clock import Clock
from mailonce.core.ledger.contention import rows_of
from mailonce.core.ledger.entry import Entry
from mailonce.errors import UnavailableError
from mailonce.store.dialects.contract import LockedError

TRIES_AT_ONCE = 2
WAIT_S_MAX = 2.0
# How long a lane that nobody waits in is remembered: longer than a quick retry takes.
REST_S = 2.0
EVENTS_MAX = 5_000
# One that is held fails at once where it need not wait; others get their turn.
PAUSE_S = 0.05


class WaitingCaller(Protocol):
    """A caller that waits for an answer."""

    entry: Entry
    weight: int

    def notify(self, error: UnavailableError) -> None:
        """Answer the caller that nothing was written."""


C = TypeVar("C", bound=WaitingCaller)


@dataclass(slots=True, eq=False)
class _Lane(Generic[C]):
    """What waits for the same held rows, each until a time by the monotonic clock."""

    rows: set[Hashable] = field(default_factory=set)
    waiting: deque[tuple[float, C]] = field(default_factory=deque)
    last_s: float = 0.0


class LockedArrivals(Generic[C]):
    """The queues behind held rows. `attempt(some, short_lock_wait)` writes some callers' entries.

    It raises LockedError where a row is held, and answers the callers in every other case.
    """

    def __init__(
        self, clock: Clock, attempt: Callable[[list[C], bool], Awaitable[None]], *, batch_max: int
    ) -> None:
        self._clock = clock
        self._attempt = attempt
        self._batch_max = batch_max
        self._lanes: dict[Hashable, _Lane[C]] = {}
        self._turns: deque[_Lane[C]] = deque()
        self._events = 0
        self._closing = False
        self._tasks: set[asyncio.Task[None]] = set()

    def put(self, some: Sequence[C]) -> None:
        """Let callers wait together in one lane, since one of their rows is held."""
        rows = {row for caller in some for row in rows_of(caller.entry)}
        lane = next((self._lanes[row] for row in rows if row in self._lanes), None)
        if lane is None:
            lane = _Lane[C]()
            self._turns.append(lane)
            self._start()
        lane.rows |= rows
        for row in rows:
            self._lanes.setdefault(row, lane)
        lane.last_s = self._clock.monotonic()
        for caller in some:
            if self._events + caller.weight > EVENTS_MAX:
                caller.notify(LockedError("too many wait for a locked row; try again in a moment"))
                continue
            self._events += caller.weight
            lane.waiting.append((lane.last_s + WAIT_S_MAX, caller))

    def divert(self, batch: list[C]) -> list[C]:
        """Take those out of a batch that need a row which is known to be held; give the others."""
        if not self._lanes:
            return batch
        others: list[C] = []
        for caller in batch:
            if self._lanes.keys().isdisjoint(rows_of(caller.entry)):
                others.append(caller)
            else:
                self.put([caller])
        return others

    async def close(self) -> None:
        """Finish what waits, which takes no longer than the limit of one wait."""
        self._closing = True
        while self._tasks:
            await asyncio.gather(*self._tasks)

    def _start(self) -> None:
        if len(self._tasks) < TRIES_AT_ONCE:
            task = asyncio.create_task(self._work(), name="locked-rows")
            self._tasks.add(task)
            task.add_done_callback(self._tasks.discard)

    async def _work(self) -> None:
        """Try the lanes in turn until there are none."""
        while self._turns:
            lane = self._turns.popleft()
            if lane.waiting:
                is_free = await self._try(lane)
                if is_free and not lane.waiting:
                    self._forget(lane)
                    continue
            else:
                is_free = False
                if self._closing or self._clock.monotonic() > lane.last_s + REST_S:
                    self._forget(lane)
                    continue
            self._turns.append(lane)
            if not is_free:
                await asyncio.sleep(PAUSE_S)

    async def _try(self, lane: _Lane[C]) -> bool:
        """Try to write some of a lane; those that have waited to their limit get an error."""
        some = [lane.waiting.popleft() for _ in range(min(len(lane.waiting), self._batch_max))]
        self._events -= sum(caller.weight for _, caller in some)
        try:
            # Alone, wait as long as the database allows; beside many others, only look.
            await self._attempt([caller for _, caller in some], len(self._turns) >= TRIES_AT_ONCE)
        except LockedError as error:
            now = self._clock.monotonic()
            for until, caller in reversed(some):
                if until <= now:
                    caller.notify(error)
                else:
                    self._events += caller.weight
                    lane.waiting.appendleft((until, caller))
            return False
        return True

    def _forget(self, lane: _Lane[C]) -> None:
        for row in lane.rows:
            if self._lanes.get(row) is lane:
                del self._lanes[row]
