"""Wake-ups between processes: LISTEN and NOTIFY on a connection of their own.

A commit that notifies takes a lock of the whole cluster, so no batch ever does; a wake-up is sent
after the commit, alone, and nobody relies on it.
"""

from collections.abc import Callable
from typing import Any

from mailonce.store.dialects.postgres.session import PostgresServer
from mailonce.store.dialects.postgres.url import CONNECT_TIMEOUT_S

CHANNEL = "mailonce_owed"
SIGNAL_SESSION = {"application_name": "mailonce"}


class PostgresSignal:
    """One connection that listens and notifies."""

    def __init__(self, connection: Any) -> None:
        self._connection = connection

    @classmethod
    async def open(cls, server: PostgresServer, receive: Callable[[str], None]) -> "PostgresSignal":
        """Connect and listen; a process's own notifications are skipped."""
        connection = await server.connect(SIGNAL_SESSION, command_timeout=CONNECT_TIMEOUT_S)
        own = connection.get_server_pid()

        def listener(_: Any, process: int, __: str, text: str) -> None:
            if process != own:
                receive(text)

        try:
            await connection.add_listener(CHANNEL, listener)
        except BaseException:
            connection.terminate()
            raise
        return cls(connection)

    async def send(self, text: str) -> None:
        await self._connection.execute("SELECT pg_notify($1, $2)", CHANNEL, text)

    def is_closed(self) -> bool:
        return bool(self._connection.is_closed())

    async def close(self) -> None:
        """Hang up without waiting for an answer."""
        self._connection.terminate()
