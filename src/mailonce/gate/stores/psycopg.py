"""Stores on PostgreSQL, through psycopg 3: blocking and async."""

from collections.abc import Iterator
from contextlib import contextmanager, suppress
from inspect import iscoroutinefunction
from typing import Any, Generic, Protocol, TypeVar

import psycopg
from psycopg import AsyncConnection, Connection
from psycopg.pq import TransactionStatus

from mailonce.errors import ConfigError
from mailonce.gate.sql.commit_guard import NO_TRANSACTION, STILL_USED, misuse
from mailonce.gate.sql.script import NOTHING, Scripts, committed, rows_of, whole
from mailonce.gate.sql.statements import TABLE, Row, Sql, Statement, pyformat, unavailable
from mailonce.gate.stores.psycopg_guard import CLOSED, lend
from mailonce.gate.stores.psycopg_wire import begins_plainly, sending

CONNECT_S = 5
FAULTS = (psycopg.Error, OSError)


class PsycopgPool(Protocol):
    """What is used of `psycopg_pool.ConnectionPool`."""

    def getconn(self, timeout: float | None = None) -> Connection[Any]:
        """Take a connection."""

    def putconn(self, conn: Connection[Any]) -> None:
        """Give it back."""


class AsyncPsycopgPool(Protocol):
    """What is used of `psycopg_pool.AsyncConnectionPool`."""

    async def getconn(
        self,
        timeout: float | None = None,  # noqa: ASYNC109 - the pool's own name for it
    ) -> AsyncConnection[Any]:
        """Take a connection."""

    async def putconn(self, conn: AsyncConnection[Any]) -> None:
        """Give it back."""


Pool = TypeVar("Pool")
Taken = TypeVar("Taken", bound="Connection[Any] | AsyncConnection[Any]")


class _Store(Generic[Pool]):
    awaits = False

    def __init__(
        self, source: str | Pool, *, table: str = TABLE, connect_s: int = CONNECT_S
    ) -> None:
        getconn = getattr(source, "getconn", None)
        if not isinstance(source, str) and (
            getconn is None or iscoroutinefunction(getconn) is not self.awaits
        ):
            kind = "AsyncConnectionPool" if self.awaits else "ConnectionPool"
            raise ConfigError(
                f"{type(self).__name__} takes a URL or a {kind} of psycopg_pool, and not a "
                f"{type(source).__name__}; make one with `{kind}(url)`"
            )
        self.sql = Sql("postgresql", table)
        self._scripts = Scripts(self.sql)
        self._source = source
        self._connect_s = connect_s


class _Transaction(Generic[Taken, Pool]):
    def __init__(
        self, taken: Taken, pool: Pool | None, scripts: Scripts, *, autocommit: bool
    ) -> None:
        self.handle = lend(taken)
        self._taken = taken
        self._pool = pool
        self._autocommit = autocommit
        self._scripts = scripts
        self._is_begun = False

    def _check_free(self) -> None:
        """Refuse to end the transaction while a statement of somebody else runs in it.

        psycopg would let the gate wait for that one statement, and commit before the next.
        """
        if self._taken.lock.locked():
            raise misuse(STILL_USED)

    def _open_streams(self) -> list[Any]:
        """Give the handler's streams of rows that somebody still has, such as a traceback."""
        streams: list[Any] = [stream() for stream in vars(self.handle)["streams"]]
        return [stream for stream in streams if stream is not None]

    def _detach(self) -> None:
        """Refuse every further use by the handler, whose connection goes back to the pool.

        Before the COMMIT or ROLLBACK: a thread that waits for psycopg's lock has it right after.
        """
        self.handle.pgconn = CLOSED


class PsycopgStore(_Store[PsycopgPool]):
    """Takes connections from a pool, or opens one per transaction where it is given a URL."""

    def begin(self, *, write: bool) -> "PsycopgTransaction":
        """Take a connection; psycopg sends the BEGIN before the first statement."""
        del write
        with _faults():
            if isinstance(self._source, str):
                made = Connection.connect(self._source, connect_timeout=self._connect_s)
                self._scripts.write_out(made)
                return PsycopgTransaction(made, None, self._scripts, autocommit=False)
            taken = self._source.getconn(timeout=self._connect_s)
            try:
                # A connection that left the transaction must not commit what comes after by itself.
                autocommit = taken.autocommit
                if autocommit:
                    taken.autocommit = False
                return PsycopgTransaction(taken, self._source, self._scripts, autocommit=autocommit)
            except BaseException:
                # Nobody else knows of it: its pool would wait for it for ever.
                taken.close()
                self._source.putconn(taken)
                raise

    def execute_in(self, handle: Connection[Any], statement: Statement) -> list[Row]:
        """Run a statement in the transaction of the app's connection.

        Raises: ConfigError where it would commit at once.
        """
        _check_open(handle)
        with _faults():
            cursor = handle.cursor(row_factory=psycopg.rows.tuple_row)
            cursor.execute(pyformat(statement.text), statement.params)
            return list(cursor.fetchall())


