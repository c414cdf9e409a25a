"""Slots for deliveries that are being recorded (`store/dialects/lease_on_record.py`)."""

import asyncio
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import NamedTuple, Protocol

from mailonce.clock import Clock
from mailonce.core.work.job import End, Finish, LeasedJob
from mailonce.core.work.lifecycle import finish
from mailonce.core.work.states import WorkKey
from mailonce.errors import MailonceError
from mailonce.queue.work import Work
from mailonce.queue.work_lane import WorkLane
from mailonce.telemetry import FINISH_FAILED, log


class Start(Protocol):
    """Begins an attempt whose slot is taken already."""

    def __call__(self, lane: WorkLane, job: LeasedJob, *, until_s: float) -> None: ...


@dataclass(slots=True)
class Slots:
    """The slots of a process: those taken, and those that a lease under way may take."""

    limit: int
    taken: int = 0
    requested: int = 0


class ReservedSlots(NamedTuple):
    """What is reserved for one route: slots of its lane, for these keys and this lease time."""

    lane: WorkLane
    keys: Sequence[WorkKey]
    lease_ms: int


class Reserver:
    """Reserves slots on the lanes of a worker."""

    def __init__(
        self,
        clock: Clock,
        lanes: Mapping[str, WorkLane],
        slots: Slots,
        *,
        owner: bytes,
        hold_s: float,
        lease_ms: Callable[[WorkLane], int],
        start: Start,
        wake: Callable[[], None],
    ) -> None:
        self._clock = clock
        self._lanes = lanes
        self._slots = slots
        self._owner = owner
        self._hold_s = hold_s
        self._lease_ms = lease_ms
        self._start = start
        self._wake = wake
        self._tasks: set[asyncio.Task[None]] = set()
        self._closed = False

    def reserve(self, keys: Mapping[str, Sequence[WorkKey]]) -> "SlotReservation | None":
        """Take slots for deliveries that are about to be recorded, for all of a route or none.

        Only while half of the slots are free: beyond that the worker's fair share decides.
        """
        if self._closed:
            return None
        now_s = self._clock.monotonic()
        places: dict[str, ReservedSlots] = {}
        for route, owed in keys.items():
            lane, slots = self._lanes.get(route), self._slots
            has_room = 2 * (slots.taken + slots.requested + len(owed)) <= slots.limit
            if lane is None or not has_room or not lane.takes(len(owed), now_s):
                continue
            slots.taken += len(owed)
            lane.started(len(owed))
            lane.owed = True
            if lane.held_until_s < now_s + self._hold_s / 2:
                # Nothing else wakes the worker, which keeps the lane.
                self._wake()
            places[route] = ReservedSlots(lane, owed, self._lease_ms(lane))
        if not places:
            return None
        # Below zero, where no other lease's token is: those count up from zero.
        token = -1 - int.from_bytes(self._clock.chance(7), "big")
        return SlotReservation(self, self._owner, places, now_s, token)

    def begin(self, place: ReservedSlots, job: LeasedJob, *, from_s: float) -> None:
        """Begin an attempt, which was leased no earlier than `from_s`."""
        self._start(place.lane, job, until_s=from_s + place.lease_ms / 1000)

    def free(self, place: ReservedSlots, many: int) -> None:
        """Free slots that are not used."""
        self._slots.taken -= many
        place.lane.freed(many)
        self._wake()

    def end_leases(self, places: Iterable[ReservedSlots], token: int) -> None:
        """End leases that a lost statement may have taken; one that fails to end runs out."""
        task = asyncio.create_task(self._end_leases(list(places), token))
        self._tasks.add(task)
        task.add_done_callback(self._tasks.discard)

    async def close(self) -> None:
        """Reserve nothing more, and wait until leases are ended."""
        self._closed = True
        await asyncio.gather(*self._tasks)

    async def _end_leases(self, places: list[ReservedSlots], token: int) -> None:
        by_work: dict[Work, list[Finish]] = {}
        for place in places:
            untried = (finish(key, token, End.UNTRIED) for key in place.keys)
            by_work.setdefault(place.lane.work, []).extend(untried)
        for work, finishes in by_work.items():
            try:
                await work.leases.finish(finishes)
            except MailonceError as error:
                log.warning(FINISH_FAILED, results=len(finishes), code=error.code)
        for place in places:
            place.lane.ready = True
        self._wake()


@dataclass(slots=True)
class SlotReservation:
    """Slots that count as taken until `start`, `cancel` or `give_back`, of which one is called.

    Until then a lane is not given away, and no more is leased than its route allows.
    """

    reserver: Reserver
    owner: bytes
    places: Mapping[str, ReservedSlots]
    # When it was made: leases last at least from here on.
    from_s: float
    # Of the leases that it takes, and of no other.
    token: int

    @property
    def lease_ms(self) -> Mapping[str, int]:
        return {route: place.lease_ms for route, place in self.places.items()}

    def start(self, jobs: Sequence[LeasedJob]) -> None:
        """Begin what was leased, and free the slots of what was not."""
        used = dict.fromkeys(self.places, 0)
        for job in jobs:
            used[job.route] += 1
            self.reserver.begin(self.places[job.route], job, from_s=self.from_s)
        for route, place in self.places.items():
            if len(place.keys) > used[route]:
                self.reserver.free(place, len(place.keys) - used[route])

    def cancel(self) -> None:
        self.start(())

    def give_back(self) -> None:
        """Free the slots, and end the leases that may have been taken."""
        self.cancel()
        self.reserver.end_leases(self.places.values(), self.token)
