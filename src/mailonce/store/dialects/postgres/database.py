"""PostgreSQL: a batch is one read of owners and one writing statement, straight through asyncpg.

A batch is judged and then written, and nothing is locked between the two. The writing statement is
its own transaction. It carries what the decision assumed (the generation of claims, the version of
the configuration, and that none of its new keys is taken) and raises where that no longer holds;
then nothing of it stays, and the batch is judged again with what is true now. There are three ways
to begin (`Mode`): a batch whose keys nobody saw lately is guessed to be new and written unasked,
others read their keys' owners first, and one that was tried before may find its own rows.

What a crash of this process leaves, between
- the read and the write: nothing; no lock is held, and no sender was answered.
- the write and the database's answer: all of the batch, or nothing. Nobody was answered, so the
  senders come again; where it stands they are copies.
- that answer and what follows it here: all of the batch. Leases that it took end as any lost lease
  does, and other workers find what is due without being woken.

A connection that breaks is the second case with this process alive: OutcomeUnknownError, and the
same batch runs again. Its ids were minted before the first try, so it knows its own rows. In the
statement locks have one order for all: claims sorted by key, then rows that other batches may write
as well, each kind in its `lock_order`.
"""

import asyncio
import contextlib
import functools
import itertools
from collections.abc import AsyncIterator, Callable, Collection
from typing import Any, TypeVar

import asyncpg
from sqlalchemy import Connection, Dialect, Select, exc, text
from sqlalchemy.ext.asyncio import AsyncConnection, AsyncEngine

from mailonce.core.events.key import Key
from mailonce.core.ledger.claim import ClaimRow
from mailonce.core.ledger.decide import AskAlso, Decision, keys_of_entries
from mailonce.core.ledger.entry import EntryOutcome, Rows
from mailonce.store.audit import audited
from mailonce.store.dialects import lease_on_record
from mailonce.store.dialects.contract import (
    RACES_MAX,
    Batch,
    DatabaseUnavailableError,
    Head,
    LockedError,
    OutcomeUnknownError,
    OutdatedError,
    Priority,
    Reservation,
    RowError,
)
from mailonce.store.dialects.guess_new_keys import Guess
from mailonce.store.dialects.postgres import claim_keys_sql, days
from mailonce.store.dialects.postgres.claim_keys_sql import Mode
from mailonce.store.dialects.postgres.errors import (
    READ_ONLY,
    UNREACHABLE,
    state_of,
    translated,
    translated_core,
    unreachable,
)
from mailonce.store.dialects.postgres.fenced_leases import PostgresLeases
from mailonce.store.dialects.postgres.handler_threads import HandlerThreads
from mailonce.store.dialects.postgres.lanes import PostgresLanes
from mailonce.store.dialects.postgres.pool import PostgresConnections, check_replicated
from mailonce.store.dialects.postgres.rows import arrays_of
from mailonce.store.dialects.postgres.session import CORE_TIMEOUT_S, READ_SESSION, PostgresServer
from mailonce.store.dialects.postgres.signal import PostgresSignal
from mailonce.store.dialects.postgres.url import CONNECT_TIMEOUT_S
from mailonce.store.schema.row_kind import RowKind, RowKinds
from mailonce.store.schema.work_table import DELIVERY_TABLE, WorkTable

T = TypeVar("T")

# How long a batch waits for a row that another batch of this process may hold.
SHORT_LOCK_WAIT = "20ms"
# What a statement writes beyond this takes longer on a slow disk, and is given more time for it.
QUICK_BYTES = 2 << 20
SLOW_BYTES_PER_S = 2 << 20
# A transaction that had to wait for a row for too long left nothing behind.
LOCKED_TRIES = 4


