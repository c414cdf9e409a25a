"""A store on PostgreSQL, by asyncpg."""

from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import asyncpg

from mailonce.errors import UnavailableError
from mailonce.gate.sql import TABLE, Row, Sql, Statement, numbered


class AsyncpgStore:
    """Takes its connections from the app's own pool."""

    def __init__(
        self,
        pool: Any,
        *,
        table: str = TABLE,
        acquire_s: float = 5.0,
        statement_s: float = 10.0,
    ) -> None:
        self.sql = Sql("postgresql", table)
        self._pool = pool
        self._acquire_s = acquire_s
        self._statement_s = statement_s

    async def begin(self, *, write: bool) -> "AsyncpgTransaction":
        """Take a connection and begin."""
        del write
        with _faults():
            connection = await self._pool.acquire(timeout=self._acquire_s)
        transaction = AsyncpgTransaction(self._pool, connection, self._statement_s)
        try:
            with _faults():
                await transaction.start()
        except BaseException:
            await transaction.rollback()
            raise
        return transaction


class AsyncpgTransaction:
    """A connection in the midst of a transaction."""

    def __init__(self, pool: Any, connection: Any, statement_s: float) -> None:
        self.handle = connection
        self._pool = pool
        self._transaction = connection.transaction()
        self._statement_s = statement_s

    async def start(self) -> None:
        """Send the BEGIN."""
        await self._transaction.start()

    async def execute(self, statement: Statement) -> list[Row]:
        """Run one statement of the gate; asyncpg keeps it prepared."""
        text, names = numbered(statement.text)
        values = [statement.params[name] for name in names]
        with _faults():
            rows = await self.handle.fetch(text, *values, timeout=self._statement_s)
        return [tuple(row) for row in rows]

    async def commit(self) -> None:
        """Make it true."""
        try:
            with _faults():
                await self._transaction.commit()
        finally:
            await self._release()

    async def rollback(self) -> None:
        """Undo it."""
        try:
            with _faults():
                await self._transaction.rollback()
        except UnavailableError:
            # It is broken, or never began; the pool ends what is left.
            pass
        finally:
            await self._release()

    async def _release(self) -> None:
        try:
            with _faults():
                await self._pool.release(self.handle, timeout=self._statement_s)
        except UnavailableError:
            # It is broken; the pool makes another.
            return


@contextmanager
def _faults() -> Iterator[None]:
    try:
        yield
    except (asyncpg.PostgresError, asyncpg.InterfaceError, OSError, TimeoutError) as error:
        raise UnavailableError(f"the gate's store: {error}") from error
