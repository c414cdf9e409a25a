"""A store on a SQLite file, by the standard library's driver."""

import sqlite3
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from mailonce.errors import UnavailableError
from mailonce.gate.sql import TABLE, Row, Sql, Statement


class SqliteStore:
    """Opens a connection per transaction: sqlite3's own are bound to their thread.

    SQLite has one writer. A copy that comes while another writes waits for `busy_s` at most, and
    then hears 503; that its own key is running cannot be told from here.
    """

    def __init__(self, path: str | Path, *, table: str = TABLE, busy_s: float = 2.0) -> None:
        self.sql = Sql("sqlite", table)
        self._path = str(path)
        self._busy_s = busy_s

    def begin(self, *, write: bool) -> "SqliteTransaction":
        """Open a transaction; one that writes queues for the file's only lock at once."""
        with _faults():
            connection = sqlite3.connect(
                self._path, timeout=self._busy_s, isolation_level=None, check_same_thread=False
            )
        try:
            with _faults():
                connection.execute("BEGIN IMMEDIATE" if write else "BEGIN")
        except UnavailableError:
            connection.close()
            raise
        return SqliteTransaction(connection)


class SqliteTransaction:
    """A connection in the midst of a transaction."""

    def __init__(self, connection: sqlite3.Connection) -> None:
        self.handle = connection

    def execute(self, statement: Statement) -> list[Row]:
        """Run one statement of the gate."""
        with _faults():
            return self.handle.execute(statement.text, statement.params).fetchall()

    def commit(self) -> None:
        """Make it true."""
        try:
            with _faults():
                self.handle.execute("COMMIT")
        finally:
            self.handle.close()

    def rollback(self) -> None:
        """Undo it: closing does."""
        self.handle.close()


@contextmanager
def _faults() -> Iterator[None]:
    try:
        yield
    except sqlite3.Error as error:
        raise UnavailableError(f"the gate's store: {error}") from error
