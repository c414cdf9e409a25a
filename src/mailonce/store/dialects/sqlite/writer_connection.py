"""The writing connection of SQLite, which a handler can neither commit nor close."""

import sqlite3
from collections.abc import Iterator
from contextlib import contextmanager

from mailonce.store.dialects.handler_guard import HandlerGuard


class WriterConnection(sqlite3.Connection):
    """A connection that asks a guard, while there is one."""

    _guard: HandlerGuard | None = None

    @contextmanager
    def guarded(self) -> Iterator[HandlerGuard]:
        """Guard the transaction that is open; it is undone here where that is all that is left."""
        guard = self._guard = HandlerGuard()
        self.set_authorizer(self._authorize)
        try:
            yield guard
        finally:
            self._guard = None
            self.set_authorizer(None)
            if guard.is_broken:
                self.rollback()

    def close(self) -> None:
        if self._guard is not None:
            self._guard.refuse()
        super().close()

    def rollback(self) -> None:
        if self._guard is None:
            super().rollback()
        else:
            self._guard.wants_rollback = True

    def _authorize(self, action: int, *_: str | None) -> int:
        """Answer SQLite, which asks about each statement that it prepares, whoever sent it."""
        assert self._guard is not None, "SQLite asks while there is a guard"
        if action != sqlite3.SQLITE_TRANSACTION:
            return sqlite3.SQLITE_OK
        self._guard.has_refused = True
        return sqlite3.SQLITE_DENY
