"""The connection of a handler's thread on PostgreSQL, which the handler cannot commit."""

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import Any

from mailonce.core.transaction_text import ends_transaction
from mailonce.store.dialects.handler_guard import HandlerGuard
from mailonce.store.dialects.postgres.session import PostgresConnection

# What asyncpg itself sends.
ROLLBACK = "ROLLBACK;"


class HandlerConnection(PostgresConnection):
    """A connection that asks a guard, while there is one, about each text that it would send."""

    __slots__ = ("_guard", "is_spent")

    def __init__(self, protocol: Any, transport: Any, *more: Any) -> None:
        super().__init__(protocol, transport, *more)
        self._guard: HandlerGuard | None = None
        # What asyncpg believes of its transactions is not true any more.
        self.is_spent = False

    @asynccontextmanager
    async def guarded(self) -> AsyncIterator[HandlerGuard]:
        """Guard the transaction that is open; it is undone here where that is all that is left."""
        guard = self._guard = HandlerGuard()
        try:
            yield guard
        finally:
            self._guard = None
            if guard.is_broken:
                # After a commit that was refused, SQLAlchemy believes that there is none.
                await self.execute(ROLLBACK)
                self.is_spent = True

    async def execute(self, query: str, *args: Any, **named: Any) -> Any:
        if self._guard is not None and query == ROLLBACK:
            self._guard.wants_rollback = True
        else:
            self._check(query)
        return await super().execute(query, *args, **named)

    async def _get_statement(self, query: str, *args: Any, **named: Any) -> Any:
        # Whatever is not sent by `execute` is prepared first.
        self._check(query)
        return await super()._get_statement(query, *args, **named)

    def _check(self, query: str) -> None:
        if self._guard is not None and ends_transaction(query):
            self._guard.refuse()
