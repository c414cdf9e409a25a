"""The worker: lease what can start now, run it, and hand its end to the finisher."""

import asyncio
from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace

from mailonce.clock import Clock
from mailonce.core.breaker import BreakerRule
from mailonce.core.job import Leased, Want
from mailonce.core.route import RouteKind
from mailonce.core.share import Hungry, share, surplus
from mailonce.errors import MailonceError
from mailonce.queue.attempt import Attempts, Runner
from mailonce.queue.configuration import ConfigurationCache
from mailonce.queue.crew import SUSPECT_S, Crew
from mailonce.queue.finish import Finisher
from mailonce.queue.lane import RouteLane
from mailonce.queue.rescue import Rescuer
from mailonce.queue.reservation import Reserver, Slots
from mailonce.queue.wake import Wakes
from mailonce.store import routes
from mailonce.store.dialects.contract import Database, Priority
from mailonce.telemetry import (
    ROUTE_SWITCHED_OFF,
    UNEXPECTED,
    WORKER_STALLED,
    OutgoingMetrics,
    log,
)

LOOK_EVERY_S = 1.0
PLAN_EVERY_S = 0.002
STALL_S, STALL_S_MAX = 0.1, 5.0
# Where there are several workspaces, one has at most this share of a process's slots.
WORKSPACE_SHARE = 0.75
# A lane that waits for so long is one that we do not keep up with.
BEHIND_MS = 500
# For how long a lane that was given away is left to others, and for how long it is then kept.
GIVEN_S, KEPT_S = 2.0, 30.0


