"""PostgreSQL: a batch is one read of owners and one writing statement, straight through asyncpg.

The writing statement is its own transaction. It carries what `decide` assumed (the generation,
and that none of its new keys is taken) and raises where that no longer holds, so that nothing of
it stays; the batch is then judged again with what is true now. A door that is paused or killed
between two lines of Python therefore never holds a lock.
"""

import asyncio
import contextlib
import functools
import itertools
from collections.abc import AsyncIterator, Callable, Mapping
from typing import Any, TypeVar

import asyncpg
from sqlalchemy import Connection, exc
from sqlalchemy.ext.asyncio import create_async_engine

from mailonce.core.entry import Answer, GuardBroken, Owner, Rows
from mailonce.core.key import Fingerprint, Key
from mailonce.core.ledger import AskAlso, Decision, decide, keys_of_entries
from mailonce.errors import UnavailableError
from mailonce.store.dialects import postgres_days as days
from mailonce.store.dialects import postgres_sql as sql
from mailonce.store.dialects.contract import (
    DAY_MS,
    RACES_MAX,
    Batch,
    Head,
    LockedError,
    LostError,
    OutdatedError,
    Priority,
    RowError,
)
from mailonce.store.dialects.guess import Guess
from mailonce.store.dialects.postgres_deliveries import PostgresDeliveries
from mailonce.store.dialects.postgres_handlers import HandlerThreads
from mailonce.store.dialects.postgres_signal import PostgresSignal

T = TypeVar("T")

CONNECT_TIMEOUT_S = 5
COMMAND_TIMEOUT_S = 10
LOCK_TRIES = 25
LOCK_RETRY_S = 0.2

SESSION = {
    "application_name": "mailonce",
    "lock_timeout": "500ms",
    "statement_timeout": "2s",
    "idle_in_transaction_session_timeout": "5s",
    "jit": "off",
    "plan_cache_mode": "force_generic_plan",
    # A plan made while a table was empty must not scan it when it is full.
    "enable_seqscan": "off",
    "enable_mergejoin": "off",
    "enable_hashjoin": "off",
}
READ_SESSION = {
    "application_name": "mailonce",
    "lock_timeout": "500ms",
    "statement_timeout": "5s",
    "idle_in_transaction_session_timeout": "5s",
    "jit": "off",
}

# A lock that was waited for too long, or two who wait for each other: nothing was written.
_LOCKED = frozenset({"55P03", "40P01", "40001"})
_UNREACHABLE = (OSError, asyncio.TimeoutError, asyncpg.InterfaceError)