class PostgresDatabase:
    """PostgreSQL 14 or later; any number of processes may share it."""

    name = "postgresql"

    def __init__(
        self, server: PostgresServer, connections: PostgresConnections, kinds: tuple[RowKind, ...]
    ) -> None:
        self._kinds = RowKinds(kinds)
        self._server = server
        self._connections = connections
        self.lanes = PostgresLanes(connections.run, server)
        self.deliveries = self.leases(DELIVERY_TABLE)
        self._guess = Guess()
        self._handlers = HandlerThreads(server)
        # The head row as last read, and when that was by the loop's clock.
        self._known: tuple[Head, float] | None = None
        self._engine = server.engine(
            READ_SESSION,
            timeout_s=CORE_TIMEOUT_S,
            pool_size=4,
            max_overflow=4,
            pool_timeout=CONNECT_TIMEOUT_S,
        )
        # Each statement sees what was committed before it, within a transaction or not; without one
        # a read takes a third of the round trips. A pooler has limits for transactions alone.
        self._reading = (
            self._engine
            if server.is_pooled
            else self._engine.execution_options(isolation_level="AUTOCOMMIT")
        )

    @classmethod
    async def open(
        cls, server: PostgresServer, kinds: tuple[RowKind, ...], *, flushers: int
    ) -> "PostgresDatabase":
        """Connect to the database.

        Raises: UnavailableError or ConfigError, in one sentence with what to do.
        """
        return cls(server, await PostgresConnections.open(server, flushers=flushers), kinds)

    def leases(self, table: WorkTable) -> PostgresLeases:
        return PostgresLeases(table, self._connections.run, self._connections.run_often)

    async def record(self, batch: Batch, *, short_lock_wait: bool = False) -> list[EntryOutcome]:
        """Judge and write; where a neighbour was quicker, judge again with what it wrote."""
        keys = keys_of_entries(batch.entries)
        mode = self._first_mode(batch, keys)
        for _ in range(RACES_MAX):
            written = await self._write_once(batch, keys, mode, short_lock_wait=short_lock_wait)
            if isinstance(written, Mode):
                mode = written
                continue
            self._guess.remember(keys)
            leased = {job.key for job in batch.leased}
            batch.owed = self._kinds.lanes_of(written.rows, but=leased)
            return written.answers
        raise DatabaseUnavailableError("the batch was overtaken too often; try again in a moment")

    async def run_statement(self, statement: str, *values: Any) -> Any:
        """Run one statement on a connection kept at hand."""
        return await self._connections.run_often(lambda c: c.fetch(statement, *values))

    async def scalar(self, query: Select[Any], **values: Any) -> Any:
        """Ask straight through the driver: it takes a twentieth of the engine's time."""
        statement, given = _compiled(query, self._engine.dialect)
        arguments = (given | values).values()
        return await self._connections.run_often(lambda c: c.fetchval(statement, *arguments))

    async def read(self, work: Callable[[Connection], T]) -> T:
        async with self._begin(self._reading) as connection:
            return await connection.run_sync(work)

    async def write(
        self, work: Callable[[Connection], T], *, priority: Priority = Priority.API
    ) -> T:
        """Run `work` in a transaction of the engine, again where a row was held too long."""
        work = audited(work)
        for _ in range(LOCKED_TRIES - 1):
            with contextlib.suppress(LockedError):
                return await self._run_once(work, priority)
        return await self._run_once(work, priority)

    async def _run_once(self, work: Callable[[Connection], T], priority: Priority) -> T:
        async with self._begin(self._engine) as connection:
            result = await connection.run_sync(work)
            if priority is Priority.API:
                # A caller who comes again may find everything done by the call before, of which
                # a standby knows nothing yet. Who writes nothing waits for nobody.
                await connection.execute(text(claim_keys_sql.SOMETHING))
            await connection.commit()
            raw = await connection.get_raw_connection()
            check_replicated(raw.driver_connection)
        return result

    async def run_handler(self, work: Callable[[Connection], T], *, limit_s: float) -> T:
        """Run `work` on a thread with a connection of its own."""
        return await self._handlers.run(work, limit_s=limit_s)

    async def head(self) -> Head:
        rows = await self._connections.run(
            lambda connection: connection.fetchrow(claim_keys_sql.HEAD)
        )
        head = Head(*rows)
        self._know(head)
        return head

    async def probe(self, process: bytes) -> None:
        """Write a row; its commit waits for the same standbys as the door's commits."""
        await self._connections.run(
            lambda connection: connection.execute(claim_keys_sql.PROBE, process)
        )

    async def rotate(self, *, window_ms: int) -> bool:
        """Empty the older generation while no batch is between its read and its write."""
        rotated: bool = await self._connections.patiently(lambda c: days.rotate(c, window_ms))
        return rotated

    async def ensure_days(self, wanted: range) -> None:
        """CREATE and ATTACH, which no INSERT waits behind."""
        for table, day in itertools.product(days.PARTITIONED, wanted):
            await self._connections.patiently(functools.partial(days.attach, table=table, day=day))

    async def missing_days(self, wanted: range) -> list[str]:
        missing: list[str] = await self._connections.run(lambda c: days.missing(c, wanted))
        return missing

    async def drop_days(self, *, before: int) -> int:
        """DETACH CONCURRENTLY and DROP, which no INSERT waits behind either."""
        old: list[days.Child] = await self._connections.run(lambda c: days.older_than(c, before))
        for child in old:
            await self._connections.patiently(
                functools.partial(days.detach, child=child), bare=True
            )
        for name in await self._connections.run(lambda c: days.loose(c, before)):
            await self._connections.patiently(functools.partial(days.drop, name=name))
        return len({child.day for child in old})

    async def open_signal(self, listener: Callable[[str], None]) -> PostgresSignal | None:
        """Open a connection of its own for wake-ups; through a pooler they would get lost."""
        if self._server.is_pooled:
            return None
        try:
            return await PostgresSignal.open(self._server, listener)
        except (*UNREACHABLE, asyncpg.PostgresError) as error:
            raise unreachable(error) from error

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
            values = {name: await connection.fetchval(f"SHOW {name}") for name in names}
            return {**values, "version": await connection.fetchval("SHOW server_version")}

        settings: dict[str, str] = await self._connections.run(work)
        return settings

    async def close(self) -> None:
        await self._handlers.close()
        await self._connections.close()
        await self._engine.dispose()

    @contextlib.asynccontextmanager
    async def _begin(self, engine: AsyncEngine) -> AsyncIterator[AsyncConnection]:
        """Lend a connection of an engine; its transaction, if any, is rolled back at the end."""
        try:
            async with engine.connect() as connection:
                try:
                    yield connection
                except (*UNREACHABLE, asyncio.CancelledError, OutcomeUnknownError):
                    # It may not answer; a rollback would wait for it once more.
                    await connection.invalidate()
                    raise
        except exc.DBAPIError as error:
            if state_of(error) == READ_ONLY:
                await self._engine.dispose()
                await self._connections.drop()
            raise translated_core(error) from error
        except exc.TimeoutError as error:
            raise DatabaseUnavailableError(
                "too many ask the database at once; try again"
            ) from error
        except UNREACHABLE as error:
            raise unreachable(error) from error

    def _first_mode(self, batch: Batch, keys: list[Key]) -> Mode:
        if batch.received_ms is not None:
            # It was tried before and may stand already: only its keys' owners can tell.
            return Mode.RERUN
        return Mode.GUESS if self._known and self._guess.allows(keys) else Mode.ASK

    async def _write_once(
        self, batch: Batch, keys: list[Key], mode: Mode, *, short_lock_wait: bool
    ) -> Decision | Mode:
        """Judge a batch and send its statement; a decision is given once it is durable.

        Where another batch was quicker nothing is written; given is the mode to try again in.
        Raises: as `record` does.
        """
        try:
            judged = self._guess_new(batch, keys) if mode is Mode.GUESS else None
            if judged is None and mode is Mode.GUESS:
                mode = Mode.ASK
            async with self._connections.keep(
                lock_timeout=SHORT_LOCK_WAIT if short_lock_wait else None
            ) as connection:
                head, decision = judged or await self._judge(connection, batch, keys)
                await self._send(connection, batch, head, decision.rows, mode)
        except asyncpg.PostgresError as error:
            if error.sqlstate == claim_keys_sql.OUTDATED:
                raise OutdatedError("the routes changed; read them again") from error
            if error.sqlstate not in claim_keys_sql.OVERTAKEN:
                raise translated(error) from error
            if mode is Mode.GUESS:
                self._guess.was_wrong()
                mode = Mode.ASK
            return Mode.RERUN if error.sqlstate == claim_keys_sql.TAKEN else mode
        except (asyncpg.exceptions.DataError, ValueError, OverflowError) as error:
            raise RowError(f"PostgreSQL cannot hold a value: {type(error).__name__}") from error
        except UNREACHABLE as error:
            raise OutcomeUnknownError("the connection to the database broke; try again") from error
        if mode is Mode.GUESS:
            self._guess.was_right()
        return decision

    async def _send(
        self, connection: Any, batch: Batch, head: Head, rows: Rows, mode: Mode
    ) -> None:
        """Send the statement that writes a batch, and note what it leased."""
        kinds, arrays = arrays_of(self._kinds, rows)
        version = None if batch.routing is None else batch.routing.version
        given = (head.generation, *batch.shared.values(), version, *arrays)
        reservation = None if mode is Mode.RERUN else lease_on_record.reserve(batch, rows)
        leases = reservation is not None
        statement = claim_keys_sql.record(head.generation % 2, kinds, mode, leases=leases)
        batch.leased = []
        content_bytes = self._kinds.content_bytes(rows)
        if content_bytes <= QUICK_BYTES:
            leased = await _execute(connection, statement, given, reservation)
        else:
            more_s = (content_bytes - QUICK_BYTES) // SLOW_BYTES_PER_S
            async with self._connections.given_time(connection, more_s) as timeout_s:
                leased = await _execute(connection, statement, given, reservation, timeout_s)
        if leased and reservation is not None:
            batch.leased = lease_on_record.jobs_of(batch, rows, leased, reservation.token)

    def _guess_new(self, batch: Batch, keys: list[Key]) -> tuple[Head, Decision] | None:
        """Judge a batch as if all its keys were new; None where it conflicts with itself."""
        assert self._known is not None, "nothing is guessed before the head was read"
        head, at = self._known
        since_ms = int((asyncio.get_running_loop().time() - at) * 1000)
        batch.received_ms = head.now_ms + since_ms
        decision = batch.decide(dict.fromkeys(keys))
        return None if isinstance(decision, AskAlso) else (head, decision)

    async def _judge(self, connection: Any, batch: Batch, keys: list[Key]) -> tuple[Head, Decision]:
        head, owners = await _owners(connection, keys)
        self._know(head)
        batch.check(head)
        if batch.received_ms is None:
            batch.received_ms = head.now_ms
        decision = batch.decide(owners)
        while isinstance(decision, AskAlso):
            owners |= (await _owners(connection, decision.keys))[1]
            decision = batch.decide(owners)
        return head, decision

    def _know(self, head: Head) -> None:
        self._known = (head, asyncio.get_running_loop().time())


