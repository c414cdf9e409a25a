"""Batches take their locks in one order. A twin that does not is caught, each time.

Somebody holds the middle one of three keys. Two batches with these keys, in opposite order, each
claim their first key and then wait for the middle one. Once it is let go, batches that claim in the
order in which they came wait for each other; sorted ones never do.
"""

import asyncio
from collections.abc import Iterator
from contextlib import AsyncExitStack

import asyncpg
import pytest

from mailonce.clock import Clock
from mailonce.core.ledger.entry import ArrivalOutcome, Entry
from mailonce.store.database import open_database
from mailonce.store.dialects.contract import Batch, Database
from mailonce.store.dialects.postgres import claim_keys_sql as postgres_sql
from mailonce.store.dialects.postgres import session
from tests.factories import make_body, make_entry, make_source

pytestmark = pytest.mark.parametrize("database_url", ["postgresql"], indirect=True)

DEADLOCK = "40P01"
WAITING = """
    SELECT count(*) FROM pg_stat_activity
    WHERE datname = current_database() AND wait_event_type = 'Lock'
"""


@pytest.fixture
def patience(monkeypatch: pytest.MonkeyPatch) -> None:
    """Let batches wait until the database finds out: a busy machine is slow."""
    for name in ("lock_timeout", "statement_timeout"):
        monkeypatch.setitem(session.SESSION, name, "60s")
    # A deadlock is told on, instead of being judged again in silence.
    monkeypatch.setattr(postgres_sql, "OVERTAKEN", postgres_sql.OVERTAKEN - {DEADLOCK})


@pytest.fixture
def unsorted_keys(monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    """Claim keys in the order they came."""
    unsorted = postgres_sql._RECORD.replace("ORDER BY 1 RETURNING", "RETURNING")
    assert unsorted != postgres_sql._RECORD
    monkeypatch.setattr(postgres_sql, "_RECORD", unsorted)
    postgres_sql.record.cache_clear()
    yield
    monkeypatch.undo()
    postgres_sql.record.cache_clear()


@pytest.mark.usefixtures("patience")
async def test_batches_in_opposite_order_never_wait_for_each_other(database_url: str) -> None:
    assert await _deadlocks(database_url) == 0


@pytest.mark.usefixtures("patience", "unsorted_keys")
async def test_keys_in_the_order_they_came_are_caught(database_url: str) -> None:
    assert await _deadlocks(database_url) == 1


async def _deadlocks(url: str) -> int:
    """Let two batches meet around a held key; count the deadlocks."""
    async with AsyncExitStack() as stack:
        person = await asyncpg.connect(url)
        stack.push_async_callback(person.close)
        await person.execute(f"ALTER DATABASE {url.rpartition('/')[2]} SET deadlock_timeout = 50")
        doors = [await open_database(url) for _ in range(2)]
        for door in doors:
            stack.push_async_callback(door.close)
        generation = (await doors[0].head()).generation
        one, other = _entries(), _entries()
        held = person.transaction()
        await held.start()
        await person.execute(
            f"INSERT INTO claims_{generation % 2} VALUES ($1, $1, $1)", one[1].events[0].keys.key
        )
        first = asyncio.create_task(_record(doors[0], one))
        await _until_waiting(url, 1)
        second = asyncio.create_task(_record(doors[1], other[::-1]))
        await _until_waiting(url, 2)
        await held.rollback()
        ended = await asyncio.gather(first, second, return_exceptions=True)

        # Whoever lost wrote nothing: each event is first once.
        answers = [one for some in ended if isinstance(some, list) for one in some]
        assert sum(one.new for one in answers if isinstance(one, ArrivalOutcome)) == 3
        lost = [one for one in ended if isinstance(one, BaseException)]
        return sum(isinstance(one.__cause__, asyncpg.DeadlockDetectedError) for one in lost)


def _entries() -> list[Entry]:
    """Three arrivals, in the order of their keys."""
    made = [make_entry(make_source(), make_body(n), now_ms=Clock().now_ms()) for n in (1, 2, 3)]
    return sorted(made, key=lambda entry: entry.events[0].keys.key)


async def _record(door: Database, entries: list[Entry]) -> list[object]:
    return list(await door.record(Batch(Clock().new_id(), entries)))


async def _until_waiting(url: str, many: int) -> None:
    watcher = await asyncpg.connect(url)
    try:
        async with asyncio.timeout(50):
            while await watcher.fetchval(WAITING) < many:
                await asyncio.sleep(0.02)
    finally:
        await watcher.close()