class PostgresDatabase:
    """PostgreSQL 14 or later; any number of processes may share it."""

    name = "postgresql"
    is_beside = True

    def __init__(self, url: str, pool: "asyncpg.Pool[asyncpg.Record]", flushers: int) -> None:
        self._url = url
        self._pool = pool
        self.deliveries = PostgresDeliveries(self._run)
        self._guess = Guess()
        # Connections that stay with the flushers: a pool takes its time over lending one.
        self._kept: list[Any] = []
        self._keep_max = flushers
        self._handlers = HandlerThreads(url)
        # The head row as last read, and when that was by the loop's clock.
        self._known: tuple[Head, float] | None = None
        self._engine = create_async_engine(
            "postgresql+asyncpg://" + url.split("://", 1)[1],
            pool_size=4,
            max_overflow=4,
            pool_timeout=CONNECT_TIMEOUT_S,
            pool_pre_ping=True,
            hide_parameters=True,
            connect_args={"server_settings": READ_SESSION, "timeout": CONNECT_TIMEOUT_S},
        )

    @classmethod
    async def open(cls, url: str, *, flushers: int) -> "PostgresDatabase":
        """Connect to the database at `url`.

        Raises: UnavailableError where it cannot be reached.
        """
        try:
            pool = await asyncpg.create_pool(
                "postgresql://" + url.split("://", 1)[1],
                min_size=1,
                # A worker leases, finishes and looks around beside the flushers.
                max_size=flushers + 5,
                timeout=CONNECT_TIMEOUT_S,
                command_timeout=COMMAND_TIMEOUT_S,
                server_settings=SESSION,
                reset=_leave_as_is,
            )
        except (*_UNREACHABLE, asyncpg.PostgresError) as error:
            raise UnavailableError(
                "the PostgreSQL database cannot be reached; check `database` and that it runs"
            ) from error
        return cls(url, pool, flushers)

    async def record(self, batch: Batch, *, hasty: bool = False) -> list[Answer | GuardBroken]:
        """Judge and write; where a neighbour was quicker, judge again with what it wrote."""
        keys = keys_of_entries(batch.entries)
        # A batch that was tried before may stand already: only its keys' owners can tell.
        again = batch.received_ms is not None
        guessed = not again and self._known and self._guess.allows(keys)
        for _ in range(RACES_MAX):
            try:
                async with self._keep() as connection:
                    if hasty:
                        await connection.execute("SET lock_timeout = '20ms'")
                    try:
                        judged = self._guess_new(batch, keys) if guessed else None
                        if judged is None:
                            guessed = False
                            judged = await self._judge(connection, batch, keys)
                        head, decision = judged
                        some, rows = _rows_of(decision.rows)
                        statement = sql.record(
                            head.generation % 2, some, guessed=bool(guessed), again=again
                        )
                        await connection.execute(statement, *_given(head, batch), *rows)
                    finally:
                        if hasty:
                            await connection.execute("RESET lock_timeout")
            except asyncpg.PostgresError as error:
                if error.sqlstate == sql.OUTDATED:
                    raise OutdatedError("the routes changed; read them again") from error
                if error.sqlstate in sql.OVERTAKEN:
                    again = again or error.sqlstate == sql.TAKEN
                    if guessed:
                        self._guess.was_wrong()
                        guessed = False
                    continue
                raise _translated(error) from error
            except (asyncpg.exceptions.DataError, ValueError, OverflowError) as error:
                raise RowError(f"PostgreSQL cannot hold a value: {type(error).__name__}") from error
            except _UNREACHABLE as error:
                raise LostError("the connection to the database broke; try again") from error
            if guessed:
                self._guess.was_right()
            self._guess.remember(keys)
            batch.owed = decision.rows.owed_routes
            return decision.answers
        raise UnavailableError("the batch was overtaken too often; try again in a moment")

    async def read(self, work: Callable[[Connection], T]) -> T:
        """Run `work` on a connection of the engine."""
        try:
            async with self._engine.connect() as connection:
                return await connection.run_sync(work)
        except exc.DBAPIError as error:
            raise _translated_core(error) from error
        except _UNREACHABLE as error:
            raise UnavailableError("the database cannot be reached; try again") from error

    async def write(
        self, work: Callable[[Connection], T], *, priority: Priority = Priority.API
    ) -> T:
        """Run `work` in a transaction of the engine."""
        del priority
        try:
            async with self._engine.begin() as connection:
                return await connection.run_sync(work)
        except exc.DBAPIError as error:
            raise _translated_core(error) from error
        except _UNREACHABLE as error:
            raise UnavailableError("the database cannot be reached; try again") from error

    async def run_handler(self, work: Callable[[Connection], T], *, limit_s: float) -> T:
        """Run `work` on a thread with a connection of its own."""
        return await self._handlers.run(work, limit_s=limit_s)

    async def head(self) -> Head:
        """Read the head row and the database's clock."""
        rows = await self._run(lambda connection: connection.fetchrow(sql.HEAD))
        head = Head(*rows)
        self._know(head)
        return head

    async def rotate(self, *, window_ms: int) -> bool:
        """Empty the older generation while no batch is between its read and its write."""
        rotated: bool = await self._patiently(lambda c: days.rotate(c, window_ms))
        return rotated

    async def ensure_days(self, wanted: range) -> None:
        """CREATE and ATTACH, which no INSERT waits behind."""
        for table, day in itertools.product(days.PARTITIONED, wanted):
            await self._patiently(functools.partial(days.attach, table=table, day=day))

    async def missing_days(self, wanted: range) -> list[str]:
        """Ask the catalogue which partitions are attached."""
        missing: list[str] = await self._run(lambda c: days.missing(c, wanted))
        return missing

    async def drop_days(self, *, before: int) -> int:
        """DETACH CONCURRENTLY and DROP, which no INSERT waits behind either."""
        old: list[days.Child] = await self._run(lambda c: days.older_than(c, before))
        for child in old:
            await self._patiently(functools.partial(days.detach, child=child))
        for name in await self._run(lambda c: days.loose(c, before)):
            await self._patiently(functools.partial(days.drop, name=name))
        return len({child.day for child in old})

    async def open_signal(self, heard: Callable[[str], None]) -> PostgresSignal:
        """Open a connection of its own for wake-ups."""
        try:
            return await PostgresSignal.open(self._url, heard, timeout_s=CONNECT_TIMEOUT_S)
        except (*_UNREACHABLE, asyncpg.PostgresError) as error:
            raise UnavailableError("the database cannot be reached; try again") from error

    async def durability(self) -> dict[str, str]:
        """Read the settings in force on a recording connection."""

        async def work(connection: Any) -> dict[str, str]:
            names = (
                "fsync",
                "synchronous_commit",
                "full_page_writes",
                "lock_timeout",
                "log_error_verbosity",
            )
            found = {name: await connection.fetchval(f"SHOW {name}") for name in names}
            return {**found, "version": await connection.fetchval("SHOW server_version")}

        settings: dict[str, str] = await self._run(work)
        return settings

    async def close(self) -> None:
        """Close every connection, politely at first."""
        await self._handlers.close()
        while self._kept:
            await self._pool.release(self._kept.pop())
        try:
            await asyncio.wait_for(self._pool.close(), 5)
        except TimeoutError:
            self._pool.terminate()
        await self._engine.dispose()

    @contextlib.asynccontextmanager
    async def _keep(self) -> AsyncIterator[Any]:
        """Lend a connection, and keep it at hand unless something went wrong."""
        connection = None
        while connection is None and self._kept:
            connection = self._kept.pop()
            if connection.is_closed():
                await self._pool.release(connection)
                connection = None
        if connection is None:
            connection = await self._pool.acquire(timeout=CONNECT_TIMEOUT_S)
        keeps = False
        try:
            yield connection
            keeps = len(self._kept) < self._keep_max
        finally:
            if keeps:
                self._kept.append(connection)
            else:
                await self._pool.release(connection)

    def _guess_new(self, batch: Batch, keys: list[Key]) -> tuple[Head, Decision] | None:
        """Judge a batch as if all its keys were new; None where it quarrels with itself."""
        assert self._known is not None, "nothing is guessed before the head was read"
        head, at = self._known
        received_ms = head.now_ms + int((asyncio.get_running_loop().time() - at) * 1000)
        owners: dict[Key, Owner | None] = dict.fromkeys(keys)
        decision = decide(batch.entries, owners, received_ms=received_ms, routes=batch.routes)
        if isinstance(decision, AskAlso):
            return None
        batch.received_ms = received_ms
        return head, decision

    async def _judge(self, connection: Any, batch: Batch, keys: list[Key]) -> tuple[Head, Decision]:
        head, owners = await _owners(connection, keys)
        self._know(head)
        batch.check(head)
        if batch.received_ms is None:
            batch.received_ms = head.now_ms
        decision = _decide(batch, owners)
        while isinstance(decision, AskAlso):
            owners |= (await _owners(connection, decision.keys))[1]
            decision = _decide(batch, owners)
        return head, decision

    def _know(self, head: Head) -> None:
        self._known = (head, asyncio.get_running_loop().time())

    async def _run(self, work: Callable[[Any], Any]) -> Any:
        try:
            async with self._pool.acquire(timeout=CONNECT_TIMEOUT_S) as connection:
                return await work(connection)
        except asyncpg.PostgresError as error:
            raise _translated(error) from error
        except _UNREACHABLE as error:
            raise UnavailableError("the database cannot be reached; try again") from error

    async def _patiently(self, work: Callable[[Any], Any]) -> Any:
        """Try DDL with a short lock timeout again and again: no INSERT may queue behind it."""

        async def attempt(connection: Any) -> Any:
            await connection.execute("SET lock_timeout = '200ms'")
            await connection.execute("SET statement_timeout = '30s'")
            try:
                return await work(connection)
            finally:
                await connection.execute("RESET lock_timeout")
                await connection.execute("RESET statement_timeout")

        for left in range(LOCK_TRIES - 1, -1, -1):
            try:
                return await self._run(attempt)
            except LockedError:
                if not left:
                    raise
                await asyncio.sleep(LOCK_RETRY_S)
        raise AssertionError("the loop above returns or raises")