@functools.lru_cache(maxsize=64)
def _compiled(query: Select[Any], dialect: Dialect) -> tuple[str, dict[str, Any]]:
    """Give a query's text, and its parameters in their order."""
    compiled = query.compile(dialect=dialect)
    return str(compiled), {name: compiled.params[name] for name in compiled.positiontup or ()}


async def _owners(connection: Any, keys: list[Key]) -> tuple[Head, dict[Key, ClaimRow | None]]:
    rows = await connection.fetch(claim_keys_sql.OWNERS, keys)
    owners: dict[Key, ClaimRow | None] = dict.fromkeys(keys)
    for row in rows:
        if row[4] is not None:
            owners[Key(row[4])] = ClaimRow(*row[4:])
    first = rows[0]
    return Head(first[0], first[1], first[2], first[3]), owners


async def _execute(
    connection: Any,
    statement: str,
    given: tuple[Any, ...],
    reservation: Reservation | None,
    timeout_s: float | None = None,
) -> Collection[bytes]:
    """Write a batch; give the keys of what it leased."""
    if reservation is None:
        await connection.execute(statement, *given, timeout=timeout_s)
        return ()
    more = (reservation.owner, *lease_on_record.columns_of(reservation))
    row = await connection.fetchrow(statement, *given, *more, timeout=timeout_s)
    return row[-1] or ()
