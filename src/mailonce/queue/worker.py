"""The worker: lease what can start now, run it, and hand its end to the finisher.

One worker runs every kind of work of its process: they share its slots, its lanes (`held_lanes.py`)
and its presence among the workers of all processes (`crew.py`). A turn of the loop looks around if
a second has passed, takes lanes that are owed something, shares the free slots between them, and
leases as much as can start at once, in one statement for each kind. What this process records
itself may be leased without a turn, in the statement that records it (`reservation.py`). Attempts
(`attempt.py`) run by themselves; their ends are collected and written together (`finish.py`).

The loop waits for the database alone, never for an attempt, and an attempt waits for nobody but the
endpoint. A slot is taken from the lease until its end is written, so a database that is away stops
new attempts and loses no result of those under way.

What a crash leaves, between
- the lease and the first byte, or the last byte and the written end: a lease that nobody ends.
  Other workers see that this one is gone, or the lease runs out; the work is due again under the
  same key, and after `lost_leases_max` of these it is a dead letter.
- the written end and what follows it here: nothing to do; a retry is due by the database's clock.

An attempt that may take longer than a lease (a mail server has minutes for its last reply) has it
renewed while its process is alive, up to the bound of its kind.

A paused process is a crash from which it wakes, and what ran out meanwhile is not renewed. Every
lease has a token of its own and an end is written only where the token still stands, so what it
reports too late changes nothing; and it does not begin what it leased before the pause, once that
lease may be over.
"""

import asyncio
from collections.abc import Sequence
from dataclasses import dataclass

from mailonce.clock import Clock
from mailonce.core.work.fair_share import Demand, fair_share
from mailonce.core.work.job import LeasedJob, LeaseRenewal, LeaseRequest
from mailonce.core.work.states import AttemptKind
from mailonce.errors import MailonceError, UnavailableError
from mailonce.queue.attempt import Attempts
from mailonce.queue.held_lanes import HeldLanes
from mailonce.queue.reservation import Reserver, Slots
from mailonce.queue.wake import Wakes
from mailonce.queue.work import Work
from mailonce.queue.work_lane import WorkLane
from mailonce.queue.worker_limits import WorkerLimits
from mailonce.store.dialects.contract import Database
from mailonce.telemetry import UNEXPECTED, WORKER_STALLED, OutgoingMetrics, log

PLAN_EVERY_S = 0.002
STALL_S, STALL_S_MAX = 0.1, 5.0
# How often a stall that lasts is logged.
LOG_STALL_S = 60.0
# Where there are several workspaces, one has at most this share of a process's slots.
WORKSPACE_SHARE = 0.75
# A lease is renewed when less than this share of it is left.
RENEW_AT_SHARE = 2 / 3


@dataclass(slots=True)
class RunningAttempt:
    """An attempt under way, and until when it is leased."""

    lane: WorkLane
    job: LeasedJob
    began_s: float
    until_s: float


