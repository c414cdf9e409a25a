"""Days and generations on PostgreSQL: DDL that no INSERT has to wait for.

Each function takes a connection with a short lock timeout; the caller tries again.
"""

from typing import Any, NamedTuple

import asyncpg

from mailonce.store.dialects.contract import LockedError
from mailonce.store.dialects.postgres.claim_keys_sql import NOW_MS

PARTITIONED = ("arrivals", "events", "copies")
# Any number will do as long as every process of every version takes the same.
MAKING_DAYS = 7_261_916
# It waits for every transaction that still sees the day, and nobody waits for it.
DETACH_TIMEOUT_S = 30


# The partition is gone already, was marked since we looked, or two wait for each other.
_OVERTAKEN = (
    asyncpg.UndefinedTableError,
    asyncpg.ObjectNotInPrerequisiteStateError,
    asyncpg.DeadlockDetectedError,
)


class Child(NamedTuple):
    """A partition of one of our tables."""

    table: str
    name: str
    day: int


_IS_ATTACHED = """
SELECT EXISTS (
    SELECT FROM pg_inherits i
    WHERE i.inhparent = to_regclass($1) AND i.inhrelid = to_regclass($2)
      AND NOT i.inhdetachpending
)
"""

_IS_PENDING = """
SELECT i.inhdetachpending FROM pg_inherits i WHERE i.inhrelid = to_regclass($1)
"""

_CHILDREN = """
SELECT p.relname, c.relname
FROM pg_inherits i
JOIN pg_class c ON c.oid = i.inhrelid JOIN pg_class p ON p.oid = i.inhparent
WHERE p.relname = ANY($1::text[]) AND p.relnamespace = current_schema()::regnamespace ORDER BY 2
"""

# Partitions that were detached and not yet dropped, as a crash between the two leaves them.
_LOOSE = """
SELECT relname FROM pg_class
WHERE relkind = 'r' AND NOT relispartition AND relnamespace = current_schema()::regnamespace
  AND relname ~ '^(arrivals|events|copies)_[0-9]+$'
"""


# By the clock of the one statement that holds the row, not by what its caller read before.
_GENERATION = f"""
SELECT generation, rotated_ms > 0 AND {NOW_MS} - rotated_ms >= $1 FROM head FOR UPDATE
"""  # noqa: S608
_NEXT_GENERATION = f"UPDATE head SET generation = generation + 1, rotated_ms = {NOW_MS}"  # noqa: S608


async def attach(connection: Any, *, table: str, day: int) -> None:
    """Make the partition for a day, unless it is there."""
    child = f"{table}_{day}"
    if await connection.fetchval(_IS_ATTACHED, table, child):
        return
    async with connection.transaction():
        # Two processes that make the same table at once would trip over each other's name.
        await connection.execute(f"SELECT pg_advisory_xact_lock({MAKING_DAYS})")
        if await connection.fetchval(_IS_ATTACHED, table, child):
            return
        await connection.execute(f"CREATE TABLE IF NOT EXISTS {child} (LIKE {table} INCLUDING ALL)")
        await connection.execute(
            f"ALTER TABLE {table} ATTACH PARTITION {child} FOR VALUES FROM ({day}) TO ({day + 1})"
        )


async def missing(connection: Any, wanted: range) -> list[str]:
    rows = await connection.fetch(_CHILDREN, PARTITIONED)
    attached = {row[1] for row in rows}
    names = (f"{table}_{day}" for day in wanted for table in PARTITIONED)
    return [name for name in names if name not in attached]


async def older_than(connection: Any, before: int) -> list[Child]:
    rows = await connection.fetch(_CHILDREN, PARTITIONED)
    children = [Child(row[0], row[1], int(row[1].rpartition("_")[2])) for row in rows]
    return [child for child in children if child.day < before]


async def detach(connection: Any, *, child: Child) -> None:
    """Take a partition out of its table, or finish what a crash or a timeout left half done.

    Raises: LockedError where another process does the same just now; see then what is left.
    """
    pending = await connection.fetchval(_IS_PENDING, child.name)
    if pending is None:
        return
    how = "FINALIZE" if pending else "CONCURRENTLY"
    try:
        await connection.execute(
            f"ALTER TABLE {child.table} DETACH PARTITION {child.name} {how}",
            timeout=DETACH_TIMEOUT_S,
        )
    except _OVERTAKEN as error:
        raise LockedError("another process detaches this day; try again in a moment") from error


async def loose(connection: Any, before: int) -> list[str]:
    """List detached partitions of days before `before`."""
    names = [row[0] for row in await connection.fetch(_LOOSE)]
    return [name for name in names if int(name.rpartition("_")[2]) < before]


async def drop(connection: Any, *, name: str) -> None:
    """Drop what nobody can read any more."""
    await connection.execute(f"DROP TABLE IF EXISTS {name}")


async def rotate(connection: Any, window_ms: int) -> bool:
    """Empty the older generation of claims and make it the current one, if that is due.

    A batch reads both generations and then writes on the word of that read. The exclusive locks
    wait for statements under way; a batch that read before them finds another generation when it
    writes, and is judged anew.

    Of several who come at once the first rotates. The others find under the lock that it was
    done: a second rotation would empty the generation that holds every key in use.
    """
    async with connection.transaction():
        await connection.execute("LOCK TABLE claims_0, claims_1 IN ACCESS EXCLUSIVE MODE")
        generation, due = await connection.fetchrow(_GENERATION, window_ms)
        if not due:
            return False
        await connection.execute(f"TRUNCATE claims_{(generation + 1) % 2}")
        await connection.execute(_NEXT_GENERATION)
    return True
