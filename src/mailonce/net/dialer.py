"""Connections to the outside: every name and address is judged before a byte leaves.

The guard judges the host, each address that its name resolved to just before a socket is made for
it, and the peer of the connection that came of it. What the operator named goes anywhere. There are
no proxies: whatever the environment says, the address that was judged is the one that is called.
"""

import asyncio
import ssl
import time
from collections.abc import Callable, Iterable, Mapping
from ipaddress import ip_address
from pathlib import Path
from typing import TypeVar, cast

from mailonce.errors import ConfigError, RefusedError
from mailonce.net import address_guard
from mailonce.net.names import Names, Resolver, SystemResolver
from mailonce.tls import client_context

# A name with many addresses that do not answer must not take the whole time.
ADDRESSES_MAX = 4
TLS_CLOSE_S = 1.0


class DialedConnection(asyncio.Protocol):
    """A connection whose peer can be judged."""

    _transport: asyncio.Transport | None = None

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        self._transport = cast("asyncio.Transport", transport)

    @property
    def peer(self) -> str:
        """The address at the other end.

        Raises: OSError where it hung up before it could be asked.
        """
        assert self._transport is not None, "the connection was not made"
        peer = self._transport.get_extra_info("peername")
        if peer is None:
            raise ConnectionResetError("it closed the connection at once")
        return str(peer[0])

    def abort(self) -> None:
        """Close at once, whatever is under way."""
        if self._transport is not None:
            self._transport.abort()


_C = TypeVar("_C", bound=DialedConnection)


class Dialer:
    """Makes connections to public addresses, and to what the operator named.

    `allow_hosts` may be anywhere. `hosts` sends calls for a host to an "ip:port" of ours, as
    curl's --connect-to does: the request and the certificate are still those of the host.
    `ca_file` adds a certificate authority to the system's.
    """

    def __init__(
        self,
        *,
        allow_hosts: Iterable[str],
        hosts: Mapping[str, str],
        ca_file: str | Path | None,
        resolver: Resolver | None,
    ) -> None:
        self._hosts: dict[str, tuple[str, int]] = {}
        self.allow_hosts: tuple[str, ...] = ()
        self.allow(allow_hosts=allow_hosts, hosts=hosts)
        self._ca_file = ca_file
        self._names = Names(resolver or SystemResolver(), monotonic=time.monotonic)

    def allow(self, *, allow_hosts: Iterable[str], hosts: Mapping[str, str]) -> None:
        """Dial these from now on, wherever they are.

        Raises: ConfigError where one of `hosts` leads nowhere; then all stays as it was.
        """
        self._hosts = {host.lower(): _address_of(address) for host, address in hosts.items()}
        self.allow_hosts = (*allow_hosts, *self._hosts)

    def tls(self) -> ssl.SSLContext:
        """Make a context that verifies the peer by the system's authorities and our own."""
        return client_context(self._ca_file)

    async def dial(
        self,
        target: address_guard.Target,
        make: Callable[[], _C],
        *,
        tls: ssl.SSLContext | None,
        timeout_s: float,
    ) -> _C:
        """Connect to the first address that lets us; a wrong certificate is the end of it.

        Raises: RefusedError where the guard forbids it, OSError or TimeoutError where nobody
        answers.
        """
        addresses = await self._addresses(target)
        last: Exception = OSError("no address")
        for place, (address, port) in enumerate(addresses):
            try:
                # What one address does not use of its time is left for the next ones.
                async with asyncio.timeout(timeout_s / (len(addresses) - place)):
                    return await self._connect(target, address, port, make, tls)
            except ssl.SSLCertVerificationError:
                raise
            except (OSError, TimeoutError) as error:
                last = error
        raise last

    def close(self) -> None:
        self._names.close()

    async def _addresses(self, target: address_guard.Target) -> list[tuple[str, int]]:
        mapped = self._hosts.get(target.host.rstrip(".")) if target.allowed else None
        if mapped is not None:
            return [mapped]
        literal = address_guard.literal_of(target.host)
        addresses = (str(literal),) if literal else await self._names.addresses(target.host)
        if not target.allowed:
            # One private address is enough to refuse the name.
            for address in addresses:
                _refuse_private(target.host, address)
        return [(address, target.port) for address in addresses[:ADDRESSES_MAX]]

    async def _connect(
        self,
        target: address_guard.Target,
        address: str,
        port: int,
        make: Callable[[], _C],
        tls: ssl.SSLContext | None,
    ) -> _C:
        if not target.allowed:
            _refuse_private(target.host, address)
        _, connection = await asyncio.get_running_loop().create_connection(
            make,
            address,
            port,
            ssl=tls,
            server_hostname=target.host if tls else None,
            ssl_shutdown_timeout=TLS_CLOSE_S if tls else None,
        )
        if not target.allowed:
            # Check the socket's own peer, before a byte of the request leaves.
            try:
                _refuse_private(target.host, connection.peer)
            except (RefusedError, OSError):
                connection.abort()
                raise
        return connection


def _refuse_private(host: str, address: str) -> None:
    fault = address_guard.fault_of(ip_address(address.partition("%")[0]))
    if fault is not None:
        raise address_guard.refusal(host, fault)


def check_hosts(hosts: Mapping[str, str]) -> None:
    """Check that each leads to an address and a port.

    Raises: ConfigError, in one sentence.
    """
    for address in hosts.values():
        _address_of(address)


def _address_of(text: str) -> tuple[str, int]:
    """Read "ip:port" or "[ip]:port" from the settings, where an error is raised at once."""
    host, _, port = text.rpartition(":")
    try:
        return str(ip_address(host.strip("[]"))), int(port)
    except ValueError as error:
        raise ConfigError(
            f"`net.hosts` has {text[:80]!r}; write it as 'ip:port', such as '127.0.0.1:8080'"
        ) from error
