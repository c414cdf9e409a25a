"""Maintenance: make partitions for days to come, delete what is past its time."""

from collections.abc import Awaitable, Callable, Iterator, Sequence
from contextlib import suppress
from dataclasses import dataclass
from functools import partial

from mailonce.core.moment import moment
from mailonce.errors import MailonceError, UnavailableError
from mailonce.loop import Loop
from mailonce.store import housekeeping
from mailonce.store.dialects.contract import DAY_MS, Database, LockedError, Priority, Tx
from mailonce.store.housekeeping import Ages, Forgetting, Retention
from mailonce.store.ledger import counts, dead_letters
from mailonce.store.schema.work_table import DELIVERY_TABLE, WorkTable
from mailonce.store.sends import pages as send_pages
from mailonce.store.work import clock_step, expiry, pages
from mailonce.store.work import rows as work_rows
from mailonce.telemetry import (
    CLOCK_LEAPED,
    CLOCK_SET_BACK,
    DATABASE_AVAILABLE,
    MAINTENANCE_FAILED,
    PRUNED,
    PRUNING_WAITS,
    RETENTION_CHANGED,
    Metrics,
    log,
)

TICK_S = 1.0
PRUNE_EVERY_TICKS = 600
CLOCK_EVERY_TICKS = 2
GIVE_UP_EVERY_TICKS = 5
COUNT_EVERY_TICKS = 15
COUNT_SENDS_EVERY_TICKS = 60
# Finished deliveries are kept for this many windows, with their attempts.
DELIVERIES_WINDOWS = 2
DAYS_AHEAD = 8
SLICE_ROWS = 2_000
DELIVERY_ROWS = 500
# What is given up while somebody waits for a route to be removed; the next round has the rest.
REMOVAL_SLICES_MAX = 10
# A wait for another's row ends after half a second each time.
LOCKED_TRIES = 10


@dataclass(frozen=True, slots=True)
class MaintenanceStep:
    """Something to be done every so many seconds; it is safe to run twice and at once."""

    name: str
    every_ticks: int
    run: Callable[[], Awaitable[object]]
    # It deletes what is old by the clock, so it waits where the clock leaped ahead.
    forgets: bool = False


@dataclass(frozen=True, slots=True)
class PruneResult:
    """What one round of pruning did."""

    days: int
    rotated: bool
    rows: int
    # Where nothing was deleted because the clock leaped ahead.
    waits_until: str | None = None