class PsycopgTransaction(_Transaction[Connection[Any], PsycopgPool]):
    """A connection inside a transaction."""

    def execute(self, statement: Statement) -> list[Row]:
        """Run one statement of the gate; the first one takes the BEGIN along."""
        is_begun, self._is_begun = self._is_begun, True
        with _faults():
            if not is_begun and statement.given is not None and begins_plainly(self._taken):
                return rows_of(statement, self._begin_with(statement))
            cursor = self._taken.cursor(row_factory=psycopg.rows.tuple_row)
            cursor.execute(pyformat(statement.text), statement.params)
            return list(cursor.fetchall())

    def commit(self) -> None:
        try:
            self._check_free()
            self._detach()
            with _faults():
                committed(self._send("COMMIT"))
        except BaseException:
            self.rollback()
            raise
        self._release()

    def commit_with(self, last: Statement) -> list[Row]:
        """Run the last statement, and commit if it gave a row, in one trip."""
        if not self._is_begun and not begins_plainly(self._taken):
            self.execute(NOTHING)
        text = self._scripts.closing(self._taken, last, is_begun=self._is_begun)
        try:
            self._check_free()
            self._detach()
            committed(self._send(text))
        except psycopg.errors.DivisionByZero:
            self.rollback()
            return []
        except BaseException as error:
            self._scripts.has_not_closed(self._taken, error)
            self.rollback()
            if isinstance(error, FAULTS):
                raise unavailable(error) from error
            raise
        self._release()
        return rows_of(last, "")

    def rollback(self) -> None:
        """Undo it; closing does, where the connection is broken."""
        try:
            self._close_streams()
            self._detach()
            self._taken.rollback()
        except psycopg.Error:
            self._taken.close()
        finally:
            self._detach()
            self._release()

    def _close_streams(self) -> None:
        """Close what the handler left in the midst, or the ROLLBACK would wait for it for ever."""
        for stream in self._open_streams():
            # A thread that is inside it gets on, and ends it.
            with suppress(ValueError):
                stream.close()

    def _begin_with(self, first: Statement) -> str:
        try:
            return self._send(self._scripts.opening(self._taken, first))
        except psycopg.Error as error:
            if not self._scripts.has_not_opened(self._taken, error):
                raise
            self._send("ROLLBACK")
            return self._send(whole(first))

    def _send(self, text: str) -> str:
        with self._taken.lock:
            return self._taken.wait(sending(self._taken, text))

    def _release(self) -> None:
        if self._pool is None:
            self._taken.close()
            return
        try:
            if self._autocommit and not self._taken.closed:
                self._taken.autocommit = True
        except BaseException as error:
            self._taken.close()
            if not isinstance(error, psycopg.Error):
                raise
        finally:
            self._pool.putconn(self._taken)


class AsyncPsycopgStore(_Store[AsyncPsycopgPool]):
    """The async twin of `PsycopgStore`."""

    awaits = True

    async def begin(self, *, write: bool) -> "AsyncPsycopgTransaction":
        """Take a connection; psycopg sends the BEGIN before the first statement."""
        del write
        with _faults():
            if isinstance(self._source, str):
                made = await AsyncConnection.connect(self._source, connect_timeout=self._connect_s)
                self._scripts.write_out(made)
                return AsyncPsycopgTransaction(made, None, self._scripts, autocommit=False)
            taken, pool = await self._source.getconn(timeout=self._connect_s), self._source
            try:
                # A connection that left the transaction must not commit what comes after by itself.
                autocommit = taken.autocommit
                if autocommit:
                    await taken.set_autocommit(False)
                return AsyncPsycopgTransaction(taken, pool, self._scripts, autocommit=autocommit)
            except BaseException:
                # Nobody else knows of it: its pool would wait for it for ever.
                await taken.close()
                await pool.putconn(taken)
                raise

    async def execute_in(self, handle: AsyncConnection[Any], statement: Statement) -> list[Row]:
        """Run a statement in the transaction of the app's connection.

        Raises: ConfigError where it would commit at once.
        """
        _check_open(handle)
        with _faults():
            cursor = handle.cursor(row_factory=psycopg.rows.tuple_row)
            await cursor.execute(pyformat(statement.text), statement.params)
            return list(await cursor.fetchall())


