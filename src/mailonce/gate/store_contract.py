"""The contract of a store: transactions of the app's own database, which both may write in.

Every fault of the gate's own statements is raised as `UnavailableError`. `commit`, `commit_with`
and `rollback` end the transaction and give its connection back, whatever happens; `rollback` never
raises. Between `begin` and those nobody else may commit: see `guard`.
"""

from typing import Protocol, TypeVar

from mailonce.gate.sql.statements import Row, Sql, Statement

Handle_co = TypeVar("Handle_co", covariant=True)


class Transaction(Protocol[Handle_co]):
    """One open transaction; `handle` is what the app's own code works with."""

    @property
    def handle(self) -> Handle_co:
        """Give the app's connection or session."""

    def execute(self, statement: Statement) -> list[Row]:
        """Run one statement of the gate."""

    def commit(self) -> None:
        """Make it true."""

    def commit_with(self, last: Statement) -> list[Row]:
        """Run `last`, and commit if it gave a row; else undo, and give none."""

    def rollback(self) -> None:
        """Undo it."""


class Store(Protocol[Handle_co]):
    """A database with a blocking driver."""

    @property
    def sql(self) -> Sql:
        """Give the statements for this database."""

    def begin(self, *, write: bool) -> Transaction[Handle_co]:
        """Open a transaction, waiting for a bounded time."""


class AsyncTransaction(Protocol[Handle_co]):
    """One open transaction; `handle` is what the app's own code works with."""

    @property
    def handle(self) -> Handle_co:
        """Give the app's connection or session."""

    async def execute(self, statement: Statement) -> list[Row]:
        """Run one statement of the gate."""

    async def commit(self) -> None:
        """Make it true."""

    async def commit_with(self, last: Statement) -> list[Row]:
        """Run `last`, and commit if it gave a row; else undo, and give none."""

    async def rollback(self) -> None:
        """Undo it."""


class AsyncStore(Protocol[Handle_co]):
    """A database with an async driver."""

    @property
    def sql(self) -> Sql:
        """Give the statements for this database."""

    async def begin(self, *, write: bool) -> AsyncTransaction[Handle_co]:
        """Open a transaction, waiting for a bounded time."""
