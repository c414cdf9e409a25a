"""Stores on PostgreSQL, by psycopg 3: one for code that blocks, one for code that awaits."""

from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any, Protocol

import psycopg
from psycopg import AsyncConnection, Connection

from mailonce.errors import UnavailableError
from mailonce.gate.sql import TABLE, Row, Sql, Statement, or_fail, pyformat

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
    """Takes connections from a pool, or opens one per transaction where it is given a URL.

    Where the pool's connections are in autocommit, BEGIN travels with the claim; otherwise psycopg
    waits for it by itself, which is one round trip more.
    """

    def __init__(
        self, source: str | Pool, *, table: str = TABLE, connect_s: int = CONNECT_S
    ) -> None:
        self.sql = Sql("postgresql", table)
        self._source = source
        self._connect_s = connect_s

    def begin(self, *, write: bool) -> "PsycopgTransaction":
        """Take a connection; BEGIN travels with the first statement."""
        del write
        with _faults():
            if isinstance(self._source, str):
                made = psycopg.connect(
                    self._source, connect_timeout=self._connect_s, autocommit=True
                )
                return PsycopgTransaction(made, None)
            taken = self._source.getconn(timeout=self._connect_s)
        return PsycopgTransaction(taken, self._source)


class PsycopgTransaction:
    """A connection in the midst of a transaction."""

    def __init__(self, connection: Connection[Any], pool: Pool | None) -> None:
        self.handle = connection
        self._pool = pool

    def execute(self, statement: Statement) -> list[Row]:
        """Run one statement of the gate, in one round trip with the BEGIN before it."""
        connection = self.handle
        cursor = connection.cursor(row_factory=psycopg.rows.tuple_row)
        with _faults():
            with connection.pipeline():
                if connection.autocommit and connection.info.transaction_status == _IDLE:
                    connection.execute("BEGIN")
                cursor.execute(pyformat(statement.text).encode(), statement.params)
            # Fetched after the pipeline's end, which would otherwise be a trip of its own.
            return cursor.fetchall()

    def commit_with(self, last: Statement) -> list[Row]:
        """Send the last statement and the COMMIT in one round trip."""
        try:
            with _faults(), self.handle.pipeline():
                self.handle.execute(pyformat(or_fail(last.text)).encode(), last.params)
                self.handle.execute("COMMIT")
        except UnavailableError as error:
            self._undo()
            if isinstance(error.__cause__, psycopg.errors.DivisionByZero):
                return []
            raise
        finally:
            self._release()
        return [(1,)]

    def commit(self) -> None:
        """Make it true."""
        try:
            with _faults():
                self.handle.commit()
        finally:
            self._release()

    def rollback(self) -> None:
        """Undo it; closing does, where the connection is broken."""
        self._undo()
        self._release()

    def _undo(self) -> None:
        try:
            self.handle.rollback()
        except psycopg.Error:
            self.handle.close()

    def _release(self) -> None:
        if self._pool is None:
            self.handle.close()
        else:
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
        """Take a connection; BEGIN travels with the first statement."""
        del write
        with _faults():
            if isinstance(self._source, str):
                made = await AsyncConnection.connect(
                    self._source, connect_timeout=self._connect_s, autocommit=True
                )
                return AsyncPsycopgTransaction(made, None)
            taken = await self._source.getconn(timeout=self._connect_s)
        return AsyncPsycopgTransaction(taken, self._source)


class AsyncPsycopgTransaction:
    """A connection in the midst of a transaction."""

    def __init__(self, connection: AsyncConnection[Any], pool: AsyncPool | None) -> None:
        self.handle = connection
        self._pool = pool

    async def execute(self, statement: Statement) -> list[Row]:
        """Run one statement of the gate, in one round trip with the BEGIN before it."""
        connection = self.handle
        cursor = connection.cursor(row_factory=psycopg.rows.tuple_row)
        with _faults():
            async with connection.pipeline():
                if connection.autocommit and connection.info.transaction_status == _IDLE:
                    await connection.execute("BEGIN")
                await cursor.execute(pyformat(statement.text).encode(), statement.params)
            return await cursor.fetchall()

    async def commit_with(self, last: Statement) -> list[Row]:
        """Send the last statement and the COMMIT in one round trip."""
        try:
            with _faults():
                async with self.handle.pipeline():
                    await self.handle.execute(pyformat(or_fail(last.text)).encode(), last.params)
                    await self.handle.execute("COMMIT")
        except UnavailableError as error:
            await self._undo()
            if isinstance(error.__cause__, psycopg.errors.DivisionByZero):
                return []
            raise
        finally:
            await self._release()
        return [(1,)]

    async def commit(self) -> None:
        """Make it true."""
        try:
            with _faults():
                await self.handle.commit()
        finally:
            await self._release()

    async def rollback(self) -> None:
        """Undo it; closing does, where the connection is broken."""
        await self._undo()
        await self._release()

    async def _undo(self) -> None:
        try:
            await self.handle.rollback()
        except psycopg.Error:
            await self.handle.close()

    async def _release(self) -> None:
        if self._pool is None:
            await self.handle.close()
        else:
            await self._pool.putconn(self.handle)


_IDLE = psycopg.pq.TransactionStatus.IDLE


@contextmanager
def _faults() -> Iterator[None]:
    try:
        yield
    except (psycopg.Error, OSError) as error:
        raise UnavailableError(f"the gate's store: {error}") from error