@dataclass(frozen=True, slots=True, kw_only=True)
class WorkerLimits:
    """Bounds of one process's worker."""

    # Attempts under way or not yet written down; beyond them each route has one slot of its own,
    # up to as many again.
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
        self._crew = Crew(database.deliveries, clock, self._owner, hold_s=limits.hold_s)
        self._rescuer = Rescuer(database, clock, wakes, lost_leases_max=limits.lost_leases_max)
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
        self._slots = Slots(limits.concurrency)
        self._jobs: set[asyncio.Task[None]] = set()
        self._event = asyncio.Event()
        self._look_s = 0.0
        self._leased_s = 0.0
        self._bury_s = 0.0
        self._stopping = False
        self._task: asyncio.Task[None] | None = None
        self._reserver = Reserver(
            database.deliveries, clock, self._lanes, self._slots,
            owner=self._owner, hold_s=limits.hold_s, lease_ms=self._lease_ms,
            start=self._start, wake=self._event.set,
        )  # fmt: skip
        # Whoever records in this process may have it leased to us at once.
        self.reserve = self._reserver.reserve
        wakes.attach(self.wake, self.wake_all, self.holds)
        configuration.then(self._reconfigure)

    def start(self) -> None:
        """Begin to work."""
        self._crew.start()
        self._finisher.start()
        self._task = asyncio.create_task(self._run(), name="worker")

    async def stop(self) -> None:
        """Lease nothing more, let attempts end, write down their results, give the lanes back."""
        self._stopping = True
        self._event.set()
        if self._task is not None:
            await asyncio.gather(self._task, return_exceptions=True)
        await self._reserver.close()
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
        await self._crew.stop()
        self._wakes.owed_everywhere()

    def wake(self, route_ids: Iterable[str]) -> None:
        """Note that something may be due for these routes."""
        for route_id in route_ids:
            lane = self._lane(route_id)
            if lane is not None:
                lane.ready = lane.owed = True
        self._event.set()

    def wake_all(self) -> None:
        """Look at everything; lanes may have been given back."""
        self._look_s = 0.0
        for lane in self._lanes.values():
            lane.denied_until_s = min(lane.denied_until_s, lane.given_until_s)
        self._event.set()

    def holds(self, route_id: str) -> bool:
        """Say whether this process holds a route's lane."""
        lane = self._lanes.get(route_id)
        return lane is not None and lane.is_held(self._clock.monotonic())

    def _reconfigure(self) -> None:
        """Let every attempt that begins from here on go by the routes as they were just read."""
        known = self._configuration.snapshot.routes
        for route_id, lane in self._lanes.items():
            lane.route = known.get(route_id) or replace(lane.route, off="deleted")

    async def _run(self) -> None:
        begun = False
        stalls = 0
        while not self._stopping:
            try:
                if not begun:
                    await self._begin()
                    begun = True
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
            if not worked or not any(lane.ready for lane in self._lanes.values()):
                await self._rest(self._next_look() - self._clock.monotonic())
            # Under load, slots that fall free and events that come meanwhile are leased together;
            # at a slow pace nothing waits.
            early_s = self._leased_s + PLAN_EVERY_S - self._clock.monotonic()
            if self._slots.taken and early_s > 0:
                await asyncio.sleep(early_s)

    async def _begin(self) -> None:
        """End the leases of an earlier life where there can be no other."""
        if await self._database.deliveries.begin():
            await self._rescuer.rescue((await self._database.head()).now_ms, everyone=True)

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
        if route is None or runner is None or route.is_unreadable or not runner.takes(route):
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
        crew = await self._crew.look()
        look = await self._database.deliveries.look()
        if crew.suspects:
            self._look_s = now_s + SUSPECT_S / 2
        for owner in crew.gone:
            await self._rescuer.rescue(look.now_ms, of=owner)
            await self._crew.take_over(owner)
        if look.has_lost:
            await self._rescuer.rescue(look.now_ms)
        if now_s >= self._bury_s:
            self._bury_s = now_s + self._limits.bury_every_s
            closed = [route for route, lane in self._lanes.items() if lane.breaker.is_open]
            await self._rescuer.bury(filter(self.holds, closed), look.now_ms)
        for route_id, lane in list(self._lanes.items()):
            lane.owed, lane.is_behind = lane.running > 0, False
            if self._lane(route_id) is None:
                del self._lanes[route_id]
        oldest_ms = 0
        for owed in look.owed:
            found = self._lane(owed.route)
            if found is not None and found.route.off is None:
                found.owed = True
                found.due_in(owed.due_in_ms / 1000, now_s=now_s)
                found.is_behind = owed.due_in_ms <= -BEHIND_MS
                oldest_ms = max(oldest_ms, -owed.due_in_ms)
        self._metrics.oldest_due_seconds.set(oldest_ms / 1000)
        self._choose_leaving(crew.lanes, now_s)
        idle = [
            route
            for route, lane in self._lanes.items()
            if not lane.owed and not lane.is_held(now_s) and not lane.breaker.is_open
        ]
        for route in idle:
            del self._lanes[route]

    def _choose_leaving(self, others: Sequence[int], now_s: float) -> None:
        """Choose lanes that we do not keep up with for workers that have fewer."""
        behind = [
            lane
            for lane in self._lanes.values()
            if lane.is_behind and lane.is_held(now_s) and not lane.is_leaving
            and not lane.breaker.is_open
        ]  # fmt: skip
        # The busiest stays, the next busiest goes, and so on: both sides have about as much.
        behind.sort(key=lambda lane: -lane.recent)
        movable = [lane for lane in behind[1::2] + behind[0::2] if lane.kept_until_s <= now_s]
        for lane in movable[: surplus(len(behind), others)]:
            lane.is_leaving = True
        for lane in self._lanes.values():
            lane.recent //= 2

    async def _give_away(self, now_s: float) -> None:
        """Give back lanes that should leave and have nothing under way any more.

        So a route's concurrency and rate are never those of two processes at once.
        """
        leaving = [
            route for route, lane in self._lanes.items() if lane.is_leaving and not lane.running
        ]
        if not leaving:
            return
        await self._database.deliveries.let_go(self._owner, leaving)
        for route in leaving:
            self._lanes[route].left(now_s, given_s=GIVEN_S, kept_s=KEPT_S)
        self._wakes.owed_everywhere()

    async def _hold(self) -> None:
        """Take the lanes of routes that are owed something, and keep those we have."""
        now_s = self._clock.monotonic()
        await self._give_away(now_s)
        soon_s = now_s + self._limits.hold_s / 2
        wanted = [
            route
            for route, lane in self._lanes.items()
            if lane.owed
            and lane.held_until_s < soon_s
            and max(lane.denied_until_s, lane.given_until_s) <= now_s
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
        free = self._slots.limit - self._slots.taken
        hungry = [
            Hungry(route, lane.route.workspace, lane.running, lane.room(now_s))
            for route, lane in self._lanes.items()
        ]
        workspace_max = self._slots.limit
        if len({one.workspace for one in hungry}) > 1:
            workspace_max = max(1, int(workspace_max * WORKSPACE_SHARE))
        own_slots = self._slots.limit + min(0, free)
        given = share(free, hungry, workspace_max=workspace_max, own_slots=own_slots)
        if not given:
            return False
        self._leased_s = now_s
        wants = []
        for route_id, most in given.items():
            lane = self._lanes[route_id]
            lane.asked()
            wants.append(Want(route_id, most, self._lease_ms(lane), lane.next_turn()))
        self._slots.asked = sum(given.values())
        try:
            leased = await self._database.deliveries.lease(wants, owner=self._owner)
        except BaseException:
            for route_id in given:
                self._lanes[route_id].answered(0, ready=True)
            raise
        finally:
            self._slots.asked = 0
        got = Counter(job.route for job in leased)
        for want in wants:
            many = got[want.route]
            self._lanes[want.route].answered(many, ready=many == want.most)
        until_s = {want.route: now_s + want.lease_ms / 1000 for want in wants}
        self._slots.taken += len(leased)
        for job in leased:
            self._start(self._lanes[job.route], job, until_s=until_s[job.route])
        return True

    def _lease_ms(self, lane: RouteLane) -> int:
        return int(max(self._limits.lease_s, 2 * lane.route.timeout_s) * 1000)

    def _start(self, lane: RouteLane, job: Leased, *, until_s: float) -> None:
        task = asyncio.create_task(self._attempts.make(lane, job, until_s=until_s))
        self._jobs.add(task)
        task.add_done_callback(self._jobs.discard)

    def _ended(self, lane: RouteLane) -> None:
        lane.running -= 1
        if lane.ready or lane.is_leaving:
            self._event.set()

    def _written(self) -> None:
        self._slots.taken -= 1
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


def _log_stall(error: Exception) -> None:
    if isinstance(error, MailonceError):
        log.warning(WORKER_STALLED, code=error.code)
    else:
        log.error(UNEXPECTED, where="worker", error=type(error).__name__, exc_info=error)
