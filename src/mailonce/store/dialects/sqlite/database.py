"""SQLite: one writer thread that owns the only writing connection, and read-only readers.

Until SQLite 3.51.3 two connections that write or checkpoint at once can corrupt the file, so
there is one, and a lock file keeps a second process out.

A batch is one transaction on that thread: BEGIN IMMEDIATE, read the head and the owners of its
keys, decide, insert the claims and then each kind of row in turn, COMMIT. Nobody else can write
meanwhile, so a decision is never overtaken and no order of locks matters. The order of kinds does
where a statement reads what another one writes (see `store/schema/ledger_rows.py`). A batch whose
keys nobody saw lately is guessed to be new: where a claim then finds its key taken, all of it is
rolled back, and the batch is judged by the owners (`guess_new_keys.py`).

What a crash leaves: before the COMMIT has synced the log, nothing, and no sender was answered;
after it, all of the batch. The file is locked by the process and free as soon as it is gone; the
next one finds a log that ends with the last commit. Where the COMMIT itself fails, the transaction
is rolled back and all of the batch's senders are asked to try again.
"""

import os
import sqlite3
import time
from collections.abc import Callable, Sequence
from contextlib import suppress
from pathlib import Path
from typing import Any, TypeVar

from msgspec import Struct
from msgspec.structs import astuple
from sqlalchemy import Connection, Select, create_engine, event, exc
from sqlalchemy.pool import StaticPool

from mailonce.core.events.key import Key
from mailonce.core.ids import first_id
from mailonce.core.ledger.claim import ClaimRow
from mailonce.core.ledger.decide import AskAlso, Decision, keys_of_entries
from mailonce.core.ledger.entry import EntryOutcome, Rows
from mailonce.core.moment import steady
from mailonce.store.audit import audited
from mailonce.store.dialects.contract import DAY_MS, Batch, Head, Priority, RowError, SlowError
from mailonce.store.dialects.guess_new_keys import Guess
from mailonce.store.dialects.handler_guard import run_guarded
from mailonce.store.dialects.sqlite import claim_keys_sql
from mailonce.store.dialects.sqlite.fenced_leases import SqliteLanes, SqliteLeases, WorkerTurns
from mailonce.store.dialects.sqlite.file import (
    SqliteLog,
    connect,
    copy,
    make_private,
    take_lock,
    unopenable,
)
from mailonce.store.dialects.writer_thread import Writer, error_name, unavailable
from mailonce.store.schema.row_kind import RowKind, RowKinds
from mailonce.store.schema.work_table import DELIVERY_TABLE, WorkTable

T = TypeVar("T")

DELETE_ROWS_MAX = 2_000
# While a handler runs, nobody else writes.
HANDLER_LIMIT_S = 0.25
PROGRESS_STEPS = 1_000

# The clock must not run backwards: what was stored is the floor.
NOW_MS = "CAST((julianday('now') - 2440587.5) * 86400000 AS INTEGER)"
# More than most arrivals write: a few bytes still fit where no arrival does.
PROBE_BYTES = 64 << 10
# Many, so that pages which most of them change are copied once.
JOBS_PER_CHECKPOINT = 160
PROBE = f"INSERT OR REPLACE INTO probes VALUES (:process, {NOW_MS}, zeroblob({PROBE_BYTES}))"  # noqa: S608


