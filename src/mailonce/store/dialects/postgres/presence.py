"""A worker's presence: a connection that holds an advisory lock as long as the worker lives.

The kernel closes the connections of a process that was killed, and PostgreSQL then frees what
its session held: others see at once that the worker is gone. One that is paused keeps its
connection, so its leases count until they run out.

A pooler in transaction mode lends one session to many, and frees the lock when it likes. It also
makes up the process id of its sessions: where that is not the backend's, there is no presence, and
only time tells who is gone.
"""

from collections.abc import Callable
from hashlib import sha256
from typing import Any

import asyncpg

from mailonce.store.dialects.postgres.errors import unreachable
from mailonce.store.dialects.postgres.session import PostgresServer
from mailonce.store.dialects.postgres.url import CONNECT_TIMEOUT_S

PRESENCE_SESSION = {"application_name": "mailonce"}
# The first half of every such lock's name; any number that others do not use.
SESSION_LOCKS = 7_261_915


class PostgresPresence:
    """One connection that only holds the worker's lock."""

    def __init__(self, connection: Any, session: int) -> None:
        self._connection = connection
        self.session = session

    @classmethod
    async def open(
        cls, server: PostgresServer, owner: bytes, lost: Callable[[], None]
    ) -> "PostgresPresence | None":
        """Connect and take the lock; None behind a pooler.

        Raises: UnavailableError where the database cannot be reached.
        """
        if server.is_pooled:
            return None
        session = int.from_bytes(sha256(owner).digest()[:4], "big") >> 1
        try:
            connection = await server.connect(PRESENCE_SESSION, command_timeout=CONNECT_TIMEOUT_S)
            try:
                pid = await connection.fetchval("SELECT pg_backend_pid()")
                if pid != connection.get_server_pid():
                    connection.terminate()
                    return None
                await connection.execute("SELECT pg_advisory_lock($1, $2)", SESSION_LOCKS, session)
                connection.add_termination_listener(lambda _: lost())
            except BaseException:
                connection.terminate()
                raise
        except (OSError, TimeoutError, asyncpg.InterfaceError, asyncpg.PostgresError) as error:
            raise unreachable(error) from error
        return cls(connection, session)

    def is_closed(self) -> bool:
        return bool(self._connection.is_closed())

    async def close(self) -> None:
        """Hang up without waiting for an answer."""
        self._connection.terminate()
