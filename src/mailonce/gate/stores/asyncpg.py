"""A store on PostgreSQL, by asyncpg."""

import asyncio
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any

import asyncpg
from asyncpg.pool import PoolConnectionProxy

from mailonce.errors import UnavailableError
from mailonce.gate.guard import refuse_text
from mailonce.gate.sql import TABLE, Row, Sql, Statement, numbered, unavailable


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
            # Not `acquire(timeout=…)`, which costs a task of its own.
            async with asyncio.timeout(self._acquire_s):
                taken = await self._pool.acquire()
        transaction = AsyncpgTransaction(self._pool, taken, self._statement_s)
        try:
            with _faults():
                await transaction.start()
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
        self._pool = pool
        self._transaction = taken.transaction()
        self._statement_s = statement_s

    async def start(self) -> None:
        """Send the BEGIN."""
        await self._transaction.start()

    async def execute(self, statement: Statement) -> list[Row]:
        """Run one statement of the gate; asyncpg keeps it prepared."""
        text, names = numbered(statement.text)
        params = statement.params
        values = [params[name] for name in names]
        with _faults():
            rows: list[Row] = await self._taken.fetch(text, *values, timeout=self._statement_s)
        return rows

    async def commit(self) -> None:
        """Make it true."""
        try:
            with _faults():
                await self._transaction.commit()
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
            with _faults():
                await self._transaction.rollback()
        except UnavailableError:
            # It is broken, or never began; the pool ends what is left.
            pass
        finally:
            await self._release()

    async def _release(self) -> None:
        self.handle.detach()
        try:
            with _faults():
                await self._pool.release(self._taken, timeout=self._statement_s)
        except UnavailableError:
            # It is broken; the pool makes another.
            return


@contextmanager
def _faults() -> Iterator[None]:
    try:
        yield
    except (asyncpg.PostgresError, asyncpg.InterfaceError, OSError, TimeoutError) as error:
        raise unavailable(error) from error