class AsyncPsycopgTransaction(_Transaction[AsyncConnection[Any], AsyncPsycopgPool]):
    """A connection inside a transaction."""

    async def execute(self, statement: Statement) -> list[Row]:
        """Run one statement of the gate; the first one takes the BEGIN along."""
        is_begun, self._is_begun = self._is_begun, True
        with _faults():
            if not is_begun and statement.given is not None and begins_plainly(self._taken):
                return rows_of(statement, await self._begin_with(statement))
            cursor = self._taken.cursor(row_factory=psycopg.rows.tuple_row)
            await cursor.execute(pyformat(statement.text), statement.params)
            return list(await cursor.fetchall())

    async def commit(self) -> None:
        try:
            await self._await_left_streams()
            self._check_free()
            self._detach()
            with _faults():
                committed(await self._send("COMMIT"))
        except BaseException:
            await self.rollback()
            raise
        await self._release()

    async def commit_with(self, last: Statement) -> list[Row]:
        """Run the last statement, and commit if it gave a row, in one trip."""
        if not self._is_begun and not begins_plainly(self._taken):
            await self.execute(NOTHING)
        text = self._scripts.closing(self._taken, last, is_begun=self._is_begun)
        try:
            await self._await_left_streams()
            self._check_free()
            self._detach()
            committed(await self._send(text))
        except psycopg.errors.DivisionByZero:
            await self.rollback()
            return []
        except BaseException as error:
            self._scripts.has_not_closed(self._taken, error)
            await self.rollback()
            if isinstance(error, FAULTS):
                raise unavailable(error) from error
            raise
        await self._release()
        return rows_of(last, "")

    async def rollback(self) -> None:
        """Undo it; closing does, where the connection is broken."""
        try:
            await self._close_streams()
            self._detach()
            await self._taken.rollback()
        except psycopg.Error:
            await self._taken.close()
        finally:
            self._detach()
            await self._release()

    async def _close_streams(self) -> None:
        """Close what the handler left in the midst, or the ROLLBACK would wait for it for ever."""
        for stream in self._open_streams():
            # A task that is inside it gets on, and ends it.
            with suppress(RuntimeError):
                await stream.aclose()

    async def _await_left_streams(self) -> None:
        """Wait for streams that the handler left by a `break`: asyncio closes them in a task."""
        streams = vars(self.handle)["streams"]
        if self._taken.lock.locked() and len(self._open_streams()) < len(streams):
            async with self._taken.lock:
                pass

    def owns(self, called: object) -> bool:
        """Know the connection, and cursors of it."""
        return called is self.handle or getattr(called, "connection", None) is self.handle

    async def _begin_with(self, first: Statement) -> str:
        try:
            return await self._send(self._scripts.opening(self._taken, first))
        except psycopg.Error as error:
            if not self._scripts.has_not_opened(self._taken, error):
                raise
            await self._send("ROLLBACK")
            return await self._send(whole(first))

    async def _send(self, text: str) -> str:
        async with self._taken.lock:
            return await self._taken.wait(sending(self._taken, text))

    async def _release(self) -> None:
        if self._pool is None:
            await self._taken.close()
            return
        try:
            if self._autocommit and not self._taken.closed:
                await self._taken.set_autocommit(True)
        except BaseException as error:
            await self._taken.close()
            if not isinstance(error, psycopg.Error):
                raise
        finally:
            await self._pool.putconn(self._taken)


def _check_open(connection: "Connection[Any] | AsyncConnection[Any]") -> None:
    """Refuse a connection on which each statement is a transaction of its own."""
    if connection.autocommit and connection.info.transaction_status is TransactionStatus.IDLE:
        raise misuse(NO_TRANSACTION)


@contextmanager
def _faults() -> Iterator[None]:
    try:
        yield
    except FAULTS as error:
        raise unavailable(error) from error
