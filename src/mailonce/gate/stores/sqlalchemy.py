"""Stores on SQLAlchemy 2: the claim is made on the app's own session or connection.

Only the gate commits while a handler runs. The dialect of the app's engine sees to that: it looks
at the connection's own mark, and at the context of the handler for every other connection of the
same engine, because a second session that commits by itself is the commonest way to part the claim
from the change. A rollback is only noted (SQLAlchemy rolls back by itself when a flush fails); then
the gate's last statement is refused. (Event listeners would see the same, but an engine that has
any calls all of them for every statement, commit and connection: a hundred calls a request.)
"""

from collections.abc import Callable
from contextlib import suppress
from contextvars import ContextVar
from functools import lru_cache, wraps
from typing import Any, Generic, TypeVar

from sqlalchemy import Connection, Dialect, Engine
from sqlalchemy.exc import OperationalError, SQLAlchemyError
from sqlalchemy.ext.asyncio import AsyncConnection, AsyncEngine, AsyncSession, async_sessionmaker
from sqlalchemy.orm import Session, sessionmaker

from mailonce.errors import ConfigError
from mailonce.gate.sql.commit_guard import (
    AUTOCOMMIT,
    COMMITTED,
    ELSEWHERE,
    ENDED,
    NO_TRANSACTION,
    misuse,
    refuse_text,
)
from mailonce.gate.sql.statements import (
    TABLE,
    Row,
    Sql,
    Statement,
    formatted,
    numbered,
    pyformat,
    unavailable,
)
from mailonce.gate.store_contract import commit_if_row
from mailonce.gate.stores.sqlalchemy_bind import async_bind_of, bind_of

# What the app's code works with: a session where the store was given a sessionmaker, else a
# connection.
SyncHandle = TypeVar("SyncHandle", bound=Session | Connection)
T = TypeVar("T")
AsyncHandle = TypeVar("AsyncHandle", bound=AsyncSession | AsyncConnection)

_MARK = "mailonce.gate"
_GUARDED = "mailonce_guards_commits"


class _Guard:
    """Blocks every commit but the gate's own, from its BEGIN on.

    A handler may use a gate in turn: then `outer` guards what it does before and afterwards.
    """

    def __init__(self, dialect: Dialect, outer: "_Guard | None") -> None:
        self.is_on = True
        # The gate itself has committed or rolled back, and closed the session or connection.
        self.is_over = False
        self.fault: str | None = None
        self.dialect = dialect
        self.outer = outer
        # What the pool lent for this transaction.
        self.lent: object = None

    def refuse(self, reason: str) -> ConfigError:
        self.fault = self.fault or reason
        return misuse(self.fault)


_handling: ContextVar[_Guard | None] = ContextVar("mailonce.gate.handling", default=None)


class SqlalchemyStore(Generic[SyncHandle]):
    """Opens a session of the app's `sessionmaker`, or a connection of its engine."""

    def __init__(self, source: "sessionmaker[Any] | Engine", *, table: str = TABLE) -> None:
        bind = bind_of(source)
        self.sql = Sql(bind.dialect.name, table)
        self._source = source
        self._dialect = bind.dialect
        _guard_commits(bind.dialect)

    def begin(self, *, write: bool) -> "SqlalchemyTransaction[SyncHandle]":
        """Take a session or connection; the transaction begins with the first statement."""
        handle: Any
        with _FAULTS:
            handle = self._source.connect() if isinstance(self._source, Engine) else self._source()
        immediate = write and self.sql.dialect.name == "sqlite"
        return SqlalchemyTransaction(handle, self._dialect, immediate=immediate)

    def execute_in(self, handle: SyncHandle, statement: Statement) -> list[Row]:
        """Run a statement in the transaction of the app's session or connection.

        Raises: ConfigError where each statement commits by itself.
        """
        return _rows_in(handle, statement)


