"""A pool of idle connections, bounded for each origin and in all."""

import asyncio
from collections import deque
from collections.abc import Awaitable, Callable, Hashable

from mailonce.net.connection import OutgoingConnection

# More than a worker's attempts at once: an attempt that waits for a connection loses its time.
CONNECTIONS_MAX = 1_536
ORIGIN_CONNECTIONS_MAX = 512
# Many servers hang up after five idle seconds; a request on its way then would be lost.
IDLE_S = 4.0
SWEEP_S = 1.0


class ConnectionPool:
    """Lends connections, one request at a time.

    A connection that its server closed while idle is not lent. One that is closed at the very
    moment when a request is sent fails that request: whether the server took it cannot be known,
    so nothing is sent a second time here; the caller decides.
    """

    def __init__(self) -> None:
        # By origin, the latest used last: what is not needed grows old at the front.
        self._idle: dict[Hashable, deque[OutgoingConnection]] = {}
        self._origins: dict[OutgoingConnection, Hashable] = {}
        self._counts: dict[Hashable, int] = {}
        self._count = 0
        self._waiters: deque[asyncio.Future[None]] = deque()
        self._sweep: asyncio.TimerHandle | None = None

    def take(self, origin: Hashable) -> OutgoingConnection | None:
        """Lend an idle connection, if there is one."""
        idle = self._idle.get(origin)
        old_s = asyncio.get_running_loop().time() - IDLE_S
        while idle:
            connection = idle.pop()
            if connection.is_usable and connection.idle_since_s > old_s:
                return connection
            connection.close()
        return None

    async def make(
        self,
        origin: Hashable,
        connect: Callable[[Callable[[OutgoingConnection], None]], Awaitable[OutgoingConnection]],
    ) -> OutgoingConnection:
        """Lend a new connection, or one that falls free while we wait for room.

        `connect` is given what the connection must call when a request or it has ended.
        """
        while not self._has_room(origin):
            waiter = asyncio.get_running_loop().create_future()
            self._waiters.append(waiter)
            try:
                await waiter
            finally:
                if waiter in self._waiters:
                    self._waiters.remove(waiter)
            connection = self.take(origin)
            if connection is not None:
                return connection
        self._add(origin, 1)
        try:
            connection = await connect(self._ended)
        except BaseException:
            self._add(origin, -1)
            raise
        if connection.is_closed:
            self._add(origin, -1)
        else:
            self._origins[connection] = origin
        return connection

    def close(self) -> None:
        """Close what is idle, and let the rest end."""
        for connection in [one for idle in self._idle.values() for one in idle]:
            connection.close()
        if self._sweep is not None:
            self._sweep.cancel()
            self._sweep = None

    def __len__(self) -> int:
        """Say how many connections are open or being opened."""
        return self._count

    def _has_room(self, origin: Hashable) -> bool:
        if self._counts.get(origin, 0) >= ORIGIN_CONNECTIONS_MAX:
            return False
        if self._count < CONNECTIONS_MAX:
            return True
        for idle in self._idle.values():
            if idle:
                connection = idle.popleft()
                self._forget(connection)
                connection.close()
                return True
        return False

    def _ended(self, connection: OutgoingConnection) -> None:
        """Take a connection back, or forget it."""
        if connection.is_closed:
            self._forget(connection)
            return
        origin = self._origins.get(connection)
        if origin is None:
            connection.close()
            return
        loop = asyncio.get_running_loop()
        connection.idle_since_s = loop.time()
        idle = self._idle.get(origin)
        if idle is None:
            idle = self._idle[origin] = deque()
        idle.append(connection)
        if self._sweep is None:
            self._sweep = loop.call_later(SWEEP_S, self._close_old)
        self._wake()

    def _forget(self, connection: OutgoingConnection) -> None:
        origin = self._origins.pop(connection, None)
        if origin is not None:
            self._add(origin, -1)

    def _add(self, origin: Hashable, number: int) -> None:
        self._count += number
        left = self._counts.get(origin, 0) + number
        if left:
            self._counts[origin] = left
        else:
            del self._counts[origin]
        if number < 0:
            self._wake()

    def _wake(self) -> None:
        while self._waiters:
            waiter = self._waiters.popleft()
            if not waiter.done():
                waiter.set_result(None)

    def _close_old(self) -> None:
        loop = asyncio.get_running_loop()
        self._sweep = None
        old_s = loop.time() - IDLE_S
        for origin, idle in list(self._idle.items()):
            while idle and (idle[0].is_closed or idle[0].idle_since_s <= old_s):
                idle.popleft().close()
            if not idle:
                del self._idle[origin]
        if self._idle:
            self._sweep = loop.call_later(SWEEP_S, self._close_old)
