"""Rescue: end leases that nobody will end, and give up on what is past its deadline."""

from collections.abc import Iterable
from functools import partial

from mailonce.clock import Clock
from mailonce.queue.wake import Wakes
from mailonce.store import burial, deliveries
from mailonce.store.dialects.contract import Database, Priority
from mailonce.telemetry import DELIVERY_DEAD, LEASES_LOST, log

ROWS_MAX = 200


class Rescuer:
    """Makes due again what a worker left behind; after too many lost leases it is dead."""

    def __init__(
        self, database: Database, clock: Clock, wakes: Wakes, *, lost_leases_max: int
    ) -> None:
        self._database = database
        self._clock = clock
        self._wakes = wakes
        self._lost_leases_max = lost_leases_max

    async def rescue(self, now_ms: int, *, everyone: bool = False, of: bytes | None = None) -> None:
        """End leases that ran out, those `of` a worker that is gone, or those of `everyone`."""
        work = partial(
            deliveries.rescue,
            now_ms=now_ms,
            new_id=self._clock.new_id,
            lost_max=self._lost_leases_max,
            most=ROWS_MAX,
            everyone=everyone,
            of=of,
        )
        is_last = False
        while not is_last:
            rescued = await self._database.write(work, priority=Priority.WORKER)
            if rescued:
                dead = sum(one.is_dead for one in rescued)
                log.warning(LEASES_LOST, leases=len(rescued), dead=dead)
                self._wakes.owed({one.route for one in rescued})
            is_last = len(rescued) < ROWS_MAX

    async def bury(self, routes: Iterable[str], now_ms: int) -> None:
        """Give up on what is past its deadline while an open breaker keeps it from being tried."""
        for route in routes:
            work = partial(
                burial.bury,
                route=route,
                reason="deadline",
                until_ms=now_ms,
                now_ms=now_ms,
                new_id=self._clock.new_id,
                most=ROWS_MAX,
            )
            if buried := await self._database.write(work, priority=Priority.MAINTENANCE):
                log.warning(DELIVERY_DEAD, route=route, deliveries=buried, reason="deadline")