def _decide(batch: Batch, owners: Mapping[Key, Owner | None]) -> Decision | AskAlso:
    assert batch.received_ms is not None, "the batch is stamped before it is judged"
    return decide(batch.entries, owners, received_ms=batch.received_ms, routes=batch.routes)


def _given(head: Head, batch: Batch) -> tuple[Any, ...]:
    """Give what the writing statement must know of a batch beside its rows."""
    received_ms = batch.received_ms
    assert received_ms is not None, "the batch is stamped before it is written"
    version = None if batch.routing is None else batch.routing.version
    return head.generation, received_ms // DAY_MS, received_ms, batch.id, version


def _rows_of(rows: Rows) -> tuple[tuple[str, ...], list[Any]]:
    """Name the rows that only some batches have, and give all rows as the statement wants them."""
    some: dict[str, list[Any]] = {}
    for names in sql.SOMETIMES:
        found = {name: getattr(rows, name) for name in names}
        if any(found.values()):
            some |= found
    count = len(rows.events) + len(rows.claims)
    always = [count, rows.claims, rows.arrivals, rows.events, rows.counts]
    return tuple(some), [*always, *some.values()]


async def _leave_as_is(connection: Any) -> None:
    """Save the round trip of a reset: whoever changes a session here also changes it back."""
    del connection