class SqliteDatabase:
    """The default database: a file in the data directory."""

    name = "sqlite"
    # A statement costs no round trip here.
    run_statement = None

    def __init__(self, path: Path, kinds: tuple[RowKind, ...], *, durable: bool = True) -> None:
        self._kinds = RowKinds(kinds)
        self._lock = take_lock(path)
        try:
            make_private(path)
            self._connection = connect(path)
        except (sqlite3.Error, OSError) as error:
            os.close(self._lock)
            raise unopenable(path, error) from error
        if not durable:
            self._connection.execute("PRAGMA synchronous = OFF")
        self._jobs = 0
        self._writer = Writer(self._checkpoint_after_many)
        self._guess = Guess()
        # What our clock said last, and when that was by the one that nobody sets.
        self._clock = (0, time.monotonic())
        self._turns = WorkerTurns(
            self._connection, self._writer, now_ms=lambda: self._head().now_ms
        )
        self.lanes = SqliteLanes(self._turns)
        self.deliveries = self.leases(DELIVERY_TABLE)
        self._write_engine = create_engine(
            "sqlite://",
            creator=lambda: self._connection,
            poolclass=StaticPool,
            hide_parameters=True,
        )
        event.listen(
            self._write_engine, "begin", lambda c: c.exec_driver_sql("BEGIN IMMEDIATE") and None
        )
        self._log = SqliteLog(path)

    def leases(self, table: WorkTable) -> SqliteLeases:
        return SqliteLeases(table, self._turns)

    async def record(self, batch: Batch, *, short_lock_wait: bool = False) -> list[EntryOutcome]:
        """Judge and write a batch on the writer thread, in one transaction."""
        del short_lock_wait  # There is one writer: nobody else can hold a row.
        return await self._writer.run(Priority.DOOR, lambda: self._record(batch))

    async def read(self, work: Callable[[Connection], T]) -> T:
        return await self._log.read(work)

    async def write(
        self, work: Callable[[Connection], T], *, priority: Priority = Priority.API
    ) -> T:
        work = audited(work)
        return await self._writer.run(priority, lambda: self._write(work))

    async def run_handler(self, work: Callable[[Connection], T], *, limit_s: float) -> T:
        """Run `work` on the writer thread, so that it must be short: 250 ms at most."""
        limit_s = min(limit_s, HANDLER_LIMIT_S)
        return await self._writer.run(Priority.WORKER, lambda: self._run_handler(work, limit_s))

    async def scalar(self, query: Select[Any], **values: Any) -> Any:
        return await self.read(lambda tx: tx.scalar(query, values))

    async def head(self) -> Head:
        """Read the head row through the writer, so that a wedged writer is noticed."""
        return await self._writer.run(Priority.DOOR, self._head)

    async def probe(self, process: bytes) -> None:
        """Write a row through the writer, so that a wedged writer or a full disk is noticed."""
        values = {"process": process}
        await self.write(
            lambda tx: tx.exec_driver_sql(PROBE, values) and None, priority=Priority.DOOR
        )

    async def rotate(self, *, window_ms: int) -> bool:
        """Empty the older generation of claims and make it the current one, if that is due."""

        def work(tx: Connection) -> bool:
            head = self._head()
            # Another call may have rotated since ours found it due.
            if not head.is_rotation_due(window_ms):
                return False
            generation = head.generation + 1
            tx.exec_driver_sql(f"DELETE FROM claims_{generation % 2}")  # noqa: S608
            tx.exec_driver_sql(
                "UPDATE head SET generation = ?, rotated_ms = ?", (generation, head.now_ms)
            )
            return True

        return await self.write(work, priority=Priority.MAINTENANCE)

    async def ensure_days(self, wanted: range) -> None:
        """SQLite keeps all days in one table."""

    async def missing_days(self, wanted: range) -> list[str]:
        """SQLite keeps all days in one table."""
        del wanted
        return []

    async def drop_days(self, *, before: int) -> int:
        """Delete in small slices, so that the door is never kept waiting."""
        days: set[int] = set()
        for table in ("copies", "events", "arrivals"):
            while deleted := await self.write(
                _slice_of(table, before), priority=Priority.MAINTENANCE
            ):
                days |= deleted
        return len(days)

    async def open_signal(self, listener: Callable[[str], None]) -> None:
        """There is no other process to notify."""
        del listener

    async def copy_to(self, path: Path) -> None:
        """Copy the database as it stands, with what lies in its write-ahead log."""
        await self._writer.run(Priority.API, lambda: copy(self._connection, path))

    async def durability(self) -> dict[str, str]:
        """Read the pragmas in force on the writing connection."""

        def work() -> dict[str, str]:
            names = ("journal_mode", "synchronous", "fullfsync", "busy_timeout")
            values = {
                name: str(self._connection.execute(f"PRAGMA {name}").fetchone()[0])
                for name in names
            }
            return {**values, "version": sqlite3.sqlite_version}

        return await self._writer.run(Priority.API, work)

    async def close(self) -> None:
        """Finish what the writer was given, then let go of the file."""
        await self._writer.close()
        await self._log.close()
        self._write_engine.dispose()
        self._connection.close()
        os.close(self._lock)

    def _checkpoint_after_many(self) -> None:
        """Copy what was committed from the log into the file, from time to time.

        Here nobody waits for it: SQLite itself would do it in a COMMIT, before that is answered.
        Where it fails, a later one does it.
        """
        self._jobs += 1
        if self._jobs % JOBS_PER_CHECKPOINT == 0:
            with suppress(sqlite3.Error):
                self._connection.execute("PRAGMA wal_checkpoint(PASSIVE)")

    def _record(self, batch: Batch) -> list[EntryOutcome]:
        keys = keys_of_entries(batch.entries)
        # A batch that was tried before may stand already: only its keys' owners can tell.
        guesses = batch.received_ms is None and self._guess.allows(keys)
        try:
            try:
                decision = self._write_batch(batch, keys, guesses=guesses)
            except sqlite3.IntegrityError:
                if not guesses:
                    raise
                self._guess.was_wrong()
                decision = self._write_batch(batch, keys, guesses=False)
            else:
                if guesses:
                    self._guess.was_right()
        except (OverflowError, UnicodeError, sqlite3.DataError, sqlite3.InterfaceError) as error:
            raise RowError(f"SQLite cannot hold a value: {type(error).__name__}") from error
        except sqlite3.Error as error:
            raise unavailable(error) from error
        self._guess.remember(keys)
        batch.owed = self._kinds.lanes_of(decision.rows)
        return decision.answers

    def _write_batch(self, batch: Batch, keys: list[Key], *, guesses: bool) -> Decision:
        """Judge and write a batch in one transaction.

        Raises: IntegrityError where it `guesses` and a key is taken; nothing was written then.
        """
        run = self._connection.execute
        run("BEGIN IMMEDIATE")
        try:
            head = self._head()
            if batch.received_ms is None:
                batch.received_ms = head.now_ms
            batch.check(head)
            parity = head.generation % 2
            decision = self._guess_new(batch, keys, parity) if guesses else None
            if decision is None:
                decision = self._judge(batch, keys)
            self._insert(decision.rows, parity, batch)
            run("COMMIT")
        except BaseException:
            if self._connection.in_transaction:
                run("ROLLBACK")
            raise
        return decision

    def _guess_new(self, batch: Batch, keys: list[Key], parity: int) -> Decision | None:
        """Judge a batch as if the present generation had none of its keys; None: better ask.

        To claim a key finds the place at which to look for it: so a look before it is saved.
        """
        owners = self._owners(keys, (1 - parity,))
        if any(owners.values()):
            return None
        decision = batch.decide(owners)
        return None if isinstance(decision, AskAlso) else decision

    def _judge(self, batch: Batch, keys: list[Key]) -> Decision:
        owners = self._owners(keys)
        decision = batch.decide(owners)
        while isinstance(decision, AskAlso):
            owners |= self._owners(decision.keys)
            decision = batch.decide(owners)
        return decision

    def _owners(
        self, keys: list[Key], parities: tuple[int, ...] = (0, 1)
    ) -> dict[Key, ClaimRow | None]:
        owners: dict[Key, ClaimRow | None] = dict.fromkeys(keys)
        for some in (keys[start : start + 500] for start in range(0, len(keys), 500)):
            marks = ",".join("?" * len(some))
            for parity in parities:
                rows = self._connection.execute(
                    f"SELECT key, fingerprint, owner FROM claims_{parity} "  # noqa: S608
                    f"WHERE key IN ({marks})",
                    some,
                )
                for row in rows:
                    owners[Key(row[0])] = ClaimRow(*row)
        return owners

    def _insert(self, rows: Rows, parity: int, batch: Batch) -> None:
        self._kinds.check(rows)
        for claims in claim_keys_sql.parts(rows.of(ClaimRow)):
            self._run(claim_keys_sql.claim(parity, len(claims)), claims)
        shared = batch.shared
        for kind in self._kinds.by_class.values():
            own: Sequence[Any] = rows.of(kind.row)
            if kind.is_shared:
                # A fold is the statement's own; a row that is shared would be written many times.
                own = kind.folded(own)
            if claim_keys_sql.is_for_many(kind):
                parts = claim_keys_sql.parts(own)
            else:
                parts = ([row] for row in own)
            for some in parts:
                statement, names = claim_keys_sql.write(kind, len(some))
                self._run(statement, some, [shared[name] for name in names])

    def _run(self, statement: str, rows: Sequence[Struct], before: Sequence[Any] = ()) -> None:
        """Run a statement that writes these rows."""
        values = [*before]
        for row in rows:
            values += astuple(row)
        # Not `execute`, which asks for the interpreter's lock once more.
        self._connection.executemany(statement, [values])

    def _head(self) -> Head:
        row = self._connection.execute(
            f"SELECT generation, rotated_ms, configuration, {NOW_MS} FROM head"  # noqa: S608
        ).fetchone()
        read_s = time.monotonic()
        last_ms, last_s = self._clock
        now_ms = steady(row[3], last_ms=last_ms, elapsed_s=read_s - last_s)
        self._clock = (now_ms, read_s)
        return Head(row[0], row[1], row[2], now_ms)

    def _run_handler(self, work: Callable[[Connection], T], limit_s: float) -> T:
        ends = time.monotonic() + limit_s
        slow = SlowError(f"it took longer than {limit_s:g} s; SQLite has one writer")
        self._connection.set_progress_handler(lambda: time.monotonic() > ends, PROGRESS_STEPS)
        try:
            with self._write_engine.begin() as tx:
                with self._connection.guarded() as guard:
                    result = run_guarded(guard, work, tx)
                if time.monotonic() > ends:
                    raise slow
                # The commit is ours, and is not cut short.
                self._connection.set_progress_handler(None, 0)
                return result
        except exc.OperationalError as error:
            if error_name(error.orig) != "SQLITE_INTERRUPT":
                raise
            # With the handler's own lines, which are what its author looks for.
            raise slow.with_traceback(error.__traceback__) from error
        finally:
            self._connection.set_progress_handler(None, 0)

    def _write(self, work: Callable[[Connection], T]) -> T:
        try:
            with self._write_engine.begin() as tx:
                return work(tx)
        except exc.DBAPIError as error:
            raise unavailable(error.orig) from error


def _slice_of(table: str, before: int) -> Callable[[Connection], set[int]]:
    """Delete some rows; the days that they were of are none where none was left."""
    # There is no index by day, and none is needed: ids are in the order of time.
    id_ = "arrival" if table == "copies" else "id"
    statement = (
        f"DELETE FROM {table} WHERE rowid IN (SELECT rowid FROM {table} "  # noqa: S608
        f"WHERE {id_} < ? AND day < ? ORDER BY {id_} LIMIT {DELETE_ROWS_MAX}) RETURNING day"
    )
    # Every id received before that day is below this one; see `store/days.py`.
    bounds = (first_id((before + 1) * DAY_MS), before)
    return lambda tx: set(tx.exec_driver_sql(statement, bounds).scalars())