class SqlalchemyTransaction(Generic[SyncHandle]):
    """A session or connection, and its transaction from the gate's first statement on."""

    def __init__(self, handle: SyncHandle, dialect: Dialect, *, immediate: bool) -> None:
        self.handle = handle
        self._immediate = immediate
        self._connection: Connection | None = None
        self._guard = _Guard(dialect, _present())
        _handling.set(self._guard)

    def execute(self, statement: Statement) -> list[Row]:
        """Run one statement of the gate, after what the app's session still held back."""
        if self._connection is None:
            with _FAULTS:
                self._connection = _begin(self.handle, self._guard, immediate=self._immediate)
        else:
            _flush(self.handle, self._guard)
        with _FAULTS:
            return _rows(self._connection, statement)

    def commit(self) -> None:
        try:
            _check(self._guard)
            _close(self._connection, self._guard)
            with _FAULTS:
                self.handle.commit()
        finally:
            self.rollback()

    def commit_with(self, last: Statement) -> list[Row]:
        """Run the last statement, and commit if it gave a row."""
        return commit_if_row(self, last)

    def rollback(self) -> None:
        """Undo what is not committed: closing does."""
        _close(self._connection, self._guard)
        try:
            with suppress(SQLAlchemyError, OSError):
                self.handle.close()
        finally:
            self._guard.is_over = True


class AsyncSqlalchemyStore(Generic[AsyncHandle]):
    """The async twin: an `async_sessionmaker` or an `AsyncEngine`."""

    def __init__(
        self, source: "async_sessionmaker[Any] | AsyncEngine", *, table: str = TABLE
    ) -> None:
        bind = async_bind_of(source)
        self.sql = Sql(bind.dialect.name, table)
        self._source = source
        self._dialect = bind.dialect
        _guard_commits(bind.dialect)

    async def begin(self, *, write: bool) -> "AsyncSqlalchemyTransaction[AsyncHandle]":
        """Take a session or connection; the transaction begins with the first statement."""
        handle: Any
        with _FAULTS:
            if isinstance(self._source, AsyncEngine):
                handle = await self._source.connect()
                inner = handle.sync_connection
            else:
                handle = self._source()
                inner = handle.sync_session
        immediate = write and self.sql.dialect.name == "sqlite"
        transaction = SqlalchemyTransaction(inner, self._dialect, immediate=immediate)
        return AsyncSqlalchemyTransaction(handle, transaction)

    async def execute_in(self, handle: AsyncHandle, statement: Statement) -> list[Row]:
        """Run a statement in the transaction of the app's session or connection.

        Raises: ConfigError where each statement commits by itself.
        """
        return await handle.run_sync(lambda inner: _rows_in(inner, statement))


class AsyncSqlalchemyTransaction(Generic[AsyncHandle]):
    """The same as the blocking one, each step in one switch to SQLAlchemy's own greenlet."""

    def __init__(self, handle: AsyncHandle, inner: SqlalchemyTransaction[Any]) -> None:
        self.handle = handle
        self._inner = inner

    async def execute(self, statement: Statement) -> list[Row]:
        return await self._step(self._inner.execute, statement)

    async def commit(self) -> None:
        await self._step(self._inner.commit)

    async def commit_with(self, last: Statement) -> list[Row]:
        return await self._step(self._inner.commit_with, last)

    async def rollback(self) -> None:
        await self._step(self._inner.rollback)

    async def _step(self, step: Callable[..., T], *args: Statement) -> T:
        return await self.handle.run_sync(lambda _: step(*args))


def _rows_in(handle: Session | Connection, statement: Statement) -> list[Row]:
    """Run a statement where the app's own are run, in a transaction that the app ends."""
    with _FAULTS:
        connection = handle.connection() if isinstance(handle, Session) else handle
        if connection._is_autocommit_isolation():  # noqa: SLF001 - asking the server is a round trip
            raise misuse(NO_TRANSACTION)
        if not connection.in_transaction():
            # The driver's cursor is used, of which SQLAlchemy knows nothing.
            connection.begin()
        return _rows(connection, statement)


def _begin(handle: Session | Connection, guard: _Guard, *, immediate: bool) -> Connection:
    """Begin where SQLite needs it, and let nobody but the gate end the transaction."""
    if isinstance(handle, Session):
        if not handle.in_transaction():
            # Of its own accord it would not, where the app made it with `autobegin=False`.
            handle.begin()
        connection = handle.connection()
    else:
        connection = handle
    if connection._is_autocommit_isolation():  # noqa: SLF001 - asking the server is a round trip
        raise misuse(AUTOCOMMIT)
    if not connection.in_transaction():
        connection.begin()
    if immediate:
        _begin_immediate(connection)
    guard.lent = connection.connection
    connection.info[_MARK] = guard
    return connection


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


