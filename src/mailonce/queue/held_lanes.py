"""The lanes of one process: which it takes, keeps and gives away, and what is due on each."""

from collections.abc import Callable, Iterable, Mapping, Sequence

from mailonce.clock import Clock
from mailonce.core.work.fair_share import surplus
from mailonce.core.work.job import Look
from mailonce.queue.crew import SUSPECT_S, Crew, CrewView
from mailonce.queue.rescue import Rescuer
from mailonce.queue.wake import Wakes
from mailonce.queue.work import Work
from mailonce.queue.work_lane import WorkLane
from mailonce.queue.worker_limits import WorkerLimits
from mailonce.store.dialects.contract import Database
from mailonce.telemetry import OutgoingMetrics

# A lane whose work waits for longer than this is one that we do not keep up with.
BEHIND_MS = 500
# For how long a lane that was given away is left to others, and for how long it is then kept.
GIVEN_S, KEPT_S = 2.0, 30.0
# How long a lane that is to leave starts nothing, until what is under way on it has ended: that is
# as long as most attempts can take. One that could not leave in time is not asked again so soon.
LEAVE_S, STAY_S = 15.0, 300.0


class HeldLanes:
    """Looks each second which lanes have work, and holds those that we can run.

    Invariant: a lane is held by one process at a time, until a time of the database's clock; what
    a process that died held is free after that, or as soon as somebody sees that it is gone.
    """

    def __init__(
        self,
        database: Database,
        clock: Clock,
        metrics: OutgoingMetrics,
        works: Sequence[Work],
        wakes: Wakes,
        limits: WorkerLimits,
        *,
        owner: bytes,
        wake: Callable[[], None],
    ) -> None:
        self._database = database
        self._clock = clock
        self._metrics = metrics
        self._works = works
        self._wakes = wakes
        self._owner = owner
        self._limits = limits
        self._wake = wake
        self._crew = Crew(database.lanes, clock, owner, hold_s=limits.hold_s)
        self._rescuer = Rescuer(database, clock, wakes, lost_leases_max=limits.lost_leases_max)
        self._lanes: dict[str, WorkLane] = {}
        self._look_s = 0.0
        self._give_up_s = 0.0
        self.start = self._crew.start
        self.stop = self._crew.stop

    @property
    def known(self) -> Mapping[str, WorkLane]:
        """The lanes that we hold or would like to, by their ids."""
        return self._lanes

    def wake(self, lane_ids: Iterable[str]) -> None:
        """Note that something may be due on these lanes."""
        for lane_id in lane_ids:
            lane = self._find(lane_id)
            if lane is not None:
                lane.ready = lane.owed = True
        self._wake()

    def wake_all(self) -> None:
        """Look at everything; lanes may have been given back."""
        self._look_s = 0.0
        for lane in self._lanes.values():
            lane.denied_until_s = min(lane.denied_until_s, lane.given_until_s)
        self._wake()

    def holds(self, lane_id: str) -> bool:
        lane = self._lanes.get(lane_id)
        return lane is not None and lane.is_held(self._clock.monotonic())

    def endpoints_down(self) -> dict[str, float]:
        """Give the lanes whose endpoints are taken to be down; in how many seconds each is asked.

        Of lanes that other workers hold nothing is known here.
        """
        now_s = self._clock.monotonic()
        return {
            lane.id: max(0.0, lane.breaker.next_look_s - now_s)
            for lane in self._lanes.values()
            if lane.breaker.is_open
        }

    def set_up(self) -> None:
        """Let every attempt that begins from here on go by the lanes as they are set up now."""
        for lane_id, lane in self._lanes.items():
            lane.set_up(lane.work.find(lane_id))

    def next_look(self) -> float:
        """Say when to look again, if nothing happens before."""
        now_s = self._clock.monotonic()
        times = (lane.wakes_at(now_s) for lane in self._lanes.values())
        # What is past already waits for a slot, and a slot that falls free wakes us.
        return min([self._look_s, *(time for time in times if time is not None and time > now_s)])

    async def begin(self) -> None:
        """End the leases of an earlier life, where all workers that are alive are known."""
        alive = await self._database.lanes.begin(self._owner)
        if alive is not None:
            now_ms = (await self._database.head()).now_ms
            for work in self._works:
                await self._rescuer.rescue(work, now_ms, alive=alive)

    async def let_go(self) -> None:
        await self._database.lanes.let_go(self._owner)

    async def look(self) -> None:
        """Look once a second which lanes have work, since when, and who holds them."""
        now_s = self._clock.monotonic()
        if now_s < self._look_s:
            return
        self._look_s = now_s + self._limits.look_every_s
        crew = await self._crew.look()
        if crew.suspects:
            self._look_s = now_s + SUSPECT_S / 2
        looks = [(work, await work.leases.look()) for work in self._works]
        await self._rescue(crew, looks)
        if now_s >= self._give_up_s:
            self._give_up_s = now_s + self._limits.give_up_every_s
            for work, look in looks:
                closed = [
                    lane.id
                    for lane in self._lanes.values()
                    if lane.work is work and lane.breaker.is_open and lane.is_held(now_s)
                ]
                await self._rescuer.give_up(work, closed, look.now_ms)
        for lane_id, lane in list(self._lanes.items()):
            lane.owed = lane.running > 0 or lane.must_stay(now_s)
            lane.is_behind = False
            if self._find(lane_id) is None:
                self._forget(lane_id)
        oldest_ms = max((self._note_owed(look, now_s) for _, look in looks), default=0)
        self._metrics.oldest_due_seconds.set(oldest_ms / 1000)
        self._choose_leaving(crew.lanes, now_s)
        idle = [
            lane_id
            for lane_id, lane in self._lanes.items()
            if not lane.owed and not lane.is_held(now_s)
            # Of what is down another worker may know better since.
            and (crew.lanes or not lane.breaker.is_open)
        ]  # fmt: skip
        for lane_id in idle:
            self._forget(lane_id)

    async def hold(self) -> None:
        """Take lanes that have work, and keep those we hold.

        What is written then also tells other processes which endpoints are down; where that has
        changed, a lane is not left until half of its time is over.
        """
        now_s = self._clock.monotonic()
        await self._give_away(now_s)
        soon_s = now_s + self._limits.hold_s / 2
        wanted = [
            lane_id
            for lane_id, lane in self._lanes.items()
            if (
                (lane.owed and lane.held_until_s < soon_s)
                or (lane.is_held(now_s) and lane.is_said_down != lane.breaker.is_open)
            )
            and max(lane.denied_until_s, lane.given_until_s) <= now_s
            and lane.rule.off is None
        ]
        if not wanted:
            return
        hold_ms = int(self._limits.hold_s * 1000)
        down = self.endpoints_down()
        held = await self._database.lanes.hold(
            wanted,
            owner=self._owner,
            hold_ms=hold_ms,
            down_in_ms={lane_id: int(in_s * 1000) for lane_id, in_s in down.items()},
        )
        for lane_id in wanted:
            lane = self._lanes[lane_id]
            if lane_id in held:
                lane.held_until_s = now_s + self._limits.hold_s
                lane.is_said_down = lane_id in down
            else:
                lane.held_until_s, lane.denied_until_s = 0.0, now_s + self._limits.look_every_s

    def _forget(self, lane_id: str) -> None:
        """Drop a lane; nobody here is told any more when its endpoint is up."""
        if self._lanes.pop(lane_id).breaker.is_open:
            self._metrics.breaker_open.labels(lane_id).set(0)

    def _find(self, lane_id: str) -> WorkLane | None:
        """Find a lane that this process can run, as it is set up now."""
        for work in self._works:
            settings = work.find(lane_id)
            if settings is None:
                continue
            lane = self._lanes.get(lane_id)
            if lane is None:
                now_s = self._clock.monotonic()
                lane = WorkLane.of(work, lane_id, settings, self._limits.breaker, now_s=now_s)
                self._lanes[lane_id] = lane
            return lane
        return None

    async def _rescue(self, crew: CrewView, looks: Sequence[tuple[Work, Look]]) -> None:
        for owner in crew.gone:
            for work, look in looks:
                await self._rescuer.rescue(work, look.now_ms, of=owner)
            await self._crew.take_over(owner)
        for work, look in looks:
            if look.has_lost:
                await self._rescuer.rescue(work, look.now_ms)

    def _note_owed(self, look: Look, now_s: float) -> int:
        """Note what is due and when; say for how long the oldest waits."""
        oldest_ms = 0
        for owed in look.owed:
            lane = self._find(owed.route)
            if lane is not None and lane.rule.off is None:
                lane.owed = True
                lane.due_in(owed.due_in_ms / 1000, now_s=now_s)
                lane.is_behind = owed.due_in_ms <= -BEHIND_MS
                oldest_ms = max(oldest_ms, -owed.due_in_ms)
        return oldest_ms

    def _choose_leaving(self, others: Sequence[int], now_s: float) -> None:
        """Choose lanes that we do not keep up with for workers that have fewer."""
        behind = [
            lane
            for lane in self._lanes.values()
            if lane.is_behind and lane.is_held(now_s) and not lane.is_leaving
            and not lane.is_stopped(now_s)
        ]  # fmt: skip
        # The busiest stays, the next busiest goes, and so on: both sides have about as much.
        behind.sort(key=lambda lane: -lane.recent)
        movable = [lane for lane in behind[1::2] + behind[0::2] if lane.kept_until_s <= now_s]
        for lane in movable[: surplus(len(behind), others)]:
            lane.leave(now_s, within_s=LEAVE_S)
        for lane in self._lanes.values():
            lane.recent //= 2

    async def _give_away(self, now_s: float) -> None:
        """Give back lanes that should leave and have nothing under way any more.

        So a lane's concurrency and rate are never those of two processes at once. One whose call
        lasts longer, as a mail server's may for minutes, stays: its other work must not wait.
        """
        for lane in self._lanes.values():
            if lane.is_leaving and lane.running and now_s >= lane.leave_until_s:
                lane.stay(now_s, kept_s=STAY_S)
        leaving = [lane for lane in self._lanes.values() if lane.is_leaving and not lane.running]
        if not leaving:
            return
        await self._database.lanes.let_go(self._owner, [lane.id for lane in leaving])
        for lane in leaving:
            lane.left(now_s, given_s=GIVEN_S, kept_s=KEPT_S)
        self._wakes.owed_everywhere()
