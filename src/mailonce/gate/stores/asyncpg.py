"""A store on PostgreSQL, through asyncpg."""

import asyncio
from collections.abc import Callable
from typing import Any, NoReturn

import asyncpg
from asyncpg.pool import PoolConnectionProxy

from mailonce.errors import ConfigError, UnavailableError
from mailonce.gate.sql.commit_guard import (
    ENDED,
    NO_TRANSACTION,
    OTHER_LOOP,
    misuse,
    refuse_text,
)
from mailonce.gate.sql.script import NO_ROW, Scripts, committed, rows_of, whole
from mailonce.gate.sql.statements import TABLE, Row, Sql, Statement, numbered, unavailable

FAULTS = (
    asyncpg.PostgresError,
    asyncpg.InterfaceError,
    # A connection that ends at the wrong moment finds asyncpg in a state it did not expect.
    asyncpg.InternalClientError,
    OSError,
    TimeoutError,
)
NO_POOL = (
    "the function that was given to AsyncpgStore has no pool yet; make it before the first request "
    "is taken, as in the lifespan of the app"
)


class AsyncpgStore:
    """Takes its connections from the app's own pool, or from the one that a function gives.

    asyncpg makes a pool inside the event loop that uses it, often later than the routes are made:
    `AsyncpgStore(lambda: app.state.pool)`.
    """

    def __init__(
        self,
        pool: Any,
        *,
        table: str = TABLE,
        acquire_s: float = 5.0,
        statement_s: float = 10.0,
    ) -> None:
        if not callable(pool) and not hasattr(pool, "acquire"):
            raise ConfigError(
                "AsyncpgStore takes a pool of asyncpg, or a function that gives it, and not a "
                f"{type(pool).__name__}; make one with `asyncpg.create_pool(url)`"
            )
        self.sql = Sql("postgresql", table)
        self._scripts = Scripts(self.sql)
        self._pool_now: Callable[[], Any] = pool if callable(pool) else lambda: pool
        self._acquire_s = acquire_s
        self._statement_s = statement_s

    async def begin(self, *, write: bool) -> "AsyncpgTransaction":
        """Take a connection; the first statement takes the BEGIN along.

        Raises: ConfigError where there is no pool yet, UnavailableError.
        """
        del write
        pool = self._find_pool()
        if getattr(pool, "_loop", None) not in (None, asyncio.get_running_loop()):
            raise misuse(OTHER_LOOP)
        try:
            # Not `acquire(timeout=…)`, which costs a task of its own.
            async with asyncio.timeout(self._acquire_s):
                taken = await pool.acquire()
        except FAULTS as error:
            raise unavailable(error) from error
        return AsyncpgTransaction(pool, taken, self._scripts, self._statement_s)

    def _find_pool(self) -> Any:
        try:
            pool = self._pool_now()
        except AttributeError as error:
            # `app.state` has what was put there.
            raise misuse(NO_POOL) from error
        if pool is None:
            raise misuse(NO_POOL)
        return pool

    async def execute_in(self, handle: Any, statement: Statement) -> list[Row]:
        """Run a statement in the transaction of the app's connection.

        Raises: ConfigError where none is open: asyncpg commits each statement then.
        """
        if not handle.is_in_transaction():
            raise misuse(NO_TRANSACTION)
        text, names = numbered(statement.text)
        values = [statement.params[name] for name in names]
        try:
            rows: list[Row] = await handle.fetch(text, *values, timeout=self._statement_s)
        except FAULTS as error:
            raise unavailable(error) from error
        return rows


class GatedAsyncpgConnection(PoolConnectionProxy):  # type: ignore[misc]
    """The pool's connection for the time of a handler: it refuses to end the transaction."""

    def __init__(self, taken: Any) -> None:
        # Not the pool's own __init__, which would mark the connection as taken a second time.
        self._con = taken._con  # noqa: SLF001
        self._holder = taken._holder  # noqa: SLF001

    def transaction(self, **choices: Any) -> Any:
        """Make a savepoint: asyncpg does not know yet that a transaction is open."""
        connection = self._con
        if connection is not None and connection._top_xact is None:  # noqa: SLF001
            connection._top_xact = connection.transaction()  # noqa: SLF001
        return super().transaction(**choices)

    async def close(self, *, timeout: float | None = None) -> NoReturn:  # noqa: ASYNC109 - its own
        """Refuse: the gate ends the transaction, and the pool the connection."""
        del timeout
        raise misuse(ENDED)

    def terminate(self) -> NoReturn:
        """Refuse, likewise."""
        raise misuse(ENDED)

    def detach(self) -> None:
        """Refuse every further use: the pool has the connection back."""
        self._con = None


def _refusing(name: str) -> Callable[..., Any]:
    plain = getattr(PoolConnectionProxy, name)

    def call(self: GatedAsyncpgConnection, query: str, *args: Any, **kwargs: Any) -> Any:
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
    setattr(GatedAsyncpgConnection, _name, _refusing(_name))