async def _owners(connection: Any, keys: list[Key]) -> tuple[Head, dict[Key, Owner | None]]:
    rows = await connection.fetch(sql.OWNERS, keys)
    owners: dict[Key, Owner | None] = dict.fromkeys(keys)
    for row in rows:
        if row[4] is not None:
            owners[Key(row[4])] = Owner(Fingerprint(row[5]), row[6])
    first = rows[0]
    return Head(first[0], first[1], first[2], first[3]), owners


def _translated(error: asyncpg.PostgresError) -> Exception:
    state = error.sqlstate or ""
    if state in _LOCKED:
        return LockedError("a row is held by another process; try again in a moment")
    if state.startswith("22"):
        return RowError(f"PostgreSQL cannot hold a value (SQLSTATE {state})")
    if state.startswith(("08", "57P")):
        return LostError(f"the connection to the database broke (SQLSTATE {state}); try again")
    # Messages and details may quote values, so only the code is told on.
    return UnavailableError(f"the database refused (SQLSTATE {state}); see its log, then try again")


def _translated_core(error: exc.DBAPIError) -> Exception:
    state = getattr(error.orig, "sqlstate", None) or ""
    if state in _LOCKED:
        return LockedError("a row is held by another process; try again in a moment")
    return UnavailableError(f"the database refused (SQLSTATE {state}); see its log, then try again")
