"""The worker: lease what can start now, run it, and hand its end to the finisher."""

import asyncio
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from functools import partial

from mailonce.clock import Clock
from mailonce.core.breaker import BreakerRule
from mailonce.core.job import Leased, Want
from mailonce.core.route import RouteKind
from mailonce.core.share import Hungry, share
from mailonce.errors import MailonceError
from mailonce.queue.attempt import Attempts, Runner
from mailonce.queue.configuration import ConfigurationCache
from mailonce.queue.finish import Finisher
from mailonce.queue.lane import RouteLane
from mailonce.queue.wake import Wakes
from mailonce.store import burial, deliveries, routes
from mailonce.store.dialects.contract import Database, Priority
from mailonce.telemetry import (
    DELIVERY_DEAD,
    LEASES_LOST,
    ROUTE_SWITCHED_OFF,
    UNEXPECTED,
    WORKER_STALLED,
    OutgoingMetrics,
    log,
)

LOOK_EVERY_S = 1.0
PLAN_EVERY_S = 0.002
STALL_S, STALL_S_MAX = 0.1, 5.0
RESCUE_ROWS = 200
# Of the slots of a process one workspace has at most this share.
WORKSPACE_SHARE = 0.75


@dataclass(frozen=True, slots=True, kw_only=True)
class WorkerLimits:
    """Bounds of one process's worker."""

    # Attempts under way or not yet written down.
    concurrency: int = 512
    lease_s: float = 30.0
    hold_s: float = 10.0
    drain_s: float = 15.0
    bury_every_s: float = 30.0
    lost_leases_max: int = 8
    breaker: BreakerRule = field(default_factory=BreakerRule)


