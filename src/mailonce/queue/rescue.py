"""Rescue: end leases of dead workers, and give up on what is past its deadline."""

from collections.abc import Iterable, Sequence
from functools import partial

from mailonce.clock import Clock
from mailonce.queue.wake import Wakes
from mailonce.queue.work import Work
from mailonce.store.dialects.contract import Database, Priority
from mailonce.store.work import rows
from mailonce.telemetry import LEASES_LOST, log

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

    async def rescue(
        self,
        work: Work,
        now_ms: int,
        *,
        of: bytes | None = None,
        alive: Sequence[bytes] | None = None,
    ) -> None:
        """End leases that ran out, those `of` a worker that is gone, or all but those `alive`."""
        ending = partial(
            rows.rescue,
            now_ms=now_ms,
            new_id=self._clock.new_id,
            lost_max=self._lost_leases_max,
            most=ROWS_MAX,
            of=of,
            alive=alive,
            table=work.table,
        )
        is_last = False
        while not is_last:
            rescued = await self._database.write(ending, priority=Priority.WORKER)
            if rescued:
                dead = sum(one.is_dead for one in rescued)
                log.warning(LEASES_LOST, leases=len(rescued), dead=dead)
                self._wakes.owed({one.route for one in rescued})
            is_last = len(rescued) < ROWS_MAX

    async def give_up(self, work: Work, lanes: Iterable[str], now_ms: int) -> None:
        """Give up on what is past its deadline while an open breaker keeps it from being tried."""
        for lane in lanes:
            giving_up = partial(
                rows.give_up,
                lane=lane,
                reason="deadline",
                until_ms=now_ms,
                now_ms=now_ms,
                new_id=self._clock.new_id,
                most=ROWS_MAX,
                table=work.table,
            )
            if many := await self._database.write(giving_up, priority=Priority.MAINTENANCE):
                work.note_dead(lane, "deadline", many=many)
