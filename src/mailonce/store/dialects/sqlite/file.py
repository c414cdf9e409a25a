"""The file of a SQLite database: locked, opened, read beside its writer, copied."""

import asyncio
import contextlib
import fcntl
import os
import sqlite3
import time
from collections.abc import Callable, Mapping
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any, TypeVar

from sqlalchemy import Connection, create_engine, exc
from sqlalchemy.pool import QueuePool

from mailonce.errors import ConfigError, TakenError
from mailonce.store.dialects.contract import DatabaseUnavailableError
from mailonce.store.dialects.sqlite.writer_connection import WriterConnection
from mailonce.store.dialects.writer_thread import error_name, unavailable

T = TypeVar("T")

# The number of a process.
HOLDER_BYTES_MAX = 20
BUSY_TIMEOUT_MS = 2_000
# Prepared statements that a connection keeps: the writer has one for each number of rows.
STATEMENTS_KEPT = 256
READERS = 4
# How long a read may take, as on PostgreSQL; it keeps one of the few readers busy.
READ_S = 5.0
# How often the time is looked at: some milliseconds of SQLite's work, so that the usual read never
# has to wait for the interpreter's lock.
READ_STEPS = 100_000
# Of the writer: what durability needs, and a cache that holds more of the random keys' pages.
_WRITES: Mapping[str, Any] = {
    "journal_mode": "WAL",
    "synchronous": "FULL",
    # In KiB, as a negative number.
    "cache_size": -32 << 10,
    # In pages, 192 MiB: the writer does it sooner, between two commits (`sqlite/database.py`).
    "wal_autocheckpoint": 48_000,
}


class SqliteLog:
    """The file, read beside whoever writes it: a reader neither writes nor checkpoints."""

    name = "sqlite"

    def __init__(self, path: Path) -> None:
        self._engine = create_engine(
            "sqlite://",
            creator=lambda: connect(path, read_only=True),
            poolclass=QueuePool,
            pool_size=READERS,
            hide_parameters=True,
        )
        self._readers = ThreadPoolExecutor(READERS, "mailonce-reader")

    async def read(self, work: Callable[[Connection], T]) -> T:
        """Run `work` on a reader thread, for READ_S at most.

        Raises: UnavailableError where it takes longer.
        """
        loop = asyncio.get_running_loop()
        return await loop.run_in_executor(self._readers, self._read, work)

    async def close(self) -> None:
        self._readers.shutdown()
        self._engine.dispose()

    def _read(self, work: Callable[[Connection], T]) -> T:
        try:
            with self._engine.connect() as tx:
                _limit(tx)
                return work(tx)
        except exc.DBAPIError as error:
            if error_name(error.orig) == "SQLITE_INTERRUPT":
                raise DatabaseUnavailableError(
                    f"reading took longer than {READ_S:g} s; ask for less, or try again in a moment"
                ) from error
            raise unavailable(error.orig) from error


def _limit(tx: Connection) -> None:
    """Let the statements of this read end with its time; the next one sets a limit of its own."""
    connection = tx.connection.driver_connection
    assert isinstance(connection, sqlite3.Connection), "the engine opens SQLite alone"
    ends_s = time.monotonic() + READ_S
    connection.set_progress_handler(lambda: time.monotonic() > ends_s, READ_STEPS)


def connect(path: Path, *, read_only: bool = False) -> WriterConnection:
    """Open the file, with what durability needs."""
    uri = f"{path.absolute().as_uri()}?mode={'ro' if read_only else 'rwc'}"
    connection = sqlite3.connect(
        uri,
        uri=True,
        isolation_level=None,
        check_same_thread=False,
        cached_statements=STATEMENTS_KEPT,
        factory=WriterConnection,
    )
    pragmas: Mapping[str, Any] = {
        "busy_timeout": BUSY_TIMEOUT_MS,
        "mmap_size": 0,
        **({"query_only": 1} if read_only else _WRITES),
    }
    for name, value in pragmas.items():
        connection.execute(f"PRAGMA {name} = {value}")
    return connection


def check_opens(path: Path) -> None:
    """Check that a file which is there can be opened, as a start does; nothing is changed.

    Raises: ConfigError.
    """
    try:
        os.close(os.open(path, os.O_RDWR))
        connection = connect(path, read_only=True)
        try:
            connection.execute("PRAGMA schema_version")
        finally:
            connection.close()
    except (sqlite3.Error, OSError) as error:
        raise unopenable(path, error) from error


def unopenable(path: Path, error: Exception) -> ConfigError:
    """Say that a file is no database, or not ours."""
    return ConfigError(
        f"{path} cannot be opened as a SQLite database ({error_name(error)}); "
        "restore it, or set `database` to another file"
    )


def make_private(path: Path) -> None:
    """Make a file that only we may read; SQLite gives its log and index the same rights."""
    os.close(os.open(path, os.O_RDWR | os.O_CREAT, 0o600))


def copy(connection: sqlite3.Connection, path: Path) -> None:
    """Copy a database as it stands; a crash leaves the former copy, or this one whole."""
    half = path.with_name(path.name + ".part")
    half.unlink(missing_ok=True)
    make_private(half)
    target = sqlite3.connect(half)
    try:
        connection.backup(target)
    finally:
        target.close()
    half.replace(path)


def take_lock(path: Path) -> int:
    """Keep a second process out.

    Raises: TakenError, or ConfigError where the folder cannot be written.
    """
    try:
        path.parent.mkdir(parents=True, exist_ok=True)
        # Beside the file itself, whichever symbolic link leads to it.
        handle = os.open(path.resolve().with_suffix(".lock"), os.O_RDWR | os.O_CREAT, 0o600)
    except OSError as error:
        raise ConfigError(
            f"the folder {str(path.parent)!r} cannot be written ({error.strerror}); "
            "correct `data_dir` or `database`"
        ) from error
    try:
        fcntl.flock(handle, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except OSError as error:
        holder = os.pread(handle, HOLDER_BYTES_MAX, 0)
        os.close(handle)
        process = f" (process {int(holder)})" if holder.strip().isdigit() else ""
        raise TakenError(
            f"another mailonce process has {path.name} open; stop it{process}, or use PostgreSQL "
            "for several"
        ) from error
    # For whoever comes next and is kept out; a crash leaves it, and the next holder overwrites it.
    with contextlib.suppress(OSError):
        # A full disk is told by what needs it.
        os.ftruncate(handle, 0)
        os.pwrite(handle, b"%d\n" % os.getpid(), 0)
    return handle
