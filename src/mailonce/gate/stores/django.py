"""A store on the database of a Django project: the ORM writes in the gate's own transaction."""

from collections.abc import Iterator
from contextlib import contextmanager
from functools import cached_property
from typing import Any, NoReturn

from django.db import Error, connections, transaction
from django.db.backends.base.base import BaseDatabaseWrapper

from mailonce.errors import ConfigError, UnavailableError
from mailonce.gate.sql.commit_guard import COMMITTED, ENDED, NO_TRANSACTION, misuse, refuse_text
from mailonce.gate.sql.statements import TABLE, Row, Sql, Statement, pyformat, unavailable
from mailonce.gate.store_contract import commit_if_row

DJANGO_AUTOCOMMIT = (
    "the gate must own the transaction, but autocommit is off for this database; remove "
    "AUTOCOMMIT from its DATABASES entry, or call set_autocommit(True) before the gate"
)
MIGRATE = (
    "make the gate's tables with `manage.py migrate`, after 'mailonce.gate.django' was added to "
    "INSTALLED_APPS (docs/gate.md, Tables)"
)


class DjangoStore:
    """Works on the thread's connection of one alias of DATABASES, as `transaction.atomic` does."""

    def __init__(self, using: str = "default", *, table: str = TABLE) -> None:
        self.using = using
        self._table = table

    @cached_property
    def sql(self) -> Sql:
        """Give the statements for the alias; settings are read at the first request only.

        Raises: ConfigError where the gate does not know that database.
        """
        return Sql(connections[self.using].vendor, self._table)

    def begin(self, *, write: bool) -> "DjangoTransaction":
        """Enter an atomic block that must be the outermost one (Django's own TestCase aside).

        Raises: ConfigError where another transaction is open already.
        """
        # On SQLite the first statement of what writes is the claim, which takes the lock at once.
        del write
        connection = connections[self.using]
        if not connection.in_atomic_block:
            with _faults():
                connection.close_if_unusable_or_obsolete()
                autocommit = connection.get_autocommit()
            if not autocommit:
                # An atomic block then ends without a commit.
                raise ConfigError(DJANGO_AUTOCOMMIT)
        atomic = transaction.Atomic(self.using, savepoint=True, durable=True)
        try:
            with _faults():
                atomic.__enter__()
        except RuntimeError as error:
            raise ConfigError(
                "the gate must own the transaction; call it outside of transaction.atomic"
            ) from error
        return DjangoTransaction(connection, atomic)

    def execute_in(self, handle: BaseDatabaseWrapper, statement: Statement) -> list[Row]:
        """Run a statement in the atomic block that is open on a connection of Django.

        Raises: ConfigError where there is none.
        """
        if not handle.in_atomic_block:
            raise misuse(NO_TRANSACTION)
        with _faults(), handle.cursor() as cursor:
            cursor.execute(pyformat(statement.text), statement.params)
            rows: list[Row] = cursor.fetchall()
            return rows


class DjangoTransaction:
    """An atomic block that is entered by hand, because it ends elsewhere than it began.

    Until it ends, `commit`, `rollback` and `close` of the connection are refused, and what would do
    the same as text. (Django refuses the first two by itself, but does not say what to change.)
    """

    def __init__(self, connection: BaseDatabaseWrapper, atomic: transaction.Atomic) -> None:
        self.handle = connection
        self._atomic = atomic
        connection.execute_wrappers.append(_refuse)
        vars(connection).update(commit=_refuse_commit, rollback=_refuse_end, close=_refuse_end)

    def execute(self, statement: Statement) -> list[Row]:
        """Run one statement of the gate; in a block that must roll back, Django refuses it."""
        with _faults(), self.handle.cursor() as cursor:
            cursor.execute(pyformat(statement.text), statement.params)
            rows: list[Row] = cursor.fetchall()
            return rows

    def commit(self) -> None:
        """Make it true, then run what waits in `transaction.on_commit`."""
        self._check()
        self._unguard()
        with _faults():
            self._atomic.__exit__(None, None, None)

    def commit_with(self, last: Statement) -> list[Row]:
        """Run the last statement, and commit if it gave a row."""
        self._check()
        return commit_if_row(self, last)

    def rollback(self) -> None:
        """Undo it; Django closes a connection that cannot even do that."""
        self._unguard()
        try:
            self.handle.set_rollback(True)
            self._atomic.__exit__(None, None, None)
        except Error:
            self.handle.close()

    def _check(self) -> None:
        """Refuse a block that Django would silently leave without a commit."""
        if self.handle.needs_rollback or self.handle.closed_in_transaction:
            self.rollback()
            raise UnavailableError(
                "the gate's store: the app marked the transaction as broken; put what may fail "
                "into a transaction.atomic block of its own"
            )

    def _unguard(self) -> None:
        if _refuse in self.handle.execute_wrappers:
            self.handle.execute_wrappers.remove(_refuse)
        for name in ("commit", "rollback", "close"):
            vars(self.handle).pop(name, None)


def _refuse(execute: Any, sql: Any, params: Any, many: Any, context: Any) -> Any:
    refuse_text(sql)
    return execute(sql, params, many, context)


def _refuse_commit() -> NoReturn:
    raise misuse(COMMITTED)


def _refuse_end() -> NoReturn:
    raise misuse(ENDED)


@contextmanager
def _faults() -> Iterator[None]:
    try:
        yield
    except Error as error:
        raise unavailable(error, make_tables=MIGRATE) from error
