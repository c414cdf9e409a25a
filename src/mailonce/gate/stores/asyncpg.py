"""A store on PostgreSQL, by asyncpg."""

import asyncio
from collections.abc import Callable
from typing import Any

import asyncpg
from asyncpg.pool import PoolConnectionProxy

from mailonce.gate.guard import refuse_text
from mailonce.gate.sql import TABLE, Row, Sql, Statement, numbered, unavailable

FAULTS = (asyncpg.PostgresError, asyncpg.InterfaceError, OSError, TimeoutError)


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
        try:
            # Not `acquire(timeout=…)`, which costs a task of its own.
            async with asyncio.timeout(self._acquire_s):
                taken = await self._pool.acquire()
        except FAULTS as error:
            raise unavailable(error) from error
        transaction = AsyncpgTransaction(self._pool, taken, self._statement_s)
        try:
            await transaction.start()
        except FAULTS as error:
            await transaction.rollback()
            raise unavailable(error) from error
        except BaseException:
            await transaction.rollback()
            raise
        return transaction


class GatedConnection(PoolConnectionProxy):  # type: ignore[misc]
    """The pool's connection for the time of a handler: it refuses to end the transaction."""

    def __init__(self, taken: Any) -> None:
        # Not the pool's own __init__, which would mark the connection as taken a second time.
        self._con = taken._con  # noqa: SLF001
        self._holder = taken._holder  # noqa: SLF001

    def detach(self) -> None:
        """Refuse every further use: the pool has the connection back."""
        self._con = None


def _refusing(name: str) -> Callable[..., Any]:
    plain = getattr(PoolConnectionProxy, name)

    def call(self: GatedConnection, query: str, *args: Any, **kwargs: Any) -> Any:
        refuse_text(query)
        return plain(self, query, *args, **kwargs)

    return call


_TAKE_TEXT = (
    "copy_from_query",
    "cursor",
    "execute",
    "executemany",
    "fetch",
    "fetchmany",
    "fetchrow",
    "fetchval",
    "prepare",
)
for _name in _TAKE_TEXT:
    setattr(GatedConnection, _name, _refusing(_name))


class AsyncpgTransaction:
    """A connection in the midst of a transaction."""

    def __init__(self, pool: Any, taken: Any, statement_s: float) -> None:
        self.handle = GatedConnection(taken)
        self._taken = taken
        # Below the pool's proxy, which looks up each method anew.
        self._connection = taken._con  # noqa: SLF001
        self._pool = pool
        self._transaction = self._connection.transaction()
        self._statement_s = statement_s

    async def start(self) -> None:
        """Send the BEGIN."""
        await self._transaction.start()

    async def execute(self, statement: Statement) -> list[Row]:
        """Run one statement of the gate; asyncpg keeps it prepared."""
        text, names = numbered(statement.text)
        params = statement.params
        values = [params[name] for name in names]
        try:
            rows: list[Row] = await self._connection.fetch(text, *values, timeout=self._statement_s)
        except FAULTS as error:
            raise unavailable(error) from error
        return rows

    async def commit(self) -> None:
        """Make it true."""
        try:
            await self._transaction.commit()
        except FAULTS as error:
            raise unavailable(error) from error
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
        """Undo it."""
        try:
            await self._transaction.rollback()
        except FAULTS:
            # It is broken, or never began; the pool ends what is left.
            pass
        finally:
            await self._release()

    async def _release(self) -> None:
        self.handle.detach()
        try:
            await self._pool.release(self._taken, timeout=self._statement_s)
        except FAULTS:
            # It is broken; the pool makes another.
            return