class Worker:
    """Runs what is owed on the lanes that this process holds.

    Invariant: a lease is taken only for what starts at once, and its end is written only where
    its token still stands. A crash at any moment leaves leases that run out, and their deliveries
    are then tried again under the same key.
    """

    def __init__(
        self,
        database: Database,
        clock: Clock,
        metrics: OutgoingMetrics,
        configuration: ConfigurationCache,
        runners: Mapping[RouteKind, Runner],
        wakes: Wakes,
        limits: WorkerLimits,
    ) -> None:
        self._database = database
        self._clock = clock
        self._metrics = metrics
        self._configuration = configuration
        self._runners = runners
        self._wakes = wakes
        self._limits = limits
        self._owner = clock.new_id()
        self._finisher = Finisher(database.deliveries, clock, metrics)
        self._attempts = Attempts(
            clock,
            metrics,
            runners,
            self._finisher,
            switch_off=self._switch_off,
            ended=self._ended,
            written=self._written,
        )
        self._lanes: dict[str, RouteLane] = {}
        self._taken = 0
        self._jobs: set[asyncio.Task[None]] = set()
        self._event = asyncio.Event()
        self._look_s = 0.0
        self._bury_s = 0.0
        self._stopping = False
        self._task: asyncio.Task[None] | None = None
        wakes.attach(self.wake, self.wake_all, self.holds)

    def start(self) -> None:
        """Begin to work."""
        self._finisher.start()
        self._task = asyncio.create_task(self._run(), name="worker")

    async def stop(self) -> None:
        """Lease nothing more, let attempts end, write down their results, give the lanes back."""
        self._stopping = True
        self._event.set()
        if self._task is not None:
            await asyncio.gather(self._task, return_exceptions=True)
        if self._jobs:
            await asyncio.wait(self._jobs, timeout=self._limits.drain_s)
        late = list(self._jobs)
        for job in late:
            job.cancel()
        await asyncio.gather(*late, return_exceptions=True)
        await self._finisher.close(timeout_s=self._limits.drain_s)
        try:
            await self._database.deliveries.let_go(self._owner)
        except MailonceError as error:
            log.warning(WORKER_STALLED, step="let_go", code=error.code)
        self._wakes.owed_everywhere()

    def wake(self, route_ids: Iterable[str]) -> None:
        """Note that something may be due for these routes."""
        for route_id in route_ids:
            lane = self._lane(route_id)
            if lane is not None:
                lane.ready = lane.owed = True
        self._event.set()

    def wake_all(self) -> None:
        """Look at everything."""
        self._look_s = 0.0
        self._event.set()

    def holds(self, route_id: str) -> bool:
        """Say whether this process holds a route's lane."""
        lane = self._lanes.get(route_id)
        return lane is not None and lane.is_held(self._clock.monotonic())

    async def _run(self) -> None:
        await self._begin()
        stalls = 0
        while not self._stopping:
            try:
                if self._clock.monotonic() >= self._look_s:
                    await self._look()
                await self._hold()
                worked = await self._lease()
                stalls = 0
            except Exception as error:  # noqa: BLE001 - an outermost loop
                _log_stall(error)
                stalls += 1
                await self._rest(min(STALL_S_MAX, STALL_S * 2**stalls))
                continue
            if not worked:
                await self._rest(self._next_look() - self._clock.monotonic())
            elif self._taken:
                # Slots that fall free meanwhile are filled together.
                await asyncio.sleep(PLAN_EVERY_S)

    async def _begin(self) -> None:
        """End the leases of an earlier life where there can be no other."""
        if self._database.name == "sqlite":
            try:
                await self._rescue((await self._database.head()).now_ms, everyone=True)
            except MailonceError as error:
                log.warning(WORKER_STALLED, step="begin", code=error.code)

    async def _rest(self, seconds: float) -> None:
        """Sleep until something happens; nothing is asked of the database meanwhile."""
        if seconds > 0 and not self._event.is_set():
            loop = asyncio.get_running_loop()
            alarm = loop.call_later(seconds, self._event.set)
            await self._event.wait()
            alarm.cancel()
        self._event.clear()

    def _next_look(self) -> float:
        now_s = self._clock.monotonic()
        times = (lane.wakes_at(now_s) for lane in self._lanes.values())
        # What is past already waits for a slot, and a slot that falls free wakes us.
        return min([self._look_s, *(time for time in times if time is not None and time > now_s)])

    def _lane(self, route_id: str) -> RouteLane | None:
        """Find the lane of a route that this process can run, with today's configuration."""
        route = self._configuration.snapshot.routes.get(route_id)
        runner = None if route is None else self._runners.get(route.kind)
        if route is None or runner is None or not runner.takes(route):
            return None
        lane = self._lanes.get(route_id)
        if lane is None:
            now_s = self._clock.monotonic()
            lane = RouteLane.of(route, self._limits.breaker, now_s=now_s)
            self._lanes[route_id] = lane
        lane.route = route
        return lane

    async def _look(self) -> None:
        """See what is owed, by whom and since when, whether or not somebody told us."""
        now_s = self._clock.monotonic()
        self._look_s = now_s + LOOK_EVERY_S
        look = await self._database.deliveries.look()
        if look.has_lost:
            await self._rescue(look.now_ms)
        if now_s >= self._bury_s:
            self._bury_s = now_s + self._limits.bury_every_s
            await self._bury(look.now_ms)
        for route_id, lane in list(self._lanes.items()):
            lane.owed = lane.running > 0
            if self._lane(route_id) is None:
                del self._lanes[route_id]
        oldest_ms = 0
        for owed in look.owed:
            found = self._lane(owed.route)
            if found is not None and found.route.off is None:
                found.owed = True
                found.due_in(owed.due_in_ms / 1000, now_s=now_s)
                oldest_ms = max(oldest_ms, -owed.due_in_ms)
        self._metrics.oldest_due_seconds.set(oldest_ms / 1000)
        idle = [
            route
            for route, lane in self._lanes.items()
            if not lane.owed and not lane.is_held(now_s) and not lane.breaker.is_open
        ]
        for route in idle:
            del self._lanes[route]

    async def _hold(self) -> None:
        """Take the lanes of routes that are owed something, and keep those we have."""
        now_s = self._clock.monotonic()
        soon_s = now_s + self._limits.hold_s / 2
        wanted = [
            route
            for route, lane in self._lanes.items()
            if lane.owed
            and lane.held_until_s < soon_s
            and lane.denied_until_s <= now_s
            and lane.route.off is None
        ]
        if not wanted:
            return
        hold_ms = int(self._limits.hold_s * 1000)
        held = await self._database.deliveries.hold(wanted, owner=self._owner, hold_ms=hold_ms)
        for route in wanted:
            lane = self._lanes[route]
            if route in held:
                lane.held_until_s = now_s + self._limits.hold_s
            else:
                lane.held_until_s, lane.denied_until_s = 0.0, now_s + LOOK_EVERY_S

    async def _lease(self) -> bool:
        """Lease what can start now, for all lanes in one statement; say whether any was asked."""
        now_s = self._clock.monotonic()
        free = self._limits.concurrency - self._taken
        hungry = [
            Hungry(route, lane.route.workspace, lane.running, lane.room(now_s))
            for route, lane in self._lanes.items()
        ]
        workspace_max = max(1, int(self._limits.concurrency * WORKSPACE_SHARE))
        given = share(free, hungry, workspace_max=workspace_max)
        if not given:
            return False
        wants = []
        for route_id, most in given.items():
            lane = self._lanes[route_id]
            lane.asked()
            lease_s = max(self._limits.lease_s, 2 * lane.route.timeout_s)
            wants.append(Want(route_id, most, int(lease_s * 1000), lane.next_turn()))
        try:
            leased = await self._database.deliveries.lease(wants, owner=self._owner)
        except BaseException:
            for route_id in given:
                self._lanes[route_id].ready = True
            raise
        got: dict[str, int] = {}
        for job in leased:
            got[job.route] = got.get(job.route, 0) + 1
        for want in wants:
            lane = self._lanes[want.route]
            lane.started(got.get(want.route, 0))
            lane.ready = lane.ready or got.get(want.route, 0) == want.most
        lease_ms = {want.route: want.lease_ms for want in wants}
        for job in leased:
            self._start(job, until_s=now_s + lease_ms[job.route] / 1000)
        return True

    def _start(self, job: Leased, *, until_s: float) -> None:
        self._taken += 1
        lane = self._lanes[job.route]
        task = asyncio.create_task(self._attempts.make(lane, job, until_s=until_s))
        self._jobs.add(task)
        task.add_done_callback(self._jobs.discard)

    def _ended(self, lane: RouteLane) -> None:
        lane.running -= 1
        if lane.ready:
            self._event.set()

    def _written(self) -> None:
        self._taken -= 1
        self._event.set()

    async def _switch_off(self, lane: RouteLane, reason: str) -> None:
        route_id = lane.route.id
        now_ms = self._clock.now_ms()
        changed = await self._database.write(
            lambda tx: routes.switch(tx, route_id, off=reason, now_ms=now_ms),
            priority=Priority.WORKER,
        )
        await self._configuration.refresh()
        self._lane(route_id)
        if changed:
            log.warning(ROUTE_SWITCHED_OFF, route=route_id)

    async def _bury(self, now_ms: int) -> None:
        """Give up on what is past its deadline while an open breaker keeps it from being tried."""
        for route, lane in list(self._lanes.items()):
            if lane.breaker.is_open and self.holds(route):
                work = partial(
                    burial.bury,
                    route=route,
                    reason="deadline",
                    until_ms=now_ms,
                    now_ms=now_ms,
                    new_id=self._clock.new_id,
                    most=RESCUE_ROWS,
                )
                if buried := await self._database.write(work, priority=Priority.MAINTENANCE):
                    log.warning(DELIVERY_DEAD, route=route, deliveries=buried, reason="deadline")

    async def _rescue(self, now_ms: int, *, everyone: bool = False) -> None:
        rescued = await self._database.write(
            lambda tx: deliveries.rescue(
                tx,
                now_ms=now_ms,
                new_id=self._clock.new_id,
                lost_max=self._limits.lost_leases_max,
                most=RESCUE_ROWS,
                everyone=everyone,
            ),
            priority=Priority.WORKER,
        )
        if rescued:
            dead = sum(one.is_dead for one in rescued)
            log.warning(LEASES_LOST, leases=len(rescued), dead=dead)
            self._wakes.owed({one.route for one in rescued})
        if len(rescued) == RESCUE_ROWS:
            await self._rescue(now_ms, everyone=everyone)


def _log_stall(error: Exception) -> None:
    if isinstance(error, MailonceError):
        log.warning(WORKER_STALLED, code=error.code)
    else:
        log.error(UNEXPECTED, where="worker", error=type(error).__name__, exc_info=error)
