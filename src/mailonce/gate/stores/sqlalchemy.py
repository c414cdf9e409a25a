"""Stores on SQLAlchemy 2: the claim is made on the app's own session or connection."""

import asyncio
from collections.abc import Callable
from functools import lru_cache
from typing import Any, Generic, TypeVar, overload

from sqlalchemy import Connection, Dialect, Engine
from sqlalchemy.exc import OperationalError, SQLAlchemyError
from sqlalchemy.ext.asyncio import AsyncConnection, AsyncEngine, AsyncSession, async_sessionmaker
from sqlalchemy.orm import Session, sessionmaker

from mailonce.gate.sql.commit_guard import (
    AUTOCOMMIT,
    NO_TRANSACTION,
    OTHER_LOOP,
    STILL_USED,
    misuse,
)
from mailonce.gate.sql.statements import (
    TABLE,
    Row,
    Sql,
    Statement,
    formatted,
    is_of_other_loop,
    numbered,
    pyformat,
    unavailable,
)
from mailonce.gate.store_contract import commit_if_row
from mailonce.gate.stores.sqlalchemy_bind import async_bind_of, bind_of
from mailonce.gate.stores.sqlalchemy_guard import (
    HANDLING,
    MARK,
    CommitGuard,
    check_guard,
    guard_commits,
    present_guard,
)
from mailonce.gate.stores.sqlalchemy_lent import STUCK_S, drop, drop_if_used, is_used

# What the app's code works with: a session where the store was given a sessionmaker, else a
# connection.
SyncHandle = TypeVar("SyncHandle", bound=Session | Connection)
T = TypeVar("T")
S = TypeVar("S", bound=Session)
A = TypeVar("A", bound=AsyncSession)
AsyncHandle = TypeVar("AsyncHandle", bound=AsyncSession | AsyncConnection)


class SqlalchemyStore(Generic[SyncHandle]):
    """Opens a session of the app's `sessionmaker`, or a connection of its engine."""

    @overload
    def __init__(
        self: "SqlalchemyStore[S]", source: "sessionmaker[S]", *, table: str = TABLE
    ) -> None: ...
    @overload
    def __init__(
        self: "SqlalchemyStore[Connection]", source: Engine, *, table: str = TABLE
    ) -> None: ...
    def __init__(self, source: "sessionmaker[Any] | Engine", *, table: str = TABLE) -> None:
        bind = bind_of(source)
        self.sql = Sql(bind.dialect.name, table)
        self._source = source
        self._dialect = bind.dialect
        guard_commits(bind.dialect)

    def begin(self, *, write: bool) -> "SqlalchemyTransaction[SyncHandle]":
        """Take a session or connection; the transaction begins with the first statement."""
        handle: Any
        with _FAULTS:
            handle = self._source.connect() if isinstance(self._source, Engine) else self._source()
        immediate = write and self.sql.dialect.name == "sqlite"
        is_own = isinstance(self._source, sessionmaker)
        return SqlalchemyTransaction(handle, self._dialect, immediate=immediate, is_own=is_own)

    def execute_in(self, handle: SyncHandle, statement: Statement) -> list[Row]:
        """Run a statement in the transaction of the app's session or connection.

        Raises: ConfigError where each statement commits by itself.
        """
        return _rows_in(handle, statement)


class SqlalchemyTransaction(Generic[SyncHandle]):
    """A session or connection, and its transaction from the gate's first statement on."""

    def __init__(
        self, handle: SyncHandle, dialect: Dialect, *, immediate: bool, is_own: bool
    ) -> None:
        self.handle = handle
        # Made for this transaction alone, and not one that the app uses again.
        self._is_own = is_own
        self._immediate = immediate
        self._connection: Connection | None = None
        self._guard = CommitGuard(dialect, present_guard())
        HANDLING.set(self._guard)

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
            check_guard(self._guard)
            self._guard.is_on = False
            with _FAULTS:
                self.handle.commit()
        finally:
            self.rollback()

    def commit_with(self, last: Statement) -> list[Row]:
        """Run the last statement, and commit if it gave a row."""
        is_free = self._guard.inside.acquire(blocking=False)
        try:
            if not is_free or is_used(self._guard.lent):
                refusal = misuse(STILL_USED)
                self.rollback()
                raise refusal
            return commit_if_row(self, last)
        finally:
            if is_free:
                self._guard.inside.release()

    def rollback(self) -> None:
        """Undo what is not committed: closing does."""
        guard = self._guard
        is_free = guard.inside.acquire(timeout=STUCK_S)
        guard.is_on, guard.is_ending = False, True
        drop_if_used(guard.lent, is_free=is_free)
        try:
            if self._is_own:
                _make_final(self.handle)
            self.handle.close()
        except (SQLAlchemyError, OSError):
            drop(guard.lent)
        finally:
            guard.is_over, guard.lent = True, None
            if is_free:
                guard.inside.release()


