"""The HTTP client for every outgoing call: guarded, bounded, without redirects.

A small HTTP/1.1 client of our own on the parser that also reads at the door (httptools): a POST
costs a fifth of what a general client takes, and every bound is ours to set. It knows what a
webhook needs: keep-alive, TLS with verification, answers that are chunked, counted or last until
the connection ends, and interim ones. It knows no redirects, proxies, cookies or compression.

The guard judges the URL, each address that its name resolved to just before a socket is made for
it, and the peer of the connection that came of it. What the operator named goes anywhere.

A POST is written once. Where the connection ends without an answer, also one that was kept from an
earlier request, nobody knows whether the receiver took it: the caller hears UnavailableError, and a
delivery is then tried again by its schedule, as a counted attempt under the same key. A GET, which
changes nothing, is asked once more on a new connection.
"""

import asyncio
import re
import ssl
import time
from collections.abc import AsyncIterator, Callable, Iterable, Mapping
from dataclasses import dataclass
from functools import lru_cache
from ipaddress import ip_address
from pathlib import Path
from types import MappingProxyType, TracebackType
from typing import NamedTuple, Self
from urllib.parse import urlsplit

from mailonce.errors import RefusedError, SizeError, UnavailableError
from mailonce.net import address_guard
from mailonce.net.connection import BrokenError, OutgoingConnection, RawResponse
from mailonce.net.names import Names, Resolver, SystemResolver
from mailonce.net.pool import ConnectionPool

USER_AGENT = "mailonce"
URLS_KEPT = 4_096
# A name with many addresses that do not answer must not take the whole time.
ADDRESSES_MAX = 4
TLS_CLOSE_S = 1.0

_NOTHING: Mapping[str, str] = MappingProxyType({})
# Headers of every request, unless it has its own.
_OURS = {"user-agent": USER_AGENT, "accept": "*/*", "accept-encoding": "identity"}
# Headers that frame a request, which callers may not set.
_FRAMING = frozenset({"connection", "keep-alive", "te", "trailer", "transfer-encoding", "upgrade"})
_NAMES = re.compile(r"[!#$%&'*+.^_`|~0-9A-Za-z-]+")
_VALUES = re.compile(r"[^\x00\r\n]*")


@dataclass(frozen=True, slots=True)
class EndpointResponse:
    """What an endpoint answered. `headers` have lower-case names."""

    status: int
    headers: Mapping[str, str]
    body: bytes


class _Place(NamedTuple):
    """A URL that was judged, and how a request names it."""

    target: address_guard.Target
    path: str
    host: str