class Worker:
    """Runs the work on the lanes that this process holds.

    Invariant: a lease is taken only for what starts at once, and its end is written only where
    its token still stands. A crash at any moment leaves leases that run out, and their work is
    then tried again under the same key.
    """

    def __init__(
        self,
        database: Database,
        clock: Clock,
        metrics: OutgoingMetrics,
        works: Sequence[Work],
        wakes: Wakes,
        limits: WorkerLimits,
    ) -> None:
        self._clock = clock
        self._wakes = wakes
        self._limits = limits
        self._owner = clock.new_id()
        self._event = asyncio.Event()
        self._lanes = HeldLanes(
            database, clock, metrics, works, wakes, limits, owner=self._owner, wake=self._event.set
        )
        self._attempts = {
            work.table.name: Attempts(
                work, clock, metrics, ended=self._ended, written=self._written
            )
            for work in works
        }
        self._slots = Slots(limits.concurrency)
        self._jobs: dict[asyncio.Task[None], RunningAttempt] = {}
        self._renew_s = 0.0
        self._overdue_s = 0.0
        self._leased_s = 0.0
        self._log_stall_s = 0.0
        self._stopping = False
        self._task: asyncio.Task[None] | None = None
        self._reserver = Reserver(
            clock, self._lanes.known, self._slots, owner=self._owner, hold_s=limits.hold_s,
            lease_ms=self._lease_ms, start=self._start, wake=self._event.set,
        )  # fmt: skip
        # What this process records may be leased to this worker at once.
        self.reserve = self._reserver.reserve
        self.wake = self._lanes.wake
        self.holds = self._lanes.holds
        self.endpoints_down = self._lanes.endpoints_down
        wakes.attach(self._lanes.wake, self._lanes.wake_all, self._lanes.holds)
        for work in works:
            work.then(self._lanes.set_up)

    def start(self) -> None:
        self._lanes.start()
        for attempts in self._attempts.values():
            attempts.start()
        self._task = asyncio.create_task(self._run(), name="worker")

    async def stop(self) -> None:
        """Lease nothing more, let attempts end, store their results, give the lanes back."""
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
        drain_s = self._limits.drain_s
        await asyncio.gather(*(one.close(timeout_s=drain_s) for one in self._attempts.values()))
        try:
            await self._lanes.let_go()
        except MailonceError as error:
            log.warning(WORKER_STALLED, step="let_go", code=error.code)
        await self._lanes.stop()
        self._wakes.owed_everywhere()

    async def _run(self) -> None:
        begun = False
        stalls = 0
        while not self._stopping:
            try:
                if not begun:
                    await self._lanes.begin()
                    begun = True
                await self._lanes.look()
                await self._renew()
                self._stop_overdue()
                await self._lanes.hold()
                worked = await self._lease()
                stalls = 0
            except Exception as error:  # noqa: BLE001 - an outermost loop
                self._log_stall(error)
                stalls += 1
                await self._rest(min(STALL_S_MAX, STALL_S * 2**stalls))
                continue
            if not worked or not any(lane.ready for lane in self._lanes.known.values()):
                await self._rest(self._lanes.next_look() - self._clock.monotonic())
            # Under load, slots that fall free and work that comes meanwhile is leased together;
            # at a slow pace nothing waits.
            early_s = self._leased_s + PLAN_EVERY_S - self._clock.monotonic()
            if self._slots.taken and early_s > 0:
                await asyncio.sleep(early_s)

    async def _rest(self, seconds: float) -> None:
        """Sleep until something happens, without a query to the database."""
        if seconds > 0 and not self._event.is_set():
            loop = asyncio.get_running_loop()
            alarm = loop.call_later(seconds, self._event.set)
            await self._event.wait()
            alarm.cancel()
        self._event.clear()

    async def _lease(self) -> bool:
        """Lease what can start now, for all lanes of a kind at once; say whether any lane could."""
        now_s = self._clock.monotonic()
        given = self._shares(now_s)
        if not given:
            return False
        self._leased_s = now_s
        wants: dict[str, list[LeaseRequest]] = {}
        for lane_id, most in given.items():
            lane = self._lanes.known[lane_id]
            lane.begin_lease()
            most_now, kinds = lane.next_turn(most)
            want = LeaseRequest(lane_id, most_now, self._lease_ms(lane), kinds)
            wants.setdefault(lane.work.table.name, []).append(want)
        self._slots.requested = sum(given.values())
        try:
            while wants:
                kind, wanted = next(iter(wants.items()))
                leased = await self._attempts[kind].work.leases.lease(wanted, owner=self._owner)
                del wants[kind]
                self._begin(wanted, leased, now_s)
        finally:
            self._slots.requested = 0
            for wanted in wants.values():
                for want in wanted:
                    self._lanes.known[want.route].answered((), most=0)
        return True

    def _shares(self, now_s: float) -> dict[str, int]:
        """Share the free slots between workspaces and their lanes."""
        limit = self._slots.limit
        free = limit - self._slots.taken
        demands = [
            Demand(lane_id, lane.settings.workspace, lane.running, lane.room(now_s))
            for lane_id, lane in self._lanes.known.items()
        ]
        workspace_max = limit
        if len({one.workspace for one in demands}) > 1:
            workspace_max = max(1, int(limit * WORKSPACE_SHARE))
        return fair_share(
            free, demands, workspace_max=workspace_max, own_slots=limit + min(0, free)
        )

    def _begin(
        self, wants: Sequence[LeaseRequest], leased: Sequence[LeasedJob], now_s: float
    ) -> None:
        kinds: dict[str, list[AttemptKind]] = {}
        for job in leased:
            kinds.setdefault(job.route, []).append(job.lane)
        until_s = {}
        for want in wants:
            self._lanes.known[want.route].answered(kinds.get(want.route, ()), most=want.most)
            until_s[want.route] = now_s + want.lease_ms / 1000
        self._slots.taken += len(leased)
        for job in leased:
            self._start(self._lanes.known[job.route], job, until_s=until_s[job.route])

    def _lease_ms(self, lane: WorkLane) -> int:
        return int(max(self._limits.lease_s, 2 * lane.rule.timeout_s) * 1000)

    def _start(self, lane: WorkLane, job: LeasedJob, *, until_s: float) -> None:
        attempts = self._attempts[lane.work.table.name]
        task = asyncio.create_task(attempts.make(lane, job, until_s=until_s))
        self._jobs[task] = RunningAttempt(lane, job, self._clock.monotonic(), until_s)
        task.add_done_callback(self._jobs.pop)

    async def _renew(self) -> None:
        """Renew the leases of attempts that may take longer, once a third of a lease is over."""
        now_s = self._clock.monotonic()
        if now_s < self._renew_s:
            return
        self._renew_s = now_s + self._limits.look_every_s / 2
        due: dict[str, list[tuple[RunningAttempt, LeaseRenewal]]] = {}
        for one in self._jobs.values():
            lease_ms = self._lease_ms(one.lane)
            is_late = one.until_s - now_s < lease_ms / 1000 * RENEW_AT_SHARE
            if is_late and now_s < one.began_s + one.lane.rule.attempt_s_max:
                renewal = LeaseRenewal(one.job.key, one.job.token, lease_ms)
                due.setdefault(one.lane.work.table.name, []).append((one, renewal))
        for kind, renewals in due.items():
            leases = self._attempts[kind].work.leases
            stood = await leases.renew([renewal for _, renewal in renewals])
            for one, renewal in renewals:
                if renewal.key in stood:
                    one.until_s = now_s + renewal.lease_ms / 1000

    def _stop_overdue(self) -> None:
        """Stop attempts that outlasted their leases, each second; whatever they say is fenced.

        Every kind has time limits of its own. One that forgot them must not keep a slot for ever.
        """
        now_s = self._clock.monotonic()
        if now_s < self._overdue_s:
            return
        self._overdue_s = now_s + self._limits.overdue_s / 2
        for task, one in self._jobs.items():
            if one.until_s + self._limits.overdue_s <= now_s:
                task.cancel()

    def _ended(self, lane: WorkLane, job: LeasedJob) -> None:
        lane.ended(job.lane)
        if lane.ready or lane.is_leaving:
            self._event.set()

    def _written(self) -> None:
        self._slots.taken -= 1
        self._event.set()

    def _log_stall(self, error: Exception) -> None:
        """Log why nothing can be leased; an outage of the database once in a while."""
        if not isinstance(error, MailonceError):
            log.error(UNEXPECTED, where="worker", error=type(error).__name__, exc_info=error)
            return
        now_s = self._clock.monotonic()
        if now_s >= self._log_stall_s or not isinstance(error, UnavailableError):
            log.warning(WORKER_STALLED, code=error.code, reason=str(error))
            self._log_stall_s = now_s + LOG_STALL_S