class AsyncSqlalchemyStore(Generic[AsyncHandle]):
    """The async twin: an `async_sessionmaker` or an `AsyncEngine`."""

    @overload
    def __init__(
        self: "AsyncSqlalchemyStore[A]", source: "async_sessionmaker[A]", *, table: str = TABLE
    ) -> None: ...
    @overload
    def __init__(
        self: "AsyncSqlalchemyStore[AsyncConnection]", source: AsyncEngine, *, table: str = TABLE
    ) -> None: ...
    def __init__(
        self, source: "async_sessionmaker[Any] | AsyncEngine", *, table: str = TABLE
    ) -> None:
        bind = async_bind_of(source)
        self.sql = Sql(bind.dialect.name, table)
        self._source = source
        self._dialect = bind.dialect
        guard_commits(bind.dialect)

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
        is_own = isinstance(self._source, async_sessionmaker)
        transaction = SqlalchemyTransaction(
            inner, self._dialect, immediate=immediate, is_own=is_own
        )
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

    def owns(self, called: object) -> bool:
        return called is self.handle

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


def _begin(handle: Session | Connection, guard: CommitGuard, *, immediate: bool) -> Connection:
    """Begin where SQLite needs it, and let nobody but the gate end the transaction."""
    if isinstance(handle, Session):
        if not handle.in_transaction():
            # Of its own accord it would not, where the app made it with `autobegin=False`.
            handle.begin()
        connection = handle.connection()
    else:
        connection = handle
    _check_loop(connection)
    if connection._is_autocommit_isolation():  # noqa: SLF001 - asking the server is a round trip
        raise misuse(AUTOCOMMIT)
    if not connection.in_transaction():
        connection.begin()
    if immediate:
        _begin_immediate(connection)
    guard.lent = connection.connection
    connection.info[MARK] = guard
    return connection


def _check_loop(connection: Connection) -> None:
    """Refuse a connection of asyncpg that another event loop made, before it is used.

    It would fail in words that fit a handler which left a task behind, and stay in its pool.
    """
    driver = connection.connection.driver_connection
    if type(driver).__module__ != "asyncpg.connection":
        return
    if driver._loop is not asyncio.get_running_loop():  # type: ignore[union-attr]  # noqa: SLF001
        raise misuse(OTHER_LOOP)


def _make_final(handle: Session | Connection) -> None:
    """Let closing a session be its end, as `close_resets_only=False` does when it is made.

    A background task that kept it would begin a transaction which nobody ends. While the handler
    runs, the session is as the app made it: whoever closes it then is refused in the gate's words.
    """
    state = getattr(handle, "_close_state", None)
    if state is not None:
        handle._close_state = type(state).ACTIVE  # type: ignore[union-attr]  # noqa: SLF001


def _is_dirty(session: Session) -> bool:
    """Say whether the session may hold something back; `flush` itself costs more than a query."""
    return bool(session._new or session._deleted or session.identity_map._modified)  # noqa: SLF001


def _flush(handle: Session | Connection, guard: CommitGuard) -> None:
    """Write what the session holds back. A fault is the app's own, and raised as it is."""
    check_guard(guard)
    if isinstance(handle, Session) and _is_dirty(handle):
        if handle._flushing:  # noqa: SLF001 - what `flush` itself looks at
            raise misuse(STILL_USED)
        handle.flush()


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

    A fault takes SQLAlchemy's way again: it knows which ones end a connection, or all of a pool. A
    cancellation is one: SQLAlchemy cannot tell whether its BEGIN arrived, and would never end it.
    """
    text, names = _written(statement.text, connection.dialect.paramstyle)
    params = statement.params
    values: Any = params if names is None else tuple([params[name] for name in names])
    lent, cursor = connection.connection, None
    try:
        cursor = lent.cursor()
        cursor.execute(text, values)
        rows = list(cursor.fetchall())
    except BaseException as error:  # noqa: BLE001 - handed on, and raised again
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
        if isinstance(error, SQLAlchemyError | OSError) or (error and is_of_other_loop(error)):
            # The statement and its parameters stay out of the log: they hold keys and bodies.
            raise unavailable(error) from error


_FAULTS = _Faults()