def _guard_commits(dialect: Dialect) -> None:
    """Guard every connection of an engine, once; one without a mark costs no more than a look."""
    if getattr(dialect, _GUARDED, False):
        return
    executes = ("do_execute", "do_executemany", "do_execute_no_params")
    guarded = {name: _guarded_execute(getattr(dialect, name)) for name in executes}
    guarded["do_commit"] = _guarded_commit(dialect)
    guarded["do_rollback"] = _noted_rollback(dialect.do_rollback)
    for name, guard in guarded.items():
        setattr(dialect, name, guard)
    setattr(dialect, _GUARDED, True)


def _guarded_commit(dialect: Dialect) -> Any:
    commit, rollback = dialect.do_commit, dialect.do_rollback

    @wraps(commit)
    def do_commit(connection: Any) -> None:
        guard, reason = _guard_of(connection), COMMITTED
        if guard is None:
            guard, reason = _present(dialect), ELSEWHERE
        if guard is not None and guard.is_on:
            # SQLAlchemy takes a commit that raised for one that ended the transaction, and would
            # give the connection back to its pool in the midst of it.
            rollback(connection)
            raise guard.refuse(reason)
        commit(connection)

    return do_commit


def _noted_rollback(rollback: Callable[..., None]) -> Any:
    @wraps(rollback)
    def do_rollback(connection: Any) -> None:
        guard = _guard_of(connection)
        if guard is not None:
            guard.fault = guard.fault or ENDED
        rollback(connection)

    return do_rollback


def _guarded_execute(execute: Callable[..., None]) -> Any:
    """Wrap any of the dialect's three; the context is their last argument."""

    @wraps(execute)
    def do_execute(cursor: Any, statement: str, *rest: Any, **named: Any) -> None:
        context = named.get("context") or rest[-1]
        guard = _guard_of(context.root_connection.connection)
        if guard is not None:
            _check(guard)
            refuse_text(statement)
        execute(cursor, statement, *rest, **named)

    return do_execute


def _guard_of(connection: Any) -> _Guard | None:
    """Read the mark of a pooled connection. One that the pool has not got yet can have none."""
    try:
        guard: _Guard | None = connection.info.get(_MARK)
    except (AttributeError, NotImplementedError):
        return None
    if guard is None or not guard.is_on:
        return None
    # A handler that ended the transaction gave the connection back: the pool may have lent it to
    # somebody who has done nothing wrong.
    return guard if guard.fault is None or guard.lent is connection else None


def _present(dialect: Dialect | None = None) -> _Guard | None:
    """Give the innermost guard of this context whose gate is not done, of any engine or of one."""
    guard = _handling.get()
    while guard is not None and (guard.is_over or dialect not in (None, guard.dialect)):
        guard = guard.outer
    return guard


def _begin_immediate(connection: Connection) -> None:
    """Queue for SQLite's only writer now: a reader that becomes one later may find it too late."""
    try:
        connection.exec_driver_sql("BEGIN IMMEDIATE")
    except OperationalError as error:
        # The app's own listener sends a BEGIN; our first statement writes, and so takes the lock.
        if "within a transaction" not in str(error):
            raise


def _rows(connection: Connection, statement: Statement) -> list[Row]:
    """Run a statement on the driver's cursor, which costs half of what SQLAlchemy's own way does.

    A fault takes SQLAlchemy's way again: it knows which ones end a connection, or all of a pool.
    """
    text, names = _written(statement.text, connection.dialect.paramstyle)
    params = statement.params
    values: Any = params if names is None else tuple([params[name] for name in names])
    lent, cursor = connection.connection, None
    try:
        cursor = lent.cursor()
        cursor.execute(text, values)
        rows = list(cursor.fetchall())
    except Exception as error:  # noqa: BLE001 - handed on, and raised again
        connection._handle_dbapi_exception(error, text, values, cursor, None)  # noqa: SLF001
    cursor.close()
    return rows


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
