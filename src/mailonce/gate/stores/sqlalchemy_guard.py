"""Only the gate commits while a handler runs.

The dialect of the app's engine sees to that: it looks at the connection's own mark, and at the
context of the handler for every other connection of the same engine, because a second session that
commits by itself is the commonest way to part the claim from the change. A rollback is only noted
(SQLAlchemy rolls back by itself when a flush fails); then the gate's last statement is refused.
A thread or task that the handler forgot is kept out from when the gate ends its transaction: its
statement would run on a connection that the pool may have lent to somebody else.
(Event listeners would see the same, but an engine that has any calls all of them for every
statement, commit and connection: a hundred calls a request.)
"""

import logging
from collections.abc import Callable
from contextvars import ContextVar
from functools import wraps
from threading import RLock
from typing import Any

from sqlalchemy import Dialect, PoolProxiedConnection
from sqlalchemy.exc import ResourceClosedError

from mailonce.errors import ConfigError, UnavailableError
from mailonce.gate.sql.commit_guard import (
    COMMITTED,
    ELSEWHERE,
    ENDED,
    LOCKED,
    STILL_USED,
    is_locked,
    misuse,
    refuse_text,
)
from mailonce.gate.stores.sqlalchemy_lent import is_in_transaction

MARK = "mailonce.gate"
_GUARDED = "mailonce_guards_commits"
LEFT_OPEN = (
    "the pool lent a connection in which a transaction was still open, so that COMMIT did not "
    "commit; it is closed, and nothing was kept: end each transaction before its connection goes "
    "back to the pool"
)
GIVEN_BACK = "the connection went back to its pool before this statement began"
log = logging.getLogger("mailonce.gate")


class CommitGuard:
    """Blocks every commit but the gate's own, from its BEGIN on.

    A handler may use a gate in turn: then `outer` guards what it does before and afterwards.
    """

    def __init__(self, dialect: Dialect, outer: "CommitGuard | None") -> None:
        self.is_on = True
        # The gate itself commits or rolls back: no other statement may begin.
        self.is_ending = False
        # It has done so, and closed the session or connection.
        self.is_over = False
        # Held by a thread while its statement runs, and by the gate's while the transaction ends.
        self.inside = RLock()
        self.fault: str | None = None
        self.dialect = dialect
        self.outer = outer
        # What the pool lent for this transaction. A mark that an earlier one left in a connection
        # is told by it: the pool makes another object each time that it lends.
        self.lent: PoolProxiedConnection | None = None

    def refuse(self, reason: str) -> ConfigError:
        self.fault = self.fault or reason
        return misuse(self.fault)


HANDLING: ContextVar[CommitGuard | None] = ContextVar("mailonce.gate.handling", default=None)


def guard_commits(dialect: Dialect) -> None:
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
        own = _guard_of(connection)
        guard, reason = own, COMMITTED
        if own is None or not own.is_on:
            guard, reason = present_guard(dialect), ELSEWHERE
        if guard is not None and guard.is_on:
            # SQLAlchemy takes a commit that raised for one that ended the transaction, and would
            # give the connection back to its pool in the midst of it.
            rollback(connection)
            raise guard.refuse(reason)
        if own is None:
            commit(connection)
        else:
            own.is_ending = True
            commit(connection)
            _check_ended(connection)

    return do_commit


def _check_ended(connection: PoolProxiedConnection) -> None:
    """Refuse a COMMIT of the gate's that left its transaction open, and close the connection.

    A transaction that somebody else left in it makes a savepoint of the gate's: what is committed
    then would be answered as done, and undone with the connection.
    """
    if not is_in_transaction(connection):
        return
    connection.invalidate()
    log.error("%s", LEFT_OPEN)
    raise UnavailableError(f"the gate's store: {LEFT_OPEN}")


def _noted_rollback(rollback: Callable[..., None]) -> Any:
    @wraps(rollback)
    def do_rollback(connection: Any) -> None:
        guard = _guard_of(connection)
        if guard is not None and guard.is_on:
            guard.fault = guard.fault or ENDED
        rollback(connection)

    return do_rollback


def _guarded_execute(execute: Callable[..., None]) -> Any:
    """Wrap any of the dialect's three; the context is their last argument."""

    @wraps(execute)
    def do_execute(cursor: Any, statement: str, *rest: Any, **named: Any) -> None:
        context = named.get("context") or rest[-1]
        lent = context.root_connection.connection
        guard = _guard_of(lent)
        if guard is not None:
            with guard.inside:
                if guard.is_ending:
                    raise misuse(STILL_USED)
                if guard.is_on:
                    check_guard(guard)
                    refuse_text(statement)
                execute(cursor, statement, *rest, **named)
            return
        if not lent.is_valid:
            raise ResourceClosedError(GIVEN_BACK)
        try:
            execute(cursor, statement, *rest, **named)
        except Exception as error:
            present = present_guard(context.dialect)
            if present is not None and present.lent is not None and is_locked(error):
                # Nobody else can write while the claim is open: it was the gate that did.
                raise misuse(LOCKED) from error
            raise

    return do_execute


def _guard_of(connection: Any) -> CommitGuard | None:
    """Give the guard of what the pool lent. What it has not lent yet has none."""
    try:
        guard: CommitGuard | None = connection.info.get(MARK)
    except (AttributeError, NotImplementedError):
        return None
    return guard if guard is not None and guard.lent is connection else None


def present_guard(dialect: Dialect | None = None) -> CommitGuard | None:
    """Give the innermost guard of this context whose gate is not done, of any engine or of one."""
    guard = HANDLING.get()
    while guard is not None and (guard.is_over or dialect not in (None, guard.dialect)):
        guard = guard.outer
    return guard


def check_guard(guard: CommitGuard) -> None:
    if guard.fault is not None:
        raise ConfigError(guard.fault)
