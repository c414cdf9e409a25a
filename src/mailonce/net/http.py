"""The HTTP client for every outgoing call: guarded, bounded, without redirects.

A small HTTP/1.1 client of our own on the parser that also reads at the door (httptools): a POST
costs a fifth of what a general client takes, and every bound is ours to set. It knows what a
webhook needs: keep-alive, TLS with verification, answers that are chunked, counted or last until
the connection ends, and interim ones. It knows no redirects, proxies, cookies or compression.

The guard judges the URL; names and addresses are judged as they are dialed (`dialer.py`).

A POST is written once. Where the connection ends without an answer, also one that was kept from an
earlier request, nobody knows whether the receiver took it: the caller gets UnavailableError, and a
delivery is then tried again by its schedule, as a counted attempt under the same key. A GET, which
changes nothing, is sent once more on a new connection.
"""

import asyncio
import re
import ssl
import time
from collections.abc import AsyncIterator, Awaitable, Callable, Iterable, Mapping, Sequence
from functools import cached_property, lru_cache
from pathlib import Path
from types import MappingProxyType
from typing import NamedTuple, Self
from urllib.parse import urlsplit

from mailonce.errors import RefusedError, SizeError, UnavailableError
from mailonce.net import address_guard
from mailonce.net.connection import OutgoingConnection
from mailonce.net.dialer import Dialer
from mailonce.net.names import Resolver
from mailonce.net.pool import ConnectionPool
from mailonce.net.response import BrokenError, EndpointResponse

USER_AGENT = "mailonce"
URLS_KEPT = 4_096
# How requests to a URL begin: one form for each set of header names.
HEADS_KEPT = 16
UNWRITABLE = "a header cannot be written into a request"
TOO_LATE = "the process stood still before the first byte; nothing was sent"

_NOTHING: Mapping[str, str] = MappingProxyType({})
# Headers of every request, unless it has its own.
_OURS = {"user-agent": USER_AGENT, "accept": "*/*", "accept-encoding": "identity"}
# Headers that frame a request, which callers may not set.
_FRAMING = frozenset({"connection", "keep-alive", "te", "trailer", "transfer-encoding", "upgrade"})
_NAME = re.compile(r"[!#$%&'*+.^_`|~0-9A-Za-z-]+")
# What goes wrong inside, and is said with the host's name.
_FAILURES = (TimeoutError, BrokenError, OSError)


class NotCalledError(UnavailableError):
    """Nobody could be reached: not a byte of the request has left."""

    code = "not_called"


class _Place(NamedTuple):
    """A URL that was judged, and how a request names it."""

    target: address_guard.Target
    # Whose connections serve it.
    origin: tuple[str, str, int, bool]
    path: str
    host: str
    # By method and names of headers, how a request begins; values are put in.
    heads: dict[tuple[str, ...], str]


