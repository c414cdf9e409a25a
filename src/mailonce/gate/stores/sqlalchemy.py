"""Stores on SQLAlchemy 2: the claim is made on the app's own session or connection.

Only the gate commits while a handler runs. Listeners on the app's engine see to that: they look at
the connection's own mark, and at the context of the handler for every other connection of the same
engine, because a second session that commits by itself is the commonest way to part the claim from
the change. A rollback is only noted (SQLAlchemy rolls back by itself when a flush fails); then the
gate's last statement is refused.
"""

from collections.abc import Callable
from contextlib import suppress
from contextvars import ContextVar
from functools import lru_cache
from typing import Any, Generic, TypeVar

from sqlalchemy import Connection, Engine, event
from sqlalchemy.exc import OperationalError, SQLAlchemyError
from sqlalchemy.ext.asyncio import AsyncConnection, AsyncEngine, AsyncSession, async_sessionmaker
from sqlalchemy.orm import Session, sessionmaker

from mailonce.errors import ConfigError
from mailonce.gate.guard import AUTOCOMMIT, COMMITTED, ELSEWHERE, ENDED, misuse, refuse_text
from mailonce.gate.sql import TABLE, Row, Sql, Statement, formatted, numbered, pyformat, unavailable

# What the app's code works with: a session where the store was given a sessionmaker, else a
# connection.
SyncHandle = TypeVar("SyncHandle", bound=Session | Connection)
T = TypeVar("T")
AsyncHandle = TypeVar("AsyncHandle", bound=AsyncSession | AsyncConnection)

_MARK = "mailonce.gate"


class _Guard:
    """Stands in the way of every commit, from the gate's BEGIN until its own end."""

    def __init__(self) -> None:
        self.is_on = True
        self.fault: str | None = None

    def refuse(self, reason: str) -> ConfigError:
        self.fault = self.fault or reason
        return misuse(reason)


_handling: ContextVar[_Guard | None] = ContextVar("mailonce.gate.handling", default=None)


class SqlalchemyStore(Generic[SyncHandle]):
    """Opens a session of the app's `sessionmaker`, or a connection of its engine."""

    def __init__(self, source: "sessionmaker[Any] | Engine", *, table: str = TABLE) -> None:
        if isinstance(source, Engine):
            bind: Any = source
        else:
            with source() as session:
                bind = session.get_bind()
        self.sql = Sql(bind.dialect.name, table)
        self._source = source
        _listen(bind.engine)

    def begin(self, *, write: bool) -> "SqlalchemyTransaction[SyncHandle]":
        """Take a connection; PostgreSQL begins with the first statement."""
        immediate = write and self.sql.dialect.name == "sqlite"
        handle: Any
        with _FAULTS:
            handle = self._source.connect() if isinstance(self._source, Engine) else self._source()
        try:
            with _FAULTS:
                return _begin(handle, immediate=immediate)
        except BaseException:
            with suppress(SQLAlchemyError):
                handle.close()
            raise


class SqlalchemyTransaction(Generic[SyncHandle]):
    """A session or connection in the midst of a transaction."""

    def __init__(self, handle: SyncHandle, connection: Connection, guard: _Guard) -> None:
        self.handle = handle
        self.guard = guard
        self._connection = connection

    def execute(self, statement: Statement) -> list[Row]:
        """Run one statement of the gate, after what the app's session still held back."""
        _flush(self.handle, self.guard)
        with _FAULTS:
            return _rows(self._connection, statement)

    def commit(self) -> None:
        """Make it true."""
        try:
            _close(self._connection, self.guard)
            with _FAULTS:
                self.handle.commit()
        finally:
            self.rollback()

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
        """Undo what is not committed: closing does."""
        _close(self._connection, self.guard)
        with suppress(SQLAlchemyError, OSError):
            self.handle.close()


class AsyncSqlalchemyStore(Generic[AsyncHandle]):
    """The same, awaited: an `async_sessionmaker` or an `AsyncEngine`."""

    def __init__(
        self, source: "async_sessionmaker[Any] | AsyncEngine", *, table: str = TABLE
    ) -> None:
        if isinstance(source, AsyncEngine):
            bind: Any = source.sync_engine
        else:
            bind = source().get_bind()
        self.sql = Sql(bind.dialect.name, table)
        self._source = source
        _listen(bind.engine)

    async def begin(self, *, write: bool) -> "AsyncSqlalchemyTransaction[AsyncHandle]":
        """Take a connection; PostgreSQL begins with the first statement."""
        immediate = write and self.sql.dialect.name == "sqlite"
        handle: Any
        with _FAULTS:
            if isinstance(self._source, AsyncEngine):
                handle = await self._source.connect()
            else:
                handle = self._source()
        try:
            with _FAULTS:
                inner = await handle.run_sync(_begin, immediate=immediate)
        except BaseException:
            with suppress(SQLAlchemyError, OSError):
                await handle.close()
            raise
        # Set here: what is set inside `run_sync` need not be seen outside of it.
        _handling.set(inner.guard)
        return AsyncSqlalchemyTransaction(handle, inner)


