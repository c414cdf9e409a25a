"""The connection that an engine's pool lent, when the gate ends its transaction.

A thread or task that the handler forgot may be inside it still.
"""

from threading import Lock
from typing import Any

from sqlalchemy import PoolProxiedConnection

STUCK_S = 2.0
Lent = PoolProxiedConnection | None


def is_used(lent: Lent) -> bool:
    """Say whether a statement of somebody else runs in the transaction, which is to be ended.

    The gate would wait for that one statement, and commit before the next.
    """
    if lent is None or not lent.is_valid:
        return False
    return any(lock is not None and lock.locked() for lock in _locks(lent))


def drop_if_used(lent: Lent, *, is_free: bool) -> None:
    """End a connection that a thread, task, stream or COPY is inside.

    A ROLLBACK would wait for it or fail beside it, and what it sends next would begin a transaction
    in the pool. Psycopg's must not be closed beneath it: a thread is given time to get out, and
    behind a task a ROLLBACK waits its turn.
    """
    if lent is None or not lent.is_valid:
        return
    around, inside = _locks(lent)
    if not is_free or (around is not None and around.locked()) or _is_left_open(lent):
        drop(lent)
    elif isinstance(inside, type(Lock())) and inside.locked():
        is_left = inside.acquire(timeout=STUCK_S)
        drop(lent)
        if is_left:
            inside.release()


def drop(lent: Lent) -> None:
    """End the connection of a session that cannot be closed: it is broken, or a task is inside.

    The pool would wait for it for ever, and its claim would hold the key.
    """
    if lent is not None and lent.is_valid:
        lent.invalidate()


def is_in_transaction(lent: PoolProxiedConnection) -> bool:
    """Say what the driver knows; asyncpg and SQLite tell it, psycopg refuses to begin by itself."""
    driver: Any = lent.driver_connection
    asks = getattr(driver, "is_in_transaction", None)
    return bool(asks() if asks is not None else getattr(driver, "in_transaction", False))


def _locks(lent: PoolProxiedConnection) -> tuple[Any, Any]:
    """Give the lock of SQLAlchemy around asyncpg, and that of psycopg, where there is one."""
    around = getattr(lent.dbapi_connection, "_execute_mutex", None)
    return around, getattr(lent.driver_connection, "lock", None)


def _is_left_open(lent: PoolProxiedConnection) -> bool:
    """Say whether asyncpg is in a transaction of which SQLAlchemy knows nothing.

    Nobody would end it, and every BEGIN in this connection would fail.
    """
    is_known = getattr(lent.dbapi_connection, "_transaction", lent) is not None
    return not is_known and is_in_transaction(lent)
