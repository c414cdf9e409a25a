"""A clock that was set back makes nobody wait longer."""

import asyncio
from dataclasses import replace
from typing import Any, cast

import asyncpg
import pytest
from sqlalchemy import select, update

from mailonce.clock import Clock
from mailonce.core.moment import steady
from mailonce.core.work.job import LeaseRequest
from mailonce.core.work.states import AttemptKind, State
from mailonce.queue.maintain import Maintenance
from mailonce.store.dialects.contract import Database, Head
from mailonce.store.dialects.sqlite import database as sqlite
from mailonce.store.schema.tables import DELIVERIES, HEAD, LANES
from mailonce.telemetry import Metrics
from tests.factories import Ledger

AHEAD_MS = 600_000
WAITING = """
    SELECT count(*) FROM pg_stat_activity
    WHERE datname = current_database() AND wait_event_type = 'Lock'
"""
EVERYTHING = (AttemptKind.FIRST, AttemptKind.RETRY, AttemptKind.REDELIVERY)


def maintenance(database: Database) -> Maintenance:
    async def flush() -> None:
        """Nothing was counted in memory."""

    return Maintenance(
        database, Metrics(), flush, new_id=Clock().new_id, window_days=35, facts_days=400
    )


async def mend_at_once(database: Database, url: str) -> None:
    """Let several processes notice it at once: somebody holds the row at which they meet."""
    if database.name == "sqlite":
        await maintenance(database).mend_clock()
        await maintenance(database).mend_clock()
        return
    person, watcher = await asyncpg.connect(url), await asyncpg.connect(url)
    try:
        held = person.transaction()
        await held.start()
        await person.execute("SELECT FROM head FOR UPDATE")
        mending = [asyncio.create_task(maintenance(database).mend_clock()) for _ in range(4)]
        async with asyncio.timeout(50):
            while await watcher.fetchval(WAITING) < 2:
                await asyncio.sleep(0.01)
        await held.rollback()
        await asyncio.gather(*mending)
    finally:
        await person.close()
        await watcher.close()


async def test_what_was_written_by_a_clock_ahead_is_brought_back_once(
    ledger: Ledger, database_url: str
) -> None:
    database, now_ms = ledger.database, ledger.now_ms
    await ledger.add_route()
    retried, leased, later = await ledger.owe(3)
    waits: dict[bytes, dict[str, Any]] = {
        retried: {"due_ms": now_ms + AHEAD_MS},
        leased: {"state": State.LEASED, "lease_ms": now_ms + AHEAD_MS},
        later: {"due_ms": now_ms + 2 * AHEAD_MS},
    }

    def step(tx: Any) -> None:
        for key, values in waits.items():
            tx.execute(update(DELIVERIES).where(DELIVERIES.c.key == key).values(**values))
        tx.execute(update(LANES).values(owner=b"gone", until_ms=now_ms + AHEAD_MS))
        tx.execute(update(HEAD).values(clock_ms=now_ms + AHEAD_MS))

    await database.write(step)
    owner = bytes(16)
    assert await database.lanes.hold(["rte_main"], owner=owner, hold_ms=60_000) == set()

    await mend_at_once(database, database_url)

    assert await database.lanes.hold(["rte_main"], owner=owner, hold_ms=60_000) == {"rte_main"}
    jobs = await database.deliveries.lease(
        [LeaseRequest("rte_main", 10, 30_000, EVERYTHING)], owner=owner
    )
    assert [one.key for one in jobs] == [retried]
    query = select(DELIVERIES.c.key, DELIVERIES.c.due_ms, DELIVERIES.c.lease_ms)
    rows = {bytes(row[0]): row for row in await database.read(lambda tx: tx.execute(query).all())}
    assert rows[leased][2] <= now_ms + 5_000, "its lease has run out"
    assert 0 < rows[later][1] - now_ms <= AHEAD_MS + 5_000, "it was brought back once"


class ReadLongAgo:
    """A database as a process sees it that was paused after it had read the clock."""

    def __init__(self, database: Database) -> None:
        self._database = database

    def __getattr__(self, name: str) -> Any:
        return getattr(self._database, name)

    async def head(self) -> Head:
        head = await self._database.head()
        return replace(head, now_ms=head.now_ms - 60_000)


# SQLite has one process, so nobody else notes a time meanwhile.
@pytest.mark.parametrize("database_url", ["postgresql"], indirect=True)
async def test_a_process_that_was_paused_takes_its_own_pause_for_no_step(ledger: Ledger) -> None:
    database = ledger.database
    await ledger.add_route()
    (leased,) = await ledger.owe(1)
    noted_ms = ledger.now_ms
    until_ms = noted_ms + 30_000

    def note(tx: Any) -> None:
        one = update(DELIVERIES).where(DELIVERIES.c.key == leased)
        tx.execute(one.values(state=State.LEASED, lease_ms=until_ms))
        tx.execute(update(HEAD).values(clock_ms=noted_ms))

    await database.write(note)

    await maintenance(cast("Database", ReadLongAgo(database))).mend_clock()

    lease_ms = await database.read(lambda tx: tx.scalar(select(DELIVERIES.c.lease_ms)))
    assert lease_ms == until_ms, "the lease of a worker that is at it stands"
    assert await database.read(lambda tx: tx.scalar(select(HEAD.c.clock_ms))) == noted_ms


async def test_a_server_brings_it_back_by_itself(ledger: Ledger) -> None:
    ahead_ms = ledger.now_ms + AHEAD_MS
    await ledger.database.write(
        lambda tx: tx.execute(update(HEAD).values(clock_ms=ahead_ms)) and None
    )
    noted = select(HEAD.c.clock_ms)
    server = maintenance(ledger.database)

    server.start()
    try:
        async with asyncio.timeout(50):
            while await ledger.database.read(lambda tx: tx.scalar(noted)) == ahead_ms:
                await asyncio.sleep(0.05)
    finally:
        await server.stop()


async def test_the_time_of_a_file_goes_on_while_the_wall_clock_is_behind(
    database: Database, monkeypatch: pytest.MonkeyPatch
) -> None:
    if not isinstance(database, sqlite.SqliteDatabase):
        pytest.skip("PostgreSQL has a clock of its own")
    before_ms = (await database.head()).now_ms
    monkeypatch.setattr(sqlite, "NOW_MS", str(before_ms - AHEAD_MS))

    await asyncio.sleep(0.1)

    assert 0 < (await database.head()).now_ms - before_ms < AHEAD_MS


def test_time_goes_on_while_the_wall_clock_is_behind() -> None:
    ahead = steady(1_000_000, last_ms=0, elapsed_s=0)
    assert ahead == 1_000_000

    for second in range(1, 10):
        after = steady(400_000 + second * 1000, last_ms=ahead, elapsed_s=1)
        assert 990 <= after - ahead <= 1000
        ahead = after

    assert steady(2_000_000, last_ms=ahead, elapsed_s=1) == 2_000_000
