"""A store on a SQLite file, through the standard library's driver."""

import sqlite3
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any, Literal, NoReturn

from mailonce.errors import ConfigError
from mailonce.gate.sql.commit_guard import COMMITTED, ENDED, NO_TRANSACTION, misuse, refuse_text
from mailonce.gate.sql.statements import TABLE, Row, Sql, Statement, unavailable
from mailonce.gate.store_contract import commit_if_row


class SqliteStore:
    """Opens a connection per transaction: sqlite3's own are bound to their thread.

    SQLite has one writer. A copy that arrives while another writes waits for `busy_s` at most, and
    then gets 503; whether its own key is running is not visible here.
    """

    def __init__(self, path: str | Path, *, table: str = TABLE, busy_s: float = 2.0) -> None:
        if not isinstance(path, str | Path):
            raise ConfigError(
                f"SqliteStore opens the file itself; give it the path, not a {type(path).__name__}"
            )
        if str(path) in {":memory:", ""}:
            raise ConfigError(
                "SqliteStore opens the database anew for each transaction, so that one in memory "
                "would always be empty; give it the path of a file"
            )
        self.sql = Sql("sqlite", table)
        self._path = str(path)
        self._busy_s = busy_s

    def begin(self, *, write: bool) -> "SqliteTransaction":
        """Open a transaction; one that writes queues for the file's only lock at once."""
        with _faults():
            # Not in autocommit: whoever left the transaction would commit what comes after.
            connection = sqlite3.connect(
                self._path,
                timeout=self._busy_s,
                check_same_thread=False,
                factory=GatedSqliteConnection,
            )
        try:
            with _faults():
                sqlite3.Connection.execute(connection, "BEGIN IMMEDIATE" if write else "BEGIN")
        except BaseException:
            sqlite3.Connection.close(connection)
            raise
        return SqliteTransaction(connection)

    def execute_in(self, handle: sqlite3.Connection, statement: Statement) -> list[Row]:
        """Run a statement in the transaction of the app's connection; most begin one by themselves.

        Raises: ConfigError where it would commit at once.
        """
        commits_at_once = handle.isolation_level is None or getattr(handle, "autocommit", 0) is True
        if commits_at_once and not handle.in_transaction:
            raise misuse(NO_TRANSACTION)
        with _faults():
            rows: list[Row] = handle.execute(statement.text, statement.params).fetchall()
            return rows


class GatedSqliteConnection(sqlite3.Connection):
    """A connection that the app's own code cannot commit or roll back."""

    def commit(self) -> None:
        """Refuse: the gate commits."""
        raise misuse(COMMITTED)

    def rollback(self) -> None:
        """Refuse: the gate undoes, where the handler raises or refuses."""
        raise misuse(ENDED)

    def close(self) -> None:
        """Refuse, likewise."""
        raise misuse(ENDED)

    def execute(self, sql: str, parameters: Any = (), /) -> sqlite3.Cursor:
        """Run a statement, unless it would end the transaction."""
        refuse_text(sql)
        return super().execute(sql, parameters)

    def __exit__(self, *raised: object) -> Literal[False]:
        """Refuse to commit at the end of a `with` block; let an exception pass."""
        if raised[0] is None:
            raise misuse(COMMITTED)
        return False

    def executescript(self, sql_script: str, /) -> NoReturn:
        """Refuse: sqlite3 commits before a script."""
        del sql_script
        raise misuse(f"{COMMITTED}; `executescript` commits as well, use `execute`")


class SqliteTransaction:
    """A connection inside a transaction."""

    def __init__(self, connection: sqlite3.Connection) -> None:
        self.handle = connection
        self._guard = _Guard()
        connection.set_authorizer(self._guard)

    def execute(self, statement: Statement) -> list[Row]:
        with _faults():
            rows: list[Row] = self.handle.execute(statement.text, statement.params).fetchall()
            return rows

    def commit(self) -> None:
        try:
            self._guard.is_off = True
            with _faults():
                sqlite3.Connection.execute(self.handle, "COMMIT")
        finally:
            sqlite3.Connection.close(self.handle)

    def commit_with(self, last: Statement) -> list[Row]:
        """Run the last statement, and commit if it gave a row."""
        return commit_if_row(self, last)

    def rollback(self) -> None:
        """Undo it: closing does."""
        sqlite3.Connection.close(self.handle)


class _Guard:
    """SQLite asks it about each statement: one that begins or ends a transaction is refused."""

    def __init__(self) -> None:
        self.is_off = False

    def __call__(self, action: int, *_: str | None) -> int:
        if action != sqlite3.SQLITE_TRANSACTION or self.is_off:
            return sqlite3.SQLITE_OK
        misuse(ENDED)
        return sqlite3.SQLITE_DENY


@contextmanager
def _faults() -> Iterator[None]:
    try:
        yield
    except sqlite3.Error as error:
        raise unavailable(error) from error
