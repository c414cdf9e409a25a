"""Stores on PostgreSQL, by psycopg 3: one for code that blocks, one for code that awaits."""

from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any, NoReturn, Protocol

import psycopg
from psycopg import AsyncConnection, Connection

from mailonce.gate.guard import COMMITTED, ENDED, misuse
from mailonce.gate.sql import TABLE, Row, Sql, Statement, pyformat, unavailable

CONNECT_S = 5


class Pool(Protocol):
    """What is used of `psycopg_pool.ConnectionPool`."""

    def getconn(self, timeout: float | None = None) -> Connection[Any]:
        """Take a connection."""

    def putconn(self, conn: Connection[Any]) -> None:
        """Give it back."""


class AsyncPool(Protocol):
    """What is used of `psycopg_pool.AsyncConnectionPool`."""

    async def getconn(
        self,
        timeout: float | None = None,  # noqa: ASYNC109 - the pool's own name for it
    ) -> AsyncConnection[Any]:
        """Take a connection."""

    async def putconn(self, conn: AsyncConnection[Any]) -> None:
        """Give it back."""


class PsycopgStore:
    """Takes connections from a pool, or opens one per transaction where it is given a URL."""

    def __init__(
        self, source: str | Pool, *, table: str = TABLE, connect_s: int = CONNECT_S
    ) -> None:
        self.sql = Sql("postgresql", table)
        self._source = source
        self._connect_s = connect_s

    def begin(self, *, write: bool) -> "PsycopgTransaction":
        """Take a connection; psycopg sends the BEGIN before the first statement."""
        del write
        with _faults():
            if isinstance(self._source, str):
                made = Connection.connect(self._source, connect_timeout=self._connect_s)
                return PsycopgTransaction(made, None, autocommit=False)
            taken = self._source.getconn(timeout=self._connect_s)
            # A connection that left the transaction must not commit what comes after by itself.
            autocommit = taken.autocommit
            if autocommit:
                taken.autocommit = False
        return PsycopgTransaction(taken, self._source, autocommit=autocommit)


class PsycopgTransaction:
    """A connection in the midst of a transaction."""

    def __init__(self, connection: Connection[Any], pool: Pool | None, *, autocommit: bool) -> None:
        self.handle = connection
        self._pool = pool
        self._autocommit = autocommit
        _guard(connection)

    def execute(self, statement: Statement) -> list[Row]:
        """Run one statement of the gate."""
        cursor = self.handle.cursor(row_factory=psycopg.rows.tuple_row)
        with _faults():
            cursor.execute(pyformat(statement.text), statement.params)
            return list(cursor.fetchall())

    def commit(self) -> None:
        """Make it true."""
        try:
            _unguard(self.handle)
            with _faults():
                self.handle.commit()
        finally:
            self._release()

    def commit_with(self, last: Statement) -> list[Row]:
        """Run the last statement, and commit if it gave a row."""
        try:
            rows = self.execute(last)
        except BaseException:
            self.rollback()
            raise
        if rows:
            self.commit()
        else:
            self.rollback()
        return rows

    def rollback(self) -> None:
        """Undo it; closing does, where the connection is broken."""
        _unguard(self.handle)
        try:
            self.handle.rollback()
        except psycopg.Error:
            self.handle.close()
        self._release()

    def _release(self) -> None:
        if self._pool is None:
            self.handle.close()
            return
        if self._autocommit and not self.handle.closed:
            try:
                self.handle.autocommit = True
            except psycopg.Error:
                self.handle.close()
        self._pool.putconn(self.handle)


class AsyncPsycopgStore:
    """The same, awaited."""

    def __init__(
        self, source: str | AsyncPool, *, table: str = TABLE, connect_s: int = CONNECT_S
    ) -> None:
        self.sql = Sql("postgresql", table)
        self._source = source
        self._connect_s = connect_s

    async def begin(self, *, write: bool) -> "AsyncPsycopgTransaction":
        """Take a connection; psycopg sends the BEGIN before the first statement."""
        del write
        with _faults():
            if isinstance(self._source, str):
                made = await AsyncConnection.connect(self._source, connect_timeout=self._connect_s)
                return AsyncPsycopgTransaction(made, None, autocommit=False)
            taken = await self._source.getconn(timeout=self._connect_s)
            # A connection that left the transaction must not commit what comes after by itself.
            autocommit = taken.autocommit
            if autocommit:
                await taken.set_autocommit(False)
        return AsyncPsycopgTransaction(taken, self._source, autocommit=autocommit)


class AsyncPsycopgTransaction:
    """A connection in the midst of a transaction."""

    def __init__(
        self, connection: AsyncConnection[Any], pool: AsyncPool | None, *, autocommit: bool
    ) -> None:
        self.handle = connection
        self._pool = pool
        self._autocommit = autocommit
        _guard(connection)

    async def execute(self, statement: Statement) -> list[Row]:
        """Run one statement of the gate."""
        cursor = self.handle.cursor(row_factory=psycopg.rows.tuple_row)
        with _faults():
            await cursor.execute(pyformat(statement.text), statement.params)
            return list(await cursor.fetchall())

    async def commit(self) -> None:
        """Make it true."""
        try:
            _unguard(self.handle)
            with _faults():
                await self.handle.commit()
        finally:
            await self._release()

    async def commit_with(self, last: Statement) -> list[Row]:
        """Run the last statement, and commit if it gave a row."""
        try:
            rows = await self.execute(last)
        except BaseException:
            await self.rollback()
            raise
        await (self.commit() if rows else self.rollback())
        return rows

    async def rollback(self) -> None:
        """Undo it; closing does, where the connection is broken."""
        _unguard(self.handle)
        try:
            await self.handle.rollback()
        except psycopg.Error:
            await self.handle.close()
        await self._release()

    async def _release(self) -> None:
        if self._pool is None:
            await self.handle.close()
            return
        if self._autocommit and not self.handle.closed:
            try:
                await self.handle.set_autocommit(True)
            except psycopg.Error:
                await self.handle.close()
        await self._pool.putconn(self.handle)


def _guard(connection: Any) -> None:
    """Let the app's own commit and rollback of this connection be errors, until `_unguard`."""
    connection.commit = _refuse_commit
    connection.rollback = _refuse_rollback


def _unguard(connection: Any) -> None:
    vars(connection).pop("commit", None)
    vars(connection).pop("rollback", None)


def _refuse_commit() -> NoReturn:
    raise misuse(COMMITTED)


def _refuse_rollback() -> NoReturn:
    raise misuse(ENDED)


@contextmanager
def _faults() -> Iterator[None]:
    try:
        yield
    except (psycopg.Error, OSError) as error:
        raise unavailable(error) from error
