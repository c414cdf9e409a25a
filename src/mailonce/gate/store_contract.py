"""The contract of a store: transactions of the app's own database, which both may write in.

Every fault of the gate's own statements is raised as `UnavailableError`. `commit`, `commit_with`
and `rollback` end the transaction and give its connection back, whatever happens; `rollback` never
raises. Between `begin` and those nobody else may commit: see `guard`.
"""

from typing import Protocol, TypeVar

from mailonce.gate.sql.statements import Row, Sql, Statement

Handle_co = TypeVar("Handle_co", covariant=True)
Handle = TypeVar("Handle")


class AnyTransaction(Protocol[Handle_co]):
    """One open transaction; `handle` is what the app's own code works with."""

    @property
    def handle(self) -> Handle_co:
        """Give the app's connection or session."""


class AnyStore(Protocol):
    """A database."""

    @property
    def sql(self) -> Sql:
        """Give the statements for this database."""


class Transaction(AnyTransaction[Handle_co], Protocol[Handle_co]):
    """A transaction of a blocking driver."""

    def execute(self, statement: Statement) -> list[Row]:
        """Run one statement of the gate."""

    def commit(self) -> None:
        """Make it true."""

    def commit_with(self, last: Statement) -> list[Row]:
        """Run `last`, and commit if it gave a row; else undo, and give none."""

    def rollback(self) -> None:
        """Undo it."""


class Store(AnyStore, Protocol[Handle]):
    """A database with a blocking driver."""

    def begin(self, *, write: bool) -> Transaction[Handle]:
        """Open a transaction, waiting for a bounded time."""

    def execute_in(self, handle: Handle, statement: Statement) -> list[Row]:
        """Run one statement of the gate in the app's own open transaction.

        Raises: ConfigError where none is open.
        """


def commit_if_row(transaction: Transaction[object], last: Statement) -> list[Row]:
    """Do `commit_with` in two steps, where a driver cannot send both at once."""
    try:
        rows = transaction.execute(last)
    except BaseException:
        transaction.rollback()
        raise
    if rows:
        transaction.commit()
    else:
        transaction.rollback()
    return rows


class AsyncTransaction(AnyTransaction[Handle_co], Protocol[Handle_co]):
    """A transaction of an async driver."""

    async def execute(self, statement: Statement) -> list[Row]:
        """Run one statement of the gate."""

    async def commit(self) -> None:
        """Make it true."""

    async def commit_with(self, last: Statement) -> list[Row]:
        """Run `last`, and commit if it gave a row; else undo, and give none."""

    async def rollback(self) -> None:
        """Undo it."""

    def owns(self, called: object) -> bool:
        """Say whether a call of this object's methods works in the transaction."""


class AsyncStore(AnyStore, Protocol[Handle]):
    """A database with an async driver."""

    async def begin(self, *, write: bool) -> AsyncTransaction[Handle]:
        """Open a transaction, waiting for a bounded time."""

    async def execute_in(self, handle: Handle, statement: Statement) -> list[Row]:
        """Run one statement of the gate in the app's own open transaction.

        Raises: ConfigError where none is open.
        """