class GuardedClient:
    """Calls public addresses, and what the operator named.

    `allow_hosts` may be anywhere. `hosts` sends calls for a host to an "ip:port" of ours, as
    curl's --connect-to does: the request and the certificate are still those of the host.
    `ca_file` adds a certificate authority to the system's.
    """

    def __init__(
        self,
        *,
        allow_hosts: Iterable[str] = (),
        hosts: Mapping[str, str] = _NOTHING,
        ca_file: str | Path | None = None,
        resolver: Resolver | None = None,
    ) -> None:
        self._hosts = {host.lower(): _address_of(address) for host, address in hosts.items()}
        self._allow_hosts = (*allow_hosts, *self._hosts)
        self._tls = ssl.create_default_context()
        if ca_file is not None:
            self._tls.load_verify_locations(cafile=ca_file)
        self._tls.set_alpn_protocols(["http/1.1"])
        self._names = Names(resolver or SystemResolver(), monotonic=time.monotonic)
        self._pool = ConnectionPool()
        # An endpoint is called thousands of times a second; its URL says the same each time.
        self._judge = lru_cache(URLS_KEPT)(self._judged)

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(self, *_: object) -> None:
        await self.close()

    async def close(self) -> None:
        """Close all connections; the client may be used again and then opens new ones."""
        self._pool.close()
        self._names.close()
        # Closing takes a turn of the loop.
        await asyncio.sleep(0)

    def check(self, url: str) -> None:
        """See whether a URL may be called, as far as can be told without asking a resolver.

        Raises: RefusedError, with the reason and the way out.
        """
        address_guard.check_url(url, self._allow_hosts)

    async def get(self, url: str, *, bytes_max: int, timeout_s: float) -> EndpointResponse:
        """Fetch a URL whole.

        Raises: RefusedError where the guard forbids it, SizeError above `bytes_max`,
        UnavailableError where nobody answered in time.
        """
        place = self._judge(url)
        request = _request_of("GET", place, b"", _NOTHING)
        async with _Errors(place.target, timeout_s):
            try:
                reply = await self._ask(place, request, bytes_max, timeout_s)
            except BrokenError:
                reply = await self._ask(place, request, bytes_max, timeout_s, anew=True)
            if len(reply.body) > bytes_max:
                raise SizeError(f"{place.target.host} answered with more than {bytes_max} bytes")
            if not reply.is_whole:
                raise BrokenError("the answer breaks off")
        return _answer_of(reply, bytes_max)

    async def post(
        self,
        url: str,
        body: bytes | AsyncIterator[bytes],
        headers: Mapping[str, str] = _NOTHING,
        *,
        bytes_max: int,
        timeout_s: float,
    ) -> EndpointResponse:
        """Post a body, whole or in pieces; of the answer's no more than `bytes_max` are read.

        An endpoint whose answer is long, breaks off or does not end in time has answered all the
        same, so that is no error. A body in pieces needs a Content-Length among the headers.

        Raises: RefusedError where the guard forbids it, UnavailableError where nobody answered.
        """
        place = self._judge(url)
        request = _request_of("POST", place, body if isinstance(body, bytes) else None, headers)
        pieces = None if isinstance(body, bytes) else body
        async with _Errors(place.target, timeout_s):
            reply = await self._ask(place, request, bytes_max, timeout_s, pieces=pieces)
        return _answer_of(reply, bytes_max)

    async def _ask(
        self,
        place: _Place,
        request: bytes,
        bytes_max: int,
        timeout_s: float,
        *,
        pieces: AsyncIterator[bytes] | None = None,
        anew: bool = False,
    ) -> RawResponse:
        target = place.target
        origin = (target.scheme, target.host, target.port, target.allowed)
        connection = None if anew else self._pool.take(origin)
        if connection is None:
            until_s = time.monotonic() + timeout_s
            async with asyncio.timeout(timeout_s):
                connection = await self._pool.make(
                    origin, lambda ended: self._connect(target, ended, timeout_s=timeout_s)
                )
            timeout_s = until_s - time.monotonic()
        try:
            if pieces is None:
                return await connection.ask(request, bytes_max=bytes_max, timeout_s=timeout_s)
            reply = connection.ask(request, bytes_max=bytes_max, timeout_s=timeout_s, is_sent=False)
            return await _send_pieces(connection, pieces, reply)
        except BaseException:
            # The caller has gone, or the body in pieces broke off.
            connection.abort()
            raise

    async def _connect(
        self,
        target: address_guard.Target,
        ended: Callable[[OutgoingConnection], None],
        *,
        timeout_s: float,
    ) -> OutgoingConnection:
        """Connect to the first address that lets us; a wrong certificate is the end of it."""
        addresses = await self._addresses(target)
        last: Exception = OSError("no address")
        for place, (address, port) in enumerate(addresses):
            try:
                # What one address does not use of its time is left for the next ones.
                async with asyncio.timeout(timeout_s / (len(addresses) - place)):
                    return await self._dial(target, address, port, ended)
            except ssl.SSLCertVerificationError:
                raise
            except (OSError, TimeoutError) as error:
                last = error
        raise last

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

    async def _dial(
        self,
        target: address_guard.Target,
        address: str,
        port: int,
        ended: Callable[[OutgoingConnection], None],
    ) -> OutgoingConnection:
        if not target.allowed:
            _refuse_private(target.host, address)
        loop = asyncio.get_running_loop()
        is_tls = target.scheme == "https"
        _, connection = await loop.create_connection(
            lambda: OutgoingConnection(loop, ended),
            address,
            port,
            ssl=self._tls if is_tls else None,
            server_hostname=target.host if is_tls else None,
            ssl_shutdown_timeout=TLS_CLOSE_S if is_tls else None,
        )
        if not target.allowed:
            # Check the socket's own peer, before a byte of the request leaves.
            try:
                _refuse_private(target.host, connection.peer)
            except (RefusedError, OSError):
                connection.abort()
                raise
        return connection

    def _judged(self, url: str) -> _Place:
        target = address_guard.check_url(url, self._allow_hosts)
        parts = urlsplit(target.url)
        path = (parts.path or "/") + (f"?{parts.query}" if parts.query else "")
        host = f"[{target.host}]" if ":" in target.host else target.host
        if target.port != address_guard.PORTS[target.scheme]:
            host = f"{host}:{target.port}"
        return _Place(target, path, host)


