"""Stores on SQLAlchemy 2: the claim is made on the app's own session or connection."""

from collections.abc import Iterator
from contextlib import contextmanager, suppress
from functools import lru_cache
from typing import Any, Generic, TypeVar

from sqlalchemy import Connection, Engine, TextClause, text
from sqlalchemy.exc import OperationalError, SQLAlchemyError
from sqlalchemy.ext.asyncio import AsyncConnection, AsyncEngine, AsyncSession, async_sessionmaker
from sqlalchemy.orm import Session, sessionmaker

from mailonce.errors import UnavailableError
from mailonce.gate.sql import TABLE, Row, Sql, Statement

# What the app's code works with: a session where the store was given a sessionmaker, else a
# connection.
SyncHandle = TypeVar("SyncHandle", bound=Session | Connection)
AsyncHandle = TypeVar("AsyncHandle", bound=AsyncSession | AsyncConnection)


class SqlalchemyStore(Generic[SyncHandle]):
    """Opens a session of the app's `sessionmaker`, or a connection of its engine."""

    def __init__(self, source: "sessionmaker[Any] | Engine", *, table: str = TABLE) -> None:
        if isinstance(source, Engine):
            name = source.dialect.name
        else:
            with source() as session:
                name = session.get_bind().dialect.name
        self.sql = Sql(name, table)
        self._source = source

    def begin(self, *, write: bool) -> "SqlalchemyTransaction[SyncHandle]":
        """Take a connection; PostgreSQL begins with the first statement."""
        immediate = write and self.sql.dialect.name == "sqlite"
        with _faults():
            handle: Any
            handle = self._source.connect() if isinstance(self._source, Engine) else self._source()
        try:
            with _faults():
                connection = handle.connection() if isinstance(handle, Session) else handle
                if immediate:
                    _begin_immediate(connection)
        except BaseException:
            with suppress(SQLAlchemyError):
                handle.close()
            raise
        return SqlalchemyTransaction(handle, connection)


class SqlalchemyTransaction(Generic[SyncHandle]):
    """A session or connection in the midst of a transaction."""

    def __init__(self, handle: SyncHandle, connection: Connection) -> None:
        self.handle = handle
        self._connection = connection

    def execute(self, statement: Statement) -> list[Row]:
        """Run one statement of the gate, after what the app's session still held back."""
        if isinstance(self.handle, Session):
            # A fault here is the app's own, and raised as it is.
            self.handle.flush()
        with _faults():
            return _rows(self._connection, statement)

    def commit(self) -> None:
        """Make it true."""
        try:
            with _faults():
                self.handle.commit()
        finally:
            self.rollback()

    def rollback(self) -> None:
        """Undo what is not committed: closing does."""
        with suppress(SQLAlchemyError, OSError):
            self.handle.close()


class AsyncSqlalchemyStore(Generic[AsyncHandle]):
    """The same, awaited: an `async_sessionmaker` or an `AsyncEngine`."""

    def __init__(
        self, source: "async_sessionmaker[Any] | AsyncEngine", *, table: str = TABLE
    ) -> None:
        if isinstance(source, AsyncEngine):
            name = source.dialect.name
        else:
            name = source().get_bind().dialect.name
        self.sql = Sql(name, table)
        self._source = source

    async def begin(self, *, write: bool) -> "AsyncSqlalchemyTransaction[AsyncHandle]":
        """Take a connection; PostgreSQL begins with the first statement."""
        immediate = write and self.sql.dialect.name == "sqlite"
        handle: Any
        connection: AsyncConnection
        with _faults():
            if isinstance(self._source, AsyncEngine):
                handle = await self._source.connect()
            else:
                handle = self._source()
        try:
            with _faults():
                is_session = isinstance(handle, AsyncSession)
                connection = await handle.connection() if is_session else handle
                if immediate:
                    await connection.run_sync(_begin_immediate)
        except BaseException:
            with suppress(SQLAlchemyError, OSError):
                await handle.close()
            raise
        return AsyncSqlalchemyTransaction(handle, connection)


class AsyncSqlalchemyTransaction(Generic[AsyncHandle]):
    """A session or connection in the midst of a transaction."""

    def __init__(self, handle: AsyncHandle, connection: AsyncConnection) -> None:
        self.handle = handle
        self._connection = connection

    async def execute(self, statement: Statement) -> list[Row]:
        """Run one statement of the gate, after what the app's session still held back."""
        if isinstance(self.handle, AsyncSession):
            await self.handle.flush()
        with _faults():
            return await self._connection.run_sync(_rows, statement)

    async def commit(self) -> None:
        """Make it true."""
        try:
            with _faults():
                await self.handle.commit()
        finally:
            await self.rollback()

    async def rollback(self) -> None:
        """Undo what is not committed: closing does."""
        with suppress(SQLAlchemyError, OSError):
            await self.handle.close()


def _begin_immediate(connection: Connection) -> None:
    """Queue for SQLite's only writer now: a reader that becomes one later may find it too late."""
    try:
        connection.exec_driver_sql("BEGIN IMMEDIATE")
    except OperationalError as error:
        # The app's own listener sends a BEGIN; our first statement writes, and so takes the lock.
        if "within a transaction" not in str(error):
            raise


def _rows(connection: Connection, statement: Statement) -> list[Row]:
    found = connection.execute(_clause(statement.text), dict(statement.params))
    return [tuple(row) for row in found]


@lru_cache(maxsize=256)
def _clause(written: str) -> TextClause:
    return text(written)


@contextmanager
def _faults() -> Iterator[None]:
    try:
        yield
    except (SQLAlchemyError, OSError) as error:
        # The statement and its parameters stay out of the log: they hold keys and bodies.
        said = getattr(error, "orig", None) or error
        raise UnavailableError(f"the gate's store: {type(said).__name__}: {said}") from error
