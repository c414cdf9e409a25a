"""All open connections: how many there are, what they hold, and which have taken too long.

One look each second serves all of them: a timer per connection would cost every request more
than it costs to look. A connection that waits for its client may be closed at any time; where
there is no room, those that have waited longest make it.
"""

import asyncio
import errno
import gc
import os
from collections import Counter, deque
from collections.abc import Callable, Iterable
from dataclasses import dataclass
from ipaddress import IPv6Address, ip_address
from typing import Generic, Protocol, TypeVar

from mailonce.core.signatures.proof import is_within
from mailonce.loop import Loop
from mailonce.telemetry import DOOR_REFUSED, FILES_EXHAUSTED, DoorMetrics, log

LOOK_EVERY_S = 1.0
LOG_EVERY_S = 10.0
# Room is made for this many at once: looking for one costs as much.
ROOM_SHARE = 8
# Clients that send one small request at a time come first; the others share the rest of a turn.
WAITING_PER_TURN = 16
# Of those that were refused, so many may stay for a moment to read why.
LINGERING_MAX = 64
# Only a connection that was idle for this long makes room for others.
STALLED_S = 1.0
# Whoever has one address of version 6 has at least as many as share these bits.
NETWORK_BITS = 64


@dataclass(frozen=True, slots=True)
class DoorRefusal:
    """Why a door refuses a client: the protocol's code, a word for counting, a sentence."""

    code: int
    reason: str
    detail: str


@dataclass(frozen=True, slots=True, kw_only=True)
class CrowdRefusals:
    """What a door says where there are too many connections."""

    make_room: DoorRefusal
    connections: DoorRefusal
    address_connections: DoorRefusal


class CrowdLimits(Protocol):
    """What all clients of a door may take together; see the settings of the same names."""

    @property
    def connections_max(self) -> int: ...

    @property
    def address_connections_max(self) -> int: ...

    @property
    def held_bytes_max(self) -> int: ...

    @property
    def unread_bytes_max(self) -> int: ...


LimitsT = TypeVar("LimitsT", bound=CrowdLimits)


class ClientConnection(Protocol):
    """One connection, as `ClientConnections` sees it."""

    # The address that it counts for; None for a proxy of ours, which stands for many clients.
    address: str | None
    # Whether it came through the socket of this machine's own command line.
    is_local: bool

    @property
    def waiting_since(self) -> float:
        """When the client's turn began: with the last answer, or the first byte of a request."""

    @property
    def waits_for_client(self) -> bool:
        """Whether it is the client's turn: nothing is under way for it."""

    @property
    def half_read_bytes(self) -> int:
        """How many bytes are held of an incomplete request."""

    def look(self, now: float) -> None:
        """End what has taken too long."""

    def give_way(self, refusal: DoorRefusal) -> None:
        """Hang up at once, saying why where a request had begun."""


