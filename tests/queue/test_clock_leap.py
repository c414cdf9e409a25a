"""A clock that leaps ahead deletes nothing before it has run on for a while."""

from typing import Any

import pytest
from sqlalchemy import select, update

from mailonce.clock import Clock
from mailonce.core.health.clock_leap import WAIT_MS
from mailonce.queue.maintain import Maintenance, MaintenanceStep
from mailonce.store.dialects.contract import DAY_MS
from mailonce.store.schema.tables import EVENTS, HEAD
from mailonce.telemetry import Metrics
from tests.queue.test_maintain import WINDOW_DAYS, Bench, bench

__all__ = ["bench"]

LONG_AGO_DAYS = 500


async def note(bench: Bench, **values: Any) -> None:
    """Say what the clock said when it was last looked at, and the like."""
    await bench.database.write(lambda tx: tx.execute(update(HEAD).values(**values)) and None)


async def test_what_a_leap_makes_old_is_kept_until_the_clock_has_run_on(bench: Bench) -> None:
    now_ms = bench.ledger.now_ms
    await bench.owe(days_ago=LONG_AGO_DAYS)
    await note(bench, clock_ms=now_ms - LONG_AGO_DAYS * DAY_MS, rotated_ms=1)

    first, second = await bench.maintenance.prune(), await bench.maintenance.prune()
    kept = await bench.count(EVENTS)
    await note(bench, forget_from_ms=now_ms - 1)
    third = await bench.maintenance.prune()

    assert [one.waits_until is not None for one in (first, second, third)] == [True, True, False]
    assert first.waits_until == second.waits_until
    assert [one.rotated for one in (first, second, third)] == [False, False, True]
    assert (kept, await bench.count(EVENTS)) == (1, 0)


async def test_a_server_that_was_off_for_a_day_prunes_at_once(bench: Bench) -> None:
    await bench.owe(days_ago=LONG_AGO_DAYS)
    await note(bench, clock_ms=bench.ledger.now_ms - DAY_MS)

    done = await bench.maintenance.prune()

    assert (done.waits_until, await bench.count(EVENTS)) == (None, 0)


async def test_a_leap_that_is_taken_back_waits_no_longer(bench: Bench) -> None:
    now_ms = bench.ledger.now_ms
    await bench.owe(days_ago=LONG_AGO_DAYS)
    ahead_ms = now_ms + LONG_AGO_DAYS * DAY_MS
    await note(bench, clock_ms=ahead_ms, forget_from_ms=ahead_ms + WAIT_MS)

    done = await bench.maintenance.prune()

    assert (done.waits_until, await bench.count(EVENTS)) == (None, 0)
    assert await bench.database.read(lambda tx: tx.scalar(select(HEAD.c.forget_from_ms))) == 0


@pytest.mark.parametrize("leaps", [True, False], ids=["leaps", "runs on"])
async def test_a_step_that_forgets_waits_with_it(bench: Bench, *, leaps: bool) -> None:
    ran: list[str] = []

    def step(name: str, *, forgets: bool) -> MaintenanceStep:
        async def run() -> None:
            ran.append(name)

        return MaintenanceStep(name, 1, run, forgets=forgets)

    async def flush() -> None:
        """Nothing was counted in memory."""

    maintenance = Maintenance(
        bench.database, Metrics(), flush, new_id=Clock().new_id, window_days=WINDOW_DAYS,
        facts_days=400, steps=[step("purge", forgets=True), step("expire", forgets=False)],
    )  # fmt: skip
    days = LONG_AGO_DAYS if leaps else 0
    await note(bench, clock_ms=bench.ledger.now_ms - days * DAY_MS)

    for name, run in maintenance.steps_of(1):
        if name in {"purge", "expire"}:
            await run()

    assert ran == (["expire"] if leaps else ["purge", "expire"])