class _Errors:
    """Turns what goes wrong inside into our own errors, with the host's name."""

    __slots__ = ("_target", "_timeout_s")

    def __init__(self, target: address_guard.Target, timeout_s: float) -> None:
        self._target = target
        self._timeout_s = timeout_s

    async def __aenter__(self) -> None:
        return None

    async def __aexit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        host = self._target.host
        match error:
            case TimeoutError():
                raise UnavailableError(f"{host} did not answer in {self._timeout_s:g} s") from error
            case BrokenError():
                raise UnavailableError(f"{host} could not be asked: {error}") from error
            case ssl.SSLCertVerificationError():
                reason = f"its certificate is not valid ({error.verify_message})"
                raise UnavailableError(f"{host} could not be asked: {reason}") from error
            case OSError():
                name = type(error).__name__
                raise UnavailableError(f"{host} could not be asked: {name}") from error


async def _send_pieces(
    connection: OutgoingConnection,
    pieces: AsyncIterator[bytes],
    reply: "asyncio.Future[RawResponse]",
) -> RawResponse:
    async for piece in pieces:
        if not await connection.send(piece):
            return await reply
    await connection.send(b"", is_last=True)
    return await reply


def _request_of(
    method: str, place: _Place, body: bytes | None, headers: Mapping[str, str]
) -> bytes:
    """Write a request; without a body yet, its length must stand in the headers."""
    given = {name.lower(): value for name, value in headers.items()}
    if (
        not _NAMES.fullmatch("".join(given) or "-")
        or not _VALUES.fullmatch("".join(given.values()))
        or not _FRAMING.isdisjoint(given)
        or "" in given
    ):
        raise RefusedError("a header cannot be written into a request")
    lines_by_name = {"host": place.host, **_OURS, **given}
    if body is not None:
        lines_by_name["content-length"] = str(len(body))
    assert "content-length" in lines_by_name, "a body in pieces needs its length"
    lines = [f"{method} {place.path} HTTP/1.1"]
    lines += [f"{name}: {value}" for name, value in lines_by_name.items()]
    return "\r\n".join(lines).encode() + b"\r\n\r\n" + (body or b"")


def _answer_of(reply: RawResponse, bytes_max: int) -> EndpointResponse:
    headers = {
        name.decode("latin-1").lower(): value.decode("latin-1") for name, value in reply.headers
    }
    return EndpointResponse(reply.status, headers, reply.body[:bytes_max])


def _refuse_private(host: str, address: str) -> None:
    fault = address_guard.fault_of(ip_address(address.partition("%")[0]))
    if fault is not None:
        raise address_guard.refusal(host, fault)


def _address_of(text: str) -> tuple[str, int]:
    """Read "ip:port" or "[ip]:port" from the settings, where an error is raised at once."""
    host, _, port = text.rpartition(":")
    return str(ip_address(host.strip("[]"))), int(port)