class ClientConnections(Generic[LimitsT]):
    """All connections of one door of a process, over all its sockets.

    `uncounted` are networks whose addresses have no limit of their own, such as those of proxies.
    """

    def __init__(
        self,
        limits: LimitsT,
        metrics: DoorMetrics,
        refusals: CrowdRefusals,
        uncounted: tuple[str, ...] = (),
    ) -> None:
        self.limits = limits
        self.held_bytes = 0
        # Answers that their clients have yet to read, those first that have waited longest.
        self._unread: dict[ClientConnection, int] = {}
        self._unread_bytes = 0
        self._leaves_garbage = False
        self._metrics = metrics
        self._refusals = refusals
        self._uncounted = uncounted
        self._open: set[ClientConnection] = set()
        self._leaving: set[ClientConnection] = set()
        self._by_address: Counter[str] = Counter()
        self._refused: Counter[str] = Counter()
        self._logged_at: dict[str, float] = {}
        # Where no room could be made, by address (None: in all); forgotten at the next look.
        self._full: set[str | None] = set()
        self._waiting: deque[Callable[[], None]] = deque()
        self._is_turn_planned = False
        self._looked_s = 0.0
        self._loop = Loop("connections", self._look, retry_s=LOOK_EVERY_S)

    def use(self, limits: LimitsT, uncounted: tuple[str, ...]) -> None:
        """Go by other limits; connections that are open keep those of their own."""
        self.limits, self._uncounted = limits, uncounted

    def start(self) -> None:
        """Begin to look at all connections each second."""
        self._looked_s = asyncio.get_running_loop().time()
        self._loop.start()

    async def stop(self) -> None:
        await self._loop.stop()

    def admit(self, connection: ClientConnection, now: float) -> DoorRefusal | None:
        """Register a new connection, or say why not."""
        address, most = connection.address, self.limits.connections_max
        is_full = len(self._open) >= most and not connection.is_local
        if is_full and not self._has_room(None, most, now):
            return self._refusals.connections
        if address is not None:
            most = self.limits.address_connections_max
            if self._by_address[address] >= most and not self._has_room(address, most, now):
                return self._refusals.address_connections
            self._by_address[address] += 1
        self._open.add(connection)
        return None

    def let_linger(self, connection: ClientConnection) -> bool:
        """Let one that was refused stay for a moment, if not too many do."""
        if len(self._leaving) >= LINGERING_MAX:
            return False
        self.remove(connection)
        self._leaving.add(connection)
        return True

    def remove(self, connection: ClientConnection) -> None:
        """Remove a connection; it may never have been registered."""
        self.release_unread(connection)
        self._leaving.discard(connection)
        if connection not in self._open:
            return
        self._open.discard(connection)
        if connection.address is not None:
            self._by_address[connection.address] -= 1
            if self._by_address[connection.address] <= 0:
                del self._by_address[connection.address]

    def counts_for(self, address: str) -> str | None:
        """Give the address that a connection counts for, or None where it has no limit."""
        return None if is_within(address, self._uncounted) else network_of(address)

    def hold(self, one: ClientConnection, count: int, now: float) -> bool:
        """Count bytes of incomplete or unanswered requests; say whether there is room."""
        self.held_bytes += count
        if self.held_bytes <= self.limits.held_bytes_max:
            return True
        slow = [
            other
            for other in self._open
            if other is not one and other.half_read_bytes and now - other.waiting_since > STALLED_S
        ]
        for other in sorted(slow, key=lambda it: it.half_read_bytes / (now - it.waiting_since)):
            other.give_way(self._refusals.make_room)
            if self.held_bytes <= self.limits.held_bytes_max:
                return True
        return False

    def release(self, count: int) -> None:
        """Count bytes that are held no longer."""
        self.held_bytes -= count

    def hold_unread(self, one: ClientConnection, count: int) -> None:
        """Count an answer that its client does not read yet; who has left one longest makes room.

        The last one is sent however large it is.
        """
        self.release_unread(one)
        self._unread[one] = count
        self._unread_bytes += count
        while self._unread_bytes > self.limits.unread_bytes_max and len(self._unread) > 1:
            slowest = next(iter(self._unread))
            self.release_unread(slowest)
            self._leaves_garbage = True
            slowest.give_way(self._refusals.make_room)

    def release_unread(self, one: ClientConnection) -> None:
        """Count an answer that was read, or is not sent any more."""
        self._unread_bytes -= self._unread.pop(one, 0)

    def wait_turn(self, read_on: Callable[[], None]) -> None:
        """Let pipelined or large requests wait until those of others in this turn were read."""
        self._waiting.append(read_on)
        self._plan_turn()

    def _plan_turn(self) -> None:
        # Once: who waits again during a turn must not get two in the next.
        if not self._is_turn_planned:
            self._is_turn_planned = True
            asyncio.get_running_loop().call_soon(self._take_turn)

    def _take_turn(self) -> None:
        try:
            for _ in range(min(len(self._waiting), WAITING_PER_TURN)):
                self._waiting.popleft()()
        finally:
            self._is_turn_planned = False
            if self._waiting:
                self._plan_turn()

    def count(self, refusal: DoorRefusal) -> None:
        """Count a client that was refused or disconnected."""
        self._metrics.refusals.labels(refusal.reason).inc()
        self._refused[refusal.reason] += 1

    def look(self, now: float) -> None:
        """Look at every connection once, and say in the log what was refused meanwhile."""
        self._full.clear()
        if self._leaves_garbage:
            # What answered them has cycles, which hold their answers until somebody looks.
            self._leaves_garbage = False
            gc.collect()
        for connection in [*self._open, *self._leaving]:
            connection.look(now)
        self._metrics.connections.set(len(self._open))
        self._metrics.held_bytes.set(self.held_bytes)
        if not _has_free_file():
            log.error(FILES_EXHAUSTED, connections=len(self._open))
            self._make_room(self._open, len(self._open), now)
        for reason, count in list(self._refused.items()):
            if now - self._logged_at.get(reason, -LOG_EVERY_S) >= LOG_EVERY_S:
                self._logged_at[reason] = now
                del self._refused[reason]
                log.warning(
                    DOOR_REFUSED,
                    door=self._metrics.door,
                    reason=reason,
                    count=count,
                    connections=len(self._open),
                )

    def _has_room(self, address: str | None, limit: int, now: float) -> bool:
        """Make room in all, or for an address; not for each new connection, since it is slow."""
        if address in self._full:
            return False
        among = self._open if address is None else [o for o in self._open if o.address == address]
        if not self._make_room(among, limit, now):
            self._full.add(address)
            return False
        return True

    def _make_room(self, among: Iterable[ClientConnection], limit: int, now: float) -> bool:
        """Close those that have waited longest for their clients, if any."""
        idle = [
            one
            for one in among
            if one.waits_for_client and not one.is_local and now - one.waiting_since > STALLED_S
        ]
        idle.sort(key=lambda one: one.waiting_since)
        room = idle[: max(1, limit // ROOM_SHARE)]
        for one in room:
            one.give_way(self._refusals.make_room)
        return bool(room)

    async def _look(self) -> float:
        now = asyncio.get_running_loop().time()
        stood_still, self._looked_s = now - self._looked_s > 2 * LOOK_EVERY_S, now
        # What clients sent while this process was paused is not read yet.
        if not stood_still:
            self.look(now)
        return LOOK_EVERY_S


def network_of(address: str) -> str:
    """Give what belongs to one client: an address, or of version 6 the network around it."""
    address = plain_address(address)
    try:
        host = ip_address(address)
    except ValueError:
        return address
    if not isinstance(host, IPv6Address):
        return address
    rest = 128 - NETWORK_BITS
    return f"{IPv6Address(int(host) >> rest << rest)}/{NETWORK_BITS}"


def plain_address(address: str) -> str:
    """Write an address of version 4 as such, also where a socket for both versions has it."""
    return address.removeprefix("::ffff:") if "." in address else address


def _has_free_file() -> bool:
    """Say whether this process may open one more file; a socket is one."""
    try:
        os.close(os.open(os.devnull, os.O_RDONLY))
    except OSError as error:
        return error.errno not in {errno.EMFILE, errno.ENFILE}
    return True
