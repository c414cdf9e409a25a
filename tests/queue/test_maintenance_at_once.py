"""Maintenance from many processes at once does what it does from one, and nothing twice."""

import asyncio
from collections import Counter
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import AsyncExitStack
from typing import Any

import pytest
import pytest_asyncio
from sqlalchemy import Table, func, insert, select, update

from mailonce.clock import Clock
from mailonce.core.deliveries.rerun import RerunFilter, RerunKind
from mailonce.core.ledger.entry import ArrivalOutcome
from mailonce.core.work.states import State
from mailonce.queue.configuration import ConfigurationCache
from mailonce.queue.maintain import Maintenance, PruneResult
from mailonce.queue.rerun import Reruns
from mailonce.store.configuration import routes
from mailonce.store.database import open_database
from mailonce.store.dialects.contract import DAY_MS, Database
from mailonce.store.schema.tables import (
    ATTEMPTS,
    CONFLICTS,
    COUNTS,
    DEAD_LETTERS,
    DELIVERIES,
    EVENTS,
    FACTS,
    HEAD,
    RERUNS,
)
from mailonce.store.work import rows as work_rows
from mailonce.telemetry import Metrics
from mailonce.views.reread import arrivals_reader
from tests.factories import SEALER, Ledger, make_body, make_source, new_id

PROCESSES = 5
WINDOW_DAYS = 10
WINDOW_MS = WINDOW_DAYS * DAY_MS
OLD_DAYS = range(WINDOW_DAYS + 1, WINDOW_DAYS + 4)
BODIES = [make_body(f"known-{number}", message_id=f"m-{number}") for number in range(20)]
# Ids, keys and the moment of a step differ from run to run; all else must not.
VOLATILE = {"id", "key", "event", "arrival", "delivery", "first", "last", "filter"}


class Process:
    """What one process runs by itself, over a database that it opened itself where it can."""

    def __init__(self, database: Database) -> None:
        self.database = database
        clock = Clock()
        self.maintenance = Maintenance(
            database,
            Metrics(),
            self._flush,
            new_id=clock.new_id,
            window_days=WINDOW_DAYS,
            facts_days=400,
        )
        configuration = ConfigurationCache(database, clock, SEALER, Metrics())
        self.reload = configuration.reload
        self.reruns = Reruns(
            database, clock, configuration, arrivals_reader(database), window_days=WINDOW_DAYS
        )
        self.new_id = clock.new_id

    async def _flush(self) -> None:
        """Nothing was counted in memory."""

    async def prune(self) -> PruneResult:
        return await self.maintenance.prune()

    async def rerun(self) -> None:
        while await self.reruns.step():
            pass

    async def rescue(self) -> None:
        """Free leases that ran out, as every worker does."""
        now_ms = (await self.database.head()).now_ms
        await self.database.write(
            lambda tx: work_rows.rescue(
                tx, now_ms=now_ms, new_id=self.new_id, lost_max=3, most=100, alive=()
            )
        )


OpenMany = Callable[[int], Awaitable[list[Process]]]


@pytest_asyncio.fixture
async def open_many(database_url: str, database: Database) -> AsyncIterator[OpenMany]:
    """Open the database once more for each process; SQLite has one, which all share."""
    async with AsyncExitStack() as stack:

        async def open_(number: int) -> list[Process]:
            opened = [database] * number
            if database.name == "postgresql":
                opened = await asyncio.gather(*(open_database(database_url) for _ in opened))
                for one in opened:
                    stack.push_async_callback(one.close)
            processes = [Process(one) for one in opened]
            await asyncio.gather(*(one.reload() for one in processes))
            return processes

        yield open_


async def fill(ledger: Ledger) -> None:
    """Leave something to do for every step of maintenance."""
    database, now_ms = ledger.database, ledger.now_ms
    source = make_source()
    await ledger.tell(source, BODIES)
    for days_ago in (*OLD_DAYS, 1):
        for part in range(3):
            bodies = [make_body(f"{days_ago}-{part}-{n}", recipient=f"{n}@x.net") for n in range(9)]
            await ledger.tell(source, bodies, days_ago=days_ago)
    await ledger.tell(source, [make_body("known-1", recipient="eve@example.com")], days_ago=12)
    await ledger.add_route(id="rte_stays")
    await ledger.add_route(id="rte_goes")
    await ledger.owe(40)
    old = {"made_ms": now_ms - 3 * WINDOW_MS, "done_ms": now_ms - 3 * WINDOW_MS}
    await _change(database, "rte_stays", range(10), state=State.DONE, **old)
    await _change(database, "rte_stays", range(10, 20), state=State.LEASED, lease_ms=now_ms - 1)
    await _change(database, "rte_stays", range(20, 30), state=State.DONE, done_ms=now_ms)
    await database.write(lambda tx: routes.remove(tx, "default", "rte_goes"))
    facts = update(FACTS).where(FACTS.c.recipient != "ada@example.com")
    letters = [_letter(now_ms, resolved_ms=resolved) for resolved in (None, now_ms - 2 * WINDOW_MS)]

    def work(tx: Any) -> None:
        tx.execute(facts.values(changed_ms=now_ms - 500 * DAY_MS))
        tx.execute(insert(DEAD_LETTERS), letters)
        tx.execute(update(HEAD).values(rotated_ms=now_ms - WINDOW_MS))

    await database.write(work)
    process = Process(database)
    await process.reload()
    await process.reruns.make("default", RerunKind.REDELIVERY, RerunFilter())