class GuardedClient:
    """Calls public addresses, and what the operator named; `Dialer` says what the settings mean."""

    def __init__(
        self,
        *,
        allow_hosts: Iterable[str] = (),
        hosts: Mapping[str, str] = _NOTHING,
        ca_file: str | Path | None = None,
        resolver: Resolver | None = None,
    ) -> None:
        self.dialer = Dialer(
            allow_hosts=allow_hosts, hosts=hosts, ca_file=ca_file, resolver=resolver
        )
        self._pool = ConnectionPool()
        # An endpoint is called thousands of times a second; its URL says the same each time.
        self._judge = lru_cache(URLS_KEPT)(self._judged)
        if ca_file is not None:
            # A file that cannot be read stops the start, not the first delivery.
            _ = self._tls

    @cached_property
    def _tls(self) -> ssl.SSLContext:
        """Made when it is first needed: loading the authorities takes a while."""
        context = self.dialer.tls()
        context.set_alpn_protocols(["http/1.1"])
        return context

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(self, *_: object) -> None:
        await self.close()

    async def close(self) -> None:
        """Close all connections; the client may be used again and then opens new ones."""
        self._pool.close()
        self.dialer.close()
        # Closing takes a turn of the loop.
        await asyncio.sleep(0)

    def check(self, url: str, allow_hosts: Iterable[str] | None = None) -> None:
        """See whether a URL may be called, as far as can be told without asking a resolver.

        `allow_hosts` stands in for those that are allowed now.
        Raises: RefusedError, with the reason and the way out.
        """
        allowed = self.dialer.allow_hosts if allow_hosts is None else allow_hosts
        address_guard.check_url(url, allowed)

    def allow(self, *, allow_hosts: Iterable[str], hosts: Mapping[str, str]) -> None:
        """Allow other hosts from now on; connections that are kept to others end."""
        self.dialer.allow(allow_hosts=allow_hosts, hosts=hosts)
        self._judge.cache_clear()
        self._pool.close()

    async def get(
        self,
        url: str,
        headers: Mapping[str, str] = _NOTHING,
        *,
        bytes_max: int,
        timeout_s: float,
    ) -> EndpointResponse:
        """Fetch a URL whole.

        Raises: RefusedError where the guard forbids it, SizeError above `bytes_max`,
        UnavailableError where nobody answered in time.
        """
        place = self._judge(url)
        request = _request_of("GET", place, b"", headers)
        # One more than is wanted shows that there is more.
        most = bytes_max + 1
        try:
            try:
                answer = await self._ask(place, request, None, most, timeout_s)
            except BrokenError:
                answer = await self._ask(place, request, None, most, timeout_s, anew=True)
            if len(answer.body) > bytes_max:
                raise SizeError(f"{place.target.host} answered with more than {bytes_max} bytes")
            if not answer.is_whole:
                raise BrokenError("the answer breaks off")
        except _FAILURES as error:
            raise _unavailable(place.target, timeout_s, error) from error
        return answer

    async def fetch_status(self, url: str) -> int:
        """Fetch a URL for nothing but its status. Raises what `get` does."""
        return (await self.get(url, bytes_max=65_536, timeout_s=5)).status

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
        whole, pieces = _whole_or_pieces(body)
        request = _request_of("POST", place, whole, headers)
        try:
            return await self._ask(place, request, pieces, bytes_max, timeout_s)
        except _FAILURES as error:
            raise _unavailable(place.target, timeout_s, error) from error

    async def call(
        self,
        method: str,
        url: str,
        body: bytes | AsyncIterator[bytes],
        headers: Mapping[str, str],
        *,
        bytes_max: int,
        connect_timeout_s: float,
        timeout_s: float,
        may_begin: Callable[[], bool] = lambda: True,
    ) -> EndpointResponse:
        """Make a call once, on a connection of its own that nobody has used before.

        So it is always known whether a byte of it has left. `timeout_s` begins with that byte, and
        right before it `may_begin` is asked. A body in pieces is as in `post`.

        Raises: RefusedError where the guard forbids it, NotCalledError where nobody could be
        reached, UnavailableError where it was sent, or a part of it, and nobody answered.
        """
        place = self._judge(url)
        whole, pieces = _whole_or_pieces(body)
        request = _request_of(method, place, whole, headers, ends="close")
        try:
            async with asyncio.timeout(connect_timeout_s):
                connection = await self._connect(
                    place.target, lambda _: None, timeout_s=connect_timeout_s
                )
        except UnavailableError as error:
            raise NotCalledError(str(error)) from error
        except _FAILURES as error:
            failure = _unavailable(place.target, connect_timeout_s, error)
            raise NotCalledError(str(failure)) from error
        if not connection.is_usable:
            raise NotCalledError(f"{place.target.host} closed the connection at once")
        if not may_begin():
            connection.abort()
            raise NotCalledError(TOO_LATE)
        try:
            answer = await _exchange(connection, request, pieces, bytes_max, timeout_s)
        except _FAILURES as error:
            connection.abort()
            raise _unavailable(place.target, timeout_s, error) from error
        except BaseException:
            connection.abort()
            raise
        connection.close()
        return answer

    async def _ask(
        self,
        place: _Place,
        request: bytes,
        pieces: AsyncIterator[bytes] | None,
        bytes_max: int,
        timeout_s: float,
        *,
        anew: bool = False,
    ) -> EndpointResponse:
        connection = None if anew else self._pool.take(place.origin)
        if connection is None:
            target, until_s = place.target, time.monotonic() + timeout_s
            async with asyncio.timeout(timeout_s):
                connection = await self._pool.make(
                    place.origin, lambda ended: self._connect(target, ended, timeout_s=timeout_s)
                )
            timeout_s = until_s - time.monotonic()
        try:
            return await _exchange(connection, request, pieces, bytes_max, timeout_s)
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
        loop = asyncio.get_running_loop()
        return await self.dialer.dial(
            target,
            lambda: OutgoingConnection(loop, ended),
            tls=self._tls if target.scheme == "https" else None,
            timeout_s=timeout_s,
        )

    def _judged(self, url: str) -> _Place:
        target = address_guard.check_url(url, self.dialer.allow_hosts)
        parts = urlsplit(target.url)
        path = (parts.path or "/") + (f"?{parts.query}" if parts.query else "")
        host = f"[{target.host}]" if ":" in target.host else target.host
        if target.port != address_guard.PORTS[target.scheme]:
            host = f"{host}:{target.port}"
        origin = (target.scheme, target.host, target.port, target.allowed)
        return _Place(target, origin, path, host, {})