class AsyncSqlalchemyTransaction(Generic[AsyncHandle]):
    """The same as the blocking one, each step in one switch to SQLAlchemy's own greenlet."""

    def __init__(self, handle: AsyncHandle, inner: SqlalchemyTransaction[Any]) -> None:
        self.handle = handle
        self._inner = inner

    async def execute(self, statement: Statement) -> list[Row]:
        """Run one statement of the gate, after what the app's session still held back."""
        return await self._step(self._inner.execute, statement)

    async def commit(self) -> None:
        """Make it true."""
        await self._step(self._inner.commit)

    async def commit_with(self, last: Statement) -> list[Row]:
        """Run the last statement, and commit if it gave a row."""
        return await self._step(self._inner.commit_with, last)

    async def rollback(self) -> None:
        """Undo what is not committed: closing does."""
        await self._step(self._inner.rollback)

    async def _step(self, step: Callable[..., T], *args: Statement) -> T:
        return await self.handle.run_sync(lambda _: step(*args))


def _begin(handle: Any, *, immediate: bool) -> SqlalchemyTransaction[Any]:
    connection = handle.connection() if isinstance(handle, Session) else handle
    return SqlalchemyTransaction(handle, connection, _open(connection, immediate=immediate))


def _open(connection: Connection, *, immediate: bool) -> _Guard:
    """Begin where SQLite needs it, and let nobody but the gate end the transaction."""
    if connection._is_autocommit_isolation():  # noqa: SLF001 - asking the server is a round trip
        raise misuse(AUTOCOMMIT)
    if immediate:
        _begin_immediate(connection)
    guard = connection.info[_MARK] = _Guard()
    _handling.set(guard)
    return guard


def _close(connection: Connection | None, guard: _Guard) -> None:
    guard.is_on = False
    if connection is not None and not connection.closed and not connection.invalidated:
        connection.info.pop(_MARK, None)


def _check(guard: _Guard) -> None:
    if guard.fault is not None:
        raise ConfigError(guard.fault)


def _is_dirty(session: Session) -> bool:
    """Say whether the session may hold something back; `flush` itself costs more than a query."""
    return bool(session._new or session._deleted or session.identity_map._modified)  # noqa: SLF001


def _flush(handle: Session | Connection, guard: _Guard) -> None:
    """Write what the session holds back. A fault is the app's own, and raised as it is."""
    _check(guard)
    if isinstance(handle, Session) and _is_dirty(handle):
        handle.flush()


def _listen(engine: Engine) -> None:
    """Guard the engine, once; a connection without the gate's mark passes at the cost of a look."""
    if not event.contains(engine, "commit", _on_commit):
        event.listen(engine, "commit", _on_commit)
        event.listen(engine, "rollback", _on_rollback)
        event.listen(engine, "before_cursor_execute", _on_execute)


def _on_commit(connection: Connection) -> None:
    guard, reason = _guard_of(connection), COMMITTED
    if guard is None:
        guard, reason = _handling.get(), ELSEWHERE
    if guard is not None and guard.is_on:
        # SQLAlchemy takes a commit that raised for one that ended the transaction, and would give
        # the connection back to its pool in the midst of it.
        connection.dialect.do_rollback(connection.connection)
        raise guard.refuse(reason)


def _on_rollback(connection: Connection) -> None:
    guard = _guard_of(connection)
    if guard is not None:
        guard.fault = guard.fault or ENDED


def _on_execute(connection: Connection, cursor: Any, statement: str, *_: Any) -> None:
    del cursor
    guard = _guard_of(connection)
    if guard is not None:
        _check(guard)
        refuse_text(statement)


def _guard_of(connection: Connection) -> _Guard | None:
    guard: _Guard | None = connection.info.get(_MARK)
    return guard if guard is not None and guard.is_on else None


def _begin_immediate(connection: Connection) -> None:
    """Queue for SQLite's only writer now: a reader that becomes one later may find it too late."""
    try:
        connection.exec_driver_sql("BEGIN IMMEDIATE")
    except OperationalError as error:
        # The app's own listener sends a BEGIN; our first statement writes, and so takes the lock.
        if "within a transaction" not in str(error):
            raise


def _rows(connection: Connection, statement: Statement) -> list[Row]:
    """Run a statement in the driver's own style: `text` would compile it anew for each request."""
    text, names = _written(statement.text, connection.dialect.paramstyle)
    params = statement.params
    values: Any = params if names is None else tuple([params[name] for name in names])
    return list(connection.exec_driver_sql(text, values))


@lru_cache(maxsize=256)
def _written(text: str, style: str) -> tuple[str, tuple[str, ...] | None]:
    if style == "pyformat":
        return pyformat(text), None
    if style == "numeric_dollar":
        return numbered(text)
    if style == "format":
        return formatted(text)
    # SQLite's drivers read `:name` by themselves.
    return text, None


class _Faults:
    """Turns what the database refuses into one error of the gate."""

    def __enter__(self) -> None:
        """Watch what follows."""

    def __exit__(self, _: object, error: BaseException | None, __: object) -> None:
        if isinstance(error, SQLAlchemyError | OSError):
            # The statement and its parameters stay out of the log: they hold keys and bodies.
            raise unavailable(error) from error


_FAULTS = _Faults()