class Maintenance:
    """Every process may run it: each step is safe to run twice and at once."""

    def __init__(
        self,
        database: Database,
        metrics: Metrics,
        flush: Callable[[], Awaitable[None]],
        *,
        new_id: Callable[[], bytes],
        window_days: int,
        facts_days: int,
        works: Sequence[WorkTable] = (DELIVERY_TABLE,),
        steps: Sequence[MaintenanceStep] = (),
    ) -> None:
        self._database = database
        self._new_id = new_id
        self._metrics = metrics
        self._flush = flush
        self._window_days = window_days
        self._facts_days = facts_days
        self._works = works
        self._further = steps
        self._ticks = 0
        # The steps that could not reach the database when they last ran.
        self._away: set[str] = set()
        self._loop = Loop("maintenance", self._tick, retry_s=TICK_S, failed=MAINTENANCE_FAILED)
        self.start = self._loop.start

    async def stop(self) -> None:
        """Stop, after storing what was counted in memory."""
        await self._loop.stop()
        try:
            await self._flush()
        except MailonceError as error:
            log.warning(MAINTENANCE_FAILED, step="flush", code=error.code)

    async def keep(self) -> None:
        """Store this server's retention for every process that prunes."""
        own = Retention(self._window_days, self._facts_days)
        before = await self._database.write(partial(housekeeping.set_retention, kept=own))
        if before.window_days and before != own:
            log.warning(RETENTION_CHANGED, before=before._asdict(), now=own._asdict())

    async def prune(self) -> PruneResult:
        """Delete what is older than its window.

        A key is remembered for at least one window after its first arrival: generations are one
        window long, and two of them are kept. Where the clock leaped ahead, nothing is deleted
        until it has run on for a while.
        """
        await self.mend_clock()
        head = await self._database.head()
        in_force = await self._database.read(housekeeping.retention)
        # The settings of a command must not delete what the servers keep.
        self._window_days = in_force.window_days or self._window_days
        self._facts_days = in_force.facts_days or self._facts_days
        today = head.now_ms // DAY_MS
        await self._database.ensure_days(range(today - 1, today + DAYS_AHEAD))
        if head.rotated_ms == 0:
            await self._database.write(lambda tx: housekeeping.begin(tx, now_ms=head.now_ms))
        note = await self._database.read(clock_step.read_note)
        if (waits_until := moment(note.waits_until_ms(head.now_ms))) is not None:
            log.warning(PRUNING_WAITS, until=waits_until)
            return PruneResult(days=0, rotated=False, rows=0, waits_until=waits_until)
        window_ms = self._window_days * DAY_MS
        rotated = head.is_rotation_due(window_ms) and await self._database.rotate(
            window_ms=window_ms
        )
        oldest_day = today - self._window_days
        given_up = await self._give_up(head.now_ms, late=True)
        await self._keep_bodies(oldest_day)
        days = await self._database.drop_days(before=oldest_day)
        rows = given_up + await self._forget_rows(head.now_ms)
        for step in self._further:
            await step.run()
        log.info(PRUNED, days=days, rotated=rotated, rows=rows)
        return PruneResult(days=days, rotated=rotated, rows=rows)

    async def mend_clock(self) -> None:
        """Move due times back where the database's clock was set back, and note a leap ahead."""
        now_ms = (await self._database.head()).now_ms
        back_ms = await self._slice(partial(clock_step.mend, now_ms=now_ms, tables=self._works))
        if back_ms > 0:
            log.warning(CLOCK_SET_BACK, back_ms=back_ms)
        elif back_ms < 0:
            log.warning(CLOCK_LEAPED, ahead_ms=-back_ms)

    async def count_sends(self) -> None:
        """Show how many sends are unknown, and how many of them wait for a person."""
        count = await self._database.read(send_pages.count_unknown)
        self._metrics.sends_unknown.set(count.unknown)
        self._metrics.sends_need_person.set(count.need_person)

    async def _forget_rows(self, now_ms: int) -> int:
        today = now_ms // DAY_MS
        await self._until_none(partial(counts.fold, before_day=today))
        ages = Ages(now_ms - self._window_days * DAY_MS, now_ms - self._facts_days * DAY_MS)
        rows = 0
        for forgetting in housekeeping.FORGET:
            rows += await self._forget(forgetting, ages)
        finished_before_ms = now_ms - DELIVERIES_WINDOWS * self._window_days * DAY_MS
        old = partial(expiry.forget, before_ms=finished_before_ms, most=DELIVERY_ROWS)
        return rows + await self._until_none(old)

    async def _keep_bodies(self, before_day: int) -> None:
        """Find, beside the writer, pending deliveries of days that are about to be dropped."""
        look = partial(expiry.bodies_owed, before_day=before_day, most=DELIVERY_ROWS)
        while owed := await self._database.read(look):
            kept = await self._slice(partial(expiry.keep_bodies, owed=owed))
            if not kept:
                break

    async def _forget(self, forgetting: Forgetting, ages: Ages) -> int:
        rows, after = 0, None
        while True:
            old = await self._database.read(
                partial(forgetting.find, ages=ages, after=after, most=SLICE_ROWS)
            )
            if old.keys:
                rows += await self._slice(partial(forgetting.delete, ages=ages, keys=old.keys))
            after = old.after
            if after is None:
                return rows

    async def give_up_removed(self, route_id: str) -> None:
        """Give up on what was due to a route that was just removed; the rest follows by itself."""
        now_ms = (await self._database.head()).now_ms
        work = self._give_up_slice(route_id, "route_deleted", now_ms=now_ms)
        for _ in range(REMOVAL_SLICES_MAX):
            if not await self._slice(work):
                return

    def _give_up_slice(
        self, route_id: str, reason: str, *, now_ms: int, until_ms: int | None = None
    ) -> Callable[[Tx], int]:
        give_up = partial(
            work_rows.give_up,
            lane=route_id,
            reason=reason,
            until_ms=until_ms,
            now_ms=now_ms,
            new_id=self._new_id,
            most=DELIVERY_ROWS,
        )

        def work(tx: Tx) -> int:
            # It may have been put back since.
            is_needed = until_ms is not None or not expiry.is_there(tx, route_id)
            return give_up(tx) if is_needed else 0

        return work

    async def _give_up(self, now_ms: int, *, late: bool = False) -> int:
        """Give up on deliveries of deleted routes, and if `late` on those past their window."""
        lanes, owed = await self._database.read(
            lambda tx: (expiry.lanes(tx), pages.routes_owed(tx))
        )
        rows = 0
        for route in owed:
            lane = lanes.get(route)
            if lane is not None and not late:
                continue
            reason = "route_deleted"
            until_ms = None
            if lane is not None:
                reason = "deadline" if lane.off is None else "off"
                # A delivery was made at its deadline less the route's `deadline_s`.
                until_ms = now_ms - self._window_days * DAY_MS + lane.deadline_s * 1000
            work = self._give_up_slice(route, reason, now_ms=now_ms, until_ms=until_ms)
            rows += await self._until_none(work)
        return rows

    async def _until_none(self, work: Callable[[Tx], int]) -> int:
        """Run slice after slice, each its own transaction, until one finds nothing."""
        rows = 0
        while done := await self._slice(work):
            rows += done
        return rows

    async def _slice(self, work: Callable[[Tx], int]) -> int:
        """Run a slice, again where another process held one of its rows."""
        for _ in range(LOCKED_TRIES - 1):
            with suppress(LockedError):
                return await self._database.write(work, priority=Priority.MAINTENANCE)
        return await self._database.write(work, priority=Priority.MAINTENANCE)

    async def _tick(self) -> float:
        tick, self._ticks = self._ticks, self._ticks + 1
        for name, step in self.steps_of(tick):
            # Each by itself: one that fails for long must not keep the others waiting.
            try:
                await step()
            except UnavailableError as error:
                if name not in self._away:
                    reason = str(error)
                    log.warning(MAINTENANCE_FAILED, step=name, code=error.code, reason=reason)
                self._away.add(name)
                continue
            except MailonceError as error:
                log.warning(MAINTENANCE_FAILED, step=name, code=error.code)
            except Exception as error:  # noqa: BLE001 - the other steps must have their turn
                failed = type(error).__name__
                log.error(MAINTENANCE_FAILED, step=name, error=failed, exc_info=error)
            else:
                if name in self._away:
                    log.info(DATABASE_AVAILABLE, where="maintenance", step=name)
            self._away.discard(name)
        return TICK_S

    def steps_of(self, tick: int) -> Iterator[tuple[str, Callable[[], Awaitable[object]]]]:
        """Name what is to be done in a second, and give it to be run."""
        yield "flush", self._flush
        if tick % CLOCK_EVERY_TICKS == 0:
            yield "clock", self.mend_clock
        if tick % PRUNE_EVERY_TICKS == 0:
            yield "prune", self.prune
        elif tick % GIVE_UP_EVERY_TICKS == 0:
            yield "give_up", self._give_up_deleted
        if tick % COUNT_EVERY_TICKS == 0:
            yield "count", self._count_letters
        if tick % COUNT_SENDS_EVERY_TICKS == 0:
            yield "count_sends", self.count_sends
        for step in self._further:
            if tick % step.every_ticks == 0:
                yield step.name, partial(self._unless_leaped, step) if step.forgets else step.run

    async def _unless_leaped(self, step: MaintenanceStep) -> None:
        now_ms = (await self._database.head()).now_ms
        note = await self._database.read(clock_step.read_note)
        if note.waits_until_ms(now_ms) is None:
            await step.run()

    async def _give_up_deleted(self) -> None:
        await self._give_up((await self._database.head()).now_ms)

    async def _count_letters(self) -> None:
        open_letters = await self._database.read(dead_letters.count_open)
        self._metrics.dead_letters_open.set(open_letters)