def _unavailable(
    target: address_guard.Target, timeout_s: float, error: Exception
) -> UnavailableError:
    """Say what went wrong, with the host's name."""
    host = target.host
    match error:
        case TimeoutError():
            return UnavailableError(f"{host} did not answer in {timeout_s:g} s")
        case BrokenError():
            reason = str(error)
        case ssl.SSLCertVerificationError():
            reason = f"its certificate is not valid ({error.verify_message})"
        case _:
            reason = type(error).__name__
    return UnavailableError(f"{host} could not be reached: {reason}")


def _whole_or_pieces(
    body: bytes | AsyncIterator[bytes],
) -> tuple[bytes | None, AsyncIterator[bytes] | None]:
    return (body, None) if isinstance(body, bytes) else (None, body)


def _exchange(
    connection: OutgoingConnection,
    request: bytes,
    pieces: AsyncIterator[bytes] | None,
    bytes_max: int,
    timeout_s: float,
) -> Awaitable[EndpointResponse]:
    if pieces is None:
        return connection.ask(request, bytes_max=bytes_max, timeout_s=timeout_s)
    reply = connection.ask(request, bytes_max=bytes_max, timeout_s=timeout_s, is_sent=False)
    return _send_pieces(connection, pieces, reply)


async def _send_pieces(
    connection: OutgoingConnection,
    pieces: AsyncIterator[bytes],
    reply: "asyncio.Future[EndpointResponse]",
) -> EndpointResponse:
    async for piece in pieces:
        if not await connection.send(piece):
            return await reply
    await connection.send(b"", is_last=True)
    return await reply


def _request_of(
    method: str, place: _Place, body: bytes | None, headers: Mapping[str, str], *, ends: str = ""
) -> bytes:
    """Write a request; without a body yet, its length must stand in the headers.

    `ends` is what its Connection header says, if it has one.
    """
    form = (method, ends, "" if body is None else "content-length", *headers)
    head = place.heads.get(form)
    if head is None:
        given = {name.lower(): value for name, value in headers.items()}
        if body is not None:
            given.pop("content-length", None)
        if len(given) < len(headers):
            return _request_of(method, place, body, given, ends=ends)
        if len(place.heads) >= HEADS_KEPT:
            place.heads.clear()
        head = place.heads[form] = _head_of(method, place, body, [*given], ends=ends)
    values = "".join(headers.values())
    if "\r" in values or "\n" in values or "\0" in values:
        raise RefusedError(UNWRITABLE)
    if body is None:
        return (head % (*headers.values(),)).encode()
    return (head % (*headers.values(), len(body))).encode() + body


def _head_of(
    method: str, place: _Place, body: bytes | None, names: Sequence[str], *, ends: str
) -> str:
    """Give all that stands before the body, with places for the values of the headers `names`.

    The last place is for the length of a body.
    """
    if not all(_NAME.fullmatch(name) for name in names) or not _FRAMING.isdisjoint(names):
        raise RefusedError(UNWRITABLE)
    assert body is not None or "content-length" in names, "a body in pieces needs its length"
    ours = {"host": place.host, **_OURS, "connection": ends}
    lines = [f"{method} {place.path} HTTP/1.1"]
    lines += [f"{name}: {value}" for name, value in ours.items() if value and name not in names]
    places = [f"{name}: ".replace("%", "%%") + "%s" for name in names]
    if body is not None:
        places.append("content-length: %d")
    return "\r\n".join([line.replace("%", "%%") for line in lines] + places) + "\r\n\r\n"