async def _change(database: Database, route: str, places: range, **values: Any) -> None:
    of_route = select(DELIVERIES.c.key).where(DELIVERIES.c.route == route)

    def work(tx: Any) -> None:
        keys = tx.scalars(of_route.order_by(DELIVERIES.c.key)).all()
        chosen = [keys[place] for place in places]
        tx.execute(update(DELIVERIES).where(DELIVERIES.c.key.in_(chosen)).values(**values))

    await database.write(work)


def _letter(now_ms: int, *, resolved_ms: int | None) -> dict[str, Any]:
    return {
        "id": new_id(now_ms), "workspace": "default", "source": "src_main", "kind": "arrival",
        "arrival": b"", "arrival_key": "", "position": 0, "reason": "x", "attempts": 1,
        "failed_ms": 0, "raw": b"{}", "resolved_ms": resolved_ms,
    }  # fmt: skip


async def effects(database: Database) -> dict[str, Any]:
    """Tell what stands, without what differs from run to run anyway."""

    def rows(tx: Any, table: Table) -> Counter[tuple[Any, ...]]:
        kept = [c for c in table.c if c.name not in VOLATILE and not c.name.endswith("_ms")]
        return Counter(tuple(row) for row in tx.execute(select(*kept)))

    def work(tx: Any) -> dict[str, Any]:
        counts: dict[str, Any] = {
            table.name: rows(tx, table) for table in (CONFLICTS, FACTS, RERUNS, ATTEMPTS, HEAD)
        }
        columns = (DELIVERIES.c.route, DELIVERIES.c.state, DELIVERIES.c.redeliveries)
        counts["deliveries"] = Counter(tuple(row) for row in tx.execute(select(*columns)))
        columns = (DEAD_LETTERS.c.route, DEAD_LETTERS.c.reason, DEAD_LETTERS.c.kind)
        counts["letters"] = Counter(tuple(row) for row in tx.execute(select(*columns)))
        counts["events"] = tx.scalar(select(func.count()).select_from(EVENTS))
        place = (COUNTS.c.day, COUNTS.c.source, COUNTS.c.type)
        sums = select(*place, func.sum(COUNTS.c.count)).group_by(*place)
        counts["counts"] = {tuple(row[:3]): int(row[3]) for row in tx.execute(sums)}
        return counts

    return await database.read(work)


async def accepted_again(ledger: Ledger) -> int:
    answers = await ledger.tell(make_source(), BODIES)
    return sum(answer.new for answer in answers if isinstance(answer, ArrivalOutcome))


async def upkeep(process: Process) -> bool:
    """Run every step that a process runs by itself."""
    await process.rescue()
    rotated = (await process.prune()).rotated
    await process.rerun()
    return rotated


async def test_many_do_what_one_does(
    ledger: Ledger, open_many: OpenMany, tmp_path_factory: pytest.TempPathFactory
) -> None:
    alone = await open_database(f"sqlite:///{tmp_path_factory.mktemp('alone')}/alone.db")
    try:
        one = Ledger(alone, ledger.now_ms)
        await fill(one)
        await fill(ledger)
        many = await open_many(PROCESSES)
        process = Process(alone)
        await process.reload()

        await upkeep(process)
        rotated = await asyncio.gather(*(upkeep(one) for one in many))

        assert rotated.count(True) == 1
        # What many ran at once stands as if one had; a second round finds nothing left to do.
        await asyncio.gather(*(upkeep(one) for one in many))
        await upkeep(process)
        assert await effects(ledger.database) == await effects(alone)
        assert await accepted_again(ledger) == 0
    finally:
        await alone.close()


async def test_rotation_runs_once_however_many_find_it_due(
    ledger: Ledger, open_many: OpenMany
) -> None:
    source = make_source()
    await ledger.tell(source, BODIES)
    many = await open_many(PROCESSES)

    for late_ms, expected in ((-60_000, 0), (0, 1)):
        await _rotated(ledger.database, ledger.now_ms - WINDOW_MS - late_ms)
        generation = (await ledger.database.head()).generation

        rounds = await asyncio.gather(*(one.prune() for one in many * 2))

        assert sum(one.rotated for one in rounds) == expected
        assert (await ledger.database.head()).generation == generation + expected
        assert await accepted_again(ledger) == 0


async def _rotated(database: Database, at_ms: int) -> None:
    """Say when the keys were rotated last."""
    await database.write(lambda tx: tx.execute(update(HEAD).values(rotated_ms=at_ms)) and None)
