"""The guard: keeps a handler from ending the transaction that completes its delivery.

The completion is the first statement of that transaction. A handler that committed by itself would
make it true before the handler has done its work; what follows could fail, and nobody would try
again. So the driver of each database refuses whatever would begin or end a transaction while a
handler runs, by whatever call or text it is asked. A rollback is taken down and left to us, for
SQLAlchemy rolls back by itself where a flush fails. After either the transaction is as open as it
was, and can only be undone: that is done when the handler has ended, whether or not it swallows
what it was told.
"""

from collections.abc import Callable
from typing import Any, NoReturn, TypeVar

from sqlalchemy import Connection
from sqlalchemy.exc import InvalidRequestError

from mailonce.errors import ConfigError

T = TypeVar("T")

MISUSE = (
    "the handler began or ended its transaction, so nothing of it was kept; remove its begin, "
    "commit, rollback or close: mailonce commits what it wrote together with the delivery, and "
    "undoes it where it raises; put what may fail into `with tx.begin_nested():`"
)


class HandlerGuard:
    """What a handler did to its transaction, as its driver saw it."""

    def __init__(self) -> None:
        self.has_refused = False
        self.wants_rollback = False

    @property
    def is_broken(self) -> bool:
        return self.has_refused or self.wants_rollback

    def refuse(self, *_: Any, **__: Any) -> NoReturn:
        self.has_refused = True
        raise ConfigError(MISUSE)


def run_guarded(guard: HandlerGuard, work: Callable[[Connection], T], tx: Connection) -> T:
    """Run a handler's work on a connection whose driver asks the guard.

    Raises: ConfigError where the handler began or ended its transaction, unless it rolled back
    because of an error that it then raised: that one says more.
    """
    pooled = tx.connection
    # SQLAlchemy would advise to commit first.
    tx.begin = guard.refuse  # type: ignore[method-assign]
    try:
        result = work(tx)
    except Exception as error:
        # After a rollback or close SQLAlchemy itself refuses to go on.
        is_late = type(error) is InvalidRequestError or not pooled.is_valid
        if guard.has_refused or (guard.wants_rollback and is_late):
            # With the handler's own lines, which are what its author looks for.
            raise ConfigError(MISUSE).with_traceback(error.__traceback__) from error
        raise
    if guard.is_broken:
        raise ConfigError(MISUSE)
    return result