class AsyncpgTransaction:
    """A connection inside a transaction."""

    def __init__(self, pool: Any, taken: Any, scripts: Scripts, statement_s: float) -> None:
        self.handle = GatedAsyncpgConnection(taken)
        self._taken = taken
        # Below the pool's proxy, which looks up each method anew.
        self._connection = taken._con  # noqa: SLF001
        self._pool = pool
        self._scripts = scripts
        self._statement_s = statement_s
        self._is_begun = False

    async def execute(self, statement: Statement) -> list[Row]:
        """Run one statement of the gate; the first one takes the BEGIN along."""
        if self._is_begun:
            return await self._fetch(statement)
        self._is_begun = True
        if statement.given is None:
            await self._send("BEGIN")
            return await self._fetch(statement)
        return rows_of(statement, await self._begin_with(statement))

    async def commit(self) -> None:
        self._detach()
        try:
            committed(await self._send("COMMIT"))
        finally:
            await self._release()

    async def commit_with(self, last: Statement) -> list[Row]:
        """Run the last statement, and commit if it gave a row, in one round trip.

        The pool would take another one to reset the connection; so its text goes along, after the
        COMMIT. A transaction with a fault does not get that far: in it the last statement fails.
        """
        text = self._scripts.closing(self._connection, last, is_begun=self._is_begun)
        is_reset = self._is_reset_by_text()
        if is_reset:
            text = f"{text};{self._connection.get_reset_query()}"
        self._is_begun = True
        self._detach()
        try:
            tag: str = await self._connection.execute(text, timeout=self._statement_s)
            if not is_reset:
                committed(tag)
        except FAULTS as error:
            await self.rollback()
            if getattr(error, "sqlstate", None) == NO_ROW:
                return []
            self._scripts.has_not_closed(self._connection, error)
            raise unavailable(error) from error
        except BaseException:
            await self.rollback()
            raise
        await (self._release_as_it_is() if is_reset else self._release())
        return rows_of(last, "")

    async def rollback(self) -> None:
        self._detach()
        try:
            if self._is_begun:
                await self._send("ROLLBACK")
        except (UnavailableError, ConfigError):
            # It is broken, never began, or a task is inside; the pool ends what is left.
            pass
        finally:
            await self._release()

    def owns(self, called: object) -> bool:
        """Know the driver's connection, on which the handle calls what it is called."""
        return called is self.handle or called is self._connection

    async def _begin_with(self, first: Statement) -> str:
        text = self._scripts.opening(self._connection, first)
        try:
            tag: str = await self._connection.execute(text, timeout=self._statement_s)
        except FAULTS as error:
            if not self._scripts.has_not_opened(self._connection, error):
                raise unavailable(error) from error
            await self._send("ROLLBACK")
            tag = await self._send(whole(first))
        return tag

    async def _fetch(self, statement: Statement) -> list[Row]:
        """Run a statement that asyncpg keeps prepared."""
        text, names = numbered(statement.text)
        params = statement.params
        values = [params[name] for name in names]
        try:
            rows: list[Row] = await self._connection.fetch(text, *values, timeout=self._statement_s)
        except FAULTS as error:
            raise unavailable(error) from error
        return rows

    async def _send(self, text: str) -> str:
        try:
            tag: str = await self._connection.execute(text, timeout=self._statement_s)
        except FAULTS as error:
            raise unavailable(error) from error
        return tag

    def _detach(self) -> None:
        """Refuse every further use by the handler, and of what it prepared.

        Before the COMMIT or ROLLBACK: between its answer and our next step a task that was
        forgotten has its turn, and what it sent then would be committed by itself.
        """
        self.handle.detach()
        # What asyncpg tells by it that a statement or cursor is of an earlier user.
        self._connection._pool_release_ctr += 1  # noqa: SLF001

    async def _release(self) -> None:
        if self._is_begun:
            self._connection._top_xact = None  # noqa: SLF001
        try:
            await self._pool.release(self._taken, timeout=self._statement_s)
        except FAULTS:
            # It is broken; the pool makes another.
            return

    def _is_reset_by_text(self) -> bool:
        """Say whether a text of asyncpg's own is all that the pool resets a connection with."""
        return (
            type(self._pool) is asyncpg.Pool
            and type(self._connection) is asyncpg.Connection
            and getattr(self._pool, "_reset", self) is None
        )

    async def _release_as_it_is(self) -> None:
        """Do what the pool's `release` does, but send no text: the connection is reset.

        Without that text nothing waits, so it needs no task of its own either.
        """
        connection = self._connection
        connection._top_xact = None  # noqa: SLF001
        text, connection._reset_query = connection._reset_query, ""  # noqa: SLF001
        try:
            connection._on_release()  # noqa: SLF001
            await self._taken._holder.release(self._statement_s)  # noqa: SLF001
        except FAULTS:
            # It is broken; the pool makes another.
            return
        finally:
            connection._reset_query = text  # noqa: SLF001
