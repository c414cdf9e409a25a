"""The HTTP client for every outgoing call: guarded, bounded, following nobody's redirects.

There are two pools of connections. What the operator named goes through the open one; everything
else through the guarded one, which refuses to make a socket for an address that is not public.
aiohttp's resolver hook alone would not do: it is not asked about addresses in the URL.
"""

import socket
import ssl
from collections.abc import AsyncIterator, Iterable, Mapping
from dataclasses import dataclass
from functools import lru_cache
from ipaddress import ip_address
from pathlib import Path
from types import MappingProxyType, TracebackType
from typing import Any, Self

import aiohttp
from aiohttp.abc import AbstractResolver, ResolveResult
from yarl import URL

from mailonce.errors import RefusedError, SizeError, UnavailableError
from mailonce.net import guard

USER_AGENT = "mailonce"
# More than a worker's attempts at once: whoever waits for a connection loses time of its own.
CONNECTIONS_MAX = 1_024
URLS_KEPT = 4_096
# Many servers hang up after five idle seconds; a request on its way then would be lost.
IDLE_S = 4
DNS_KEEP_S = 10
CHUNK_BYTES = 64 * 1024

_NOTHING: Mapping[str, str] = MappingProxyType({})


@dataclass(frozen=True, slots=True)
class Answer:
    """What an endpoint answered. `headers` have lower-case names."""

    status: int
    headers: Mapping[str, str]
    body: bytes


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
        resolver: AbstractResolver | None = None,
    ) -> None:
        self._hosts = {host.lower(): _address_of(address) for host, address in hosts.items()}
        self._allow_hosts = (*allow_hosts, *self._hosts)
        self._tls = ssl.create_default_context()
        if ca_file is not None:
            self._tls.load_verify_locations(cafile=ca_file)
        self._resolver = resolver
        self._sessions: dict[bool, aiohttp.ClientSession] = {}
        # An endpoint is called thousands of times a second; its URL says the same each time.
        self._judge = lru_cache(URLS_KEPT)(self._judged)

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        await self.close()

    async def close(self) -> None:
        """Close all connections; the client may be used again and then opens new ones."""
        sessions, self._sessions = list(self._sessions.values()), {}
        for session in sessions:
            await session.close()

    def check(self, url: str) -> None:
        """See whether a URL may be called, as far as can be told without asking a resolver.

        Raises: RefusedError, with the reason and the way out.
        """
        guard.check_url(url, self._allow_hosts)

    async def get(self, url: str, *, bytes_max: int, timeout_s: float) -> Answer:
        """Fetch a URL whole.

        Raises: RefusedError where the guard forbids it, SizeError above `bytes_max`,
        UnavailableError where nobody answered in time.
        """
        return await self._call("GET", url, bytes_max, timeout_s, whole=True)

    async def post(
        self,
        url: str,
        body: bytes | AsyncIterator[bytes],
        headers: Mapping[str, str] = _NOTHING,
        *,
        bytes_max: int,
        timeout_s: float,
    ) -> Answer:
        """Post a body, whole or in pieces; of the answer's no more than `bytes_max` are read.

        An endpoint that answers at length has answered all the same, so that is no error.

        Raises: RefusedError where the guard forbids it, UnavailableError where nobody answered.
        """
        return await self._call("POST", url, bytes_max, timeout_s, body=body, headers=headers)

    async def _call(
        self,
        method: str,
        url: str,
        bytes_max: int,
        timeout_s: float,
        *,
        whole: bool = False,
        body: bytes | AsyncIterator[bytes] | None = None,
        headers: Mapping[str, str] = _NOTHING,
    ) -> Answer:
        target, judged = self._judge(url)
        try:
            async with self._session(allowed=target.allowed).request(
                method,
                judged,
                data=body,
                headers=headers,
                allow_redirects=False,
                timeout=_timeout(timeout_s),
            ) as response:
                said = await _read(response, bytes_max)
                if whole and len(said) > bytes_max:
                    raise SizeError(f"{target.host} answered with more than {bytes_max} bytes")
                lowered = {name.lower(): value for name, value in response.headers.items()}
                return Answer(response.status, lowered, said[:bytes_max])
        except TimeoutError as error:
            raise UnavailableError(f"{target.host} did not answer in {timeout_s:g} s") from error
        except aiohttp.InvalidURL as error:
            raise RefusedError("the URL cannot be written into a request") from error
        except (aiohttp.ClientError, OSError) as error:
            blocked = _blocked(error)
            if blocked is not None:
                raise guard.refusal(target.host, blocked.fault) from error
            kind = type(error).__name__
            raise UnavailableError(f"{target.host} could not be asked: {kind}") from error
        except ValueError as error:
            # After the errors above: that of a wrong certificate is a ValueError as well.
            raise RefusedError("a header cannot be written into a request") from error

    def _judged(self, url: str) -> tuple[guard.Target, URL]:
        target = guard.check_url(url, self._allow_hosts)
        try:
            return target, _url_of(target)
        except ValueError as error:
            raise RefusedError("the URL cannot be written into a request") from error

    def _session(self, *, allowed: bool) -> aiohttp.ClientSession:
        """Give the pool for such targets, made when it is first needed, inside the loop."""
        session = self._sessions.get(allowed)
        if session is None:
            names = self._resolver or aiohttp.ThreadedResolver()
            resolver = _Mapped(names, self._hosts) if allowed else _Public(names)
            session = self._sessions[allowed] = aiohttp.ClientSession(
                connector=aiohttp.TCPConnector(
                    ssl=self._tls,
                    resolver=resolver,
                    socket_factory=None if allowed else _public_socket,
                    limit=CONNECTIONS_MAX,
                    keepalive_timeout=IDLE_S,
                    ttl_dns_cache=DNS_KEEP_S,
                ),
                auto_decompress=False,
                cookie_jar=aiohttp.DummyCookieJar(),
                headers={"User-Agent": USER_AGENT, "Accept-Encoding": "identity"},
                trust_env=False,
            )
        return session


class _BlockedError(OSError):
    """An address is not public. An OSError, so that aiohttp hands it on as its own."""

    def __init__(self, fault: str) -> None:
        super().__init__(fault)
        self.fault = fault


class _Public(AbstractResolver):
    """Resolves names, and refuses one that has even a single address out of bounds."""

    def __init__(self, names: AbstractResolver) -> None:
        self._names = names

    async def resolve(
        self, host: str, port: int = 0, family: socket.AddressFamily = socket.AF_UNSPEC
    ) -> list[ResolveResult]:
        found = await self._names.resolve(host, port, family)
        for one in found:
            _refuse_private(one["host"])
        return found

    async def close(self) -> None:
        await self._names.close()


class _Mapped(AbstractResolver):
    """Resolves what the operator named, first by the operator's own map."""

    def __init__(self, names: AbstractResolver, hosts: Mapping[str, tuple[str, int]]) -> None:
        self._names = names
        self._hosts = hosts

    async def resolve(
        self, host: str, port: int = 0, family: socket.AddressFamily = socket.AF_UNSPEC
    ) -> list[ResolveResult]:
        mapped = self._hosts.get(host.lower().rstrip("."))
        if mapped is None:
            return await self._names.resolve(host, port, family)
        address, mapped_port = mapped
        return [
            ResolveResult(
                hostname=host,
                host=address,
                port=mapped_port,
                family=socket.AF_INET6 if ":" in address else socket.AF_INET,
                proto=0,
                flags=socket.AI_NUMERICHOST,
            )
        ]

    async def close(self) -> None:
        await self._names.close()


def _public_socket(info: tuple[Any, ...]) -> socket.socket:
    """Make the socket for one address: the last moment before we speak to it."""
    family, kind, proto, _, peer = info
    _refuse_private(peer[0])
    made = socket.socket(family, kind, proto)
    made.setblocking(False)
    return made


def _refuse_private(text: str) -> None:
    fault = guard.fault_of(ip_address(text.partition("%")[0]))
    if fault is not None:
        raise _BlockedError(fault)


def _blocked(error: BaseException) -> _BlockedError | None:
    """Find our own refusal below what aiohttp made of it."""
    seen: BaseException | None = error
    for _ in range(10):
        if seen is None or isinstance(seen, _BlockedError):
            return seen
        inner = getattr(seen, "os_error", None)
        seen = inner if isinstance(inner, BaseException) else seen.__cause__ or seen.__context__
    return None


async def _read(response: aiohttp.ClientResponse, bytes_max: int) -> bytes:
    """Read one byte more than allowed at most, so that the caller can tell."""
    chunks: list[bytes] = []
    size = 0
    async for chunk in response.content.iter_chunked(CHUNK_BYTES):
        chunks.append(chunk)
        size += len(chunk)
        if size > bytes_max:
            # What is left would have to be read to use the connection again.
            response.close()
            break
    return b"".join(chunks)


@lru_cache(maxsize=256)
def _timeout(seconds: float) -> aiohttp.ClientTimeout:
    """Bound the whole call, however slowly an answer drips."""
    return aiohttp.ClientTimeout(total=seconds)


def _url_of(target: guard.Target) -> URL:
    """Hand on the host that was judged, not a second parser's idea of it."""
    return URL(target.url, encoded=True).with_host(target.host)


def _address_of(text: str) -> tuple[str, int]:
    """Read "ip:port" or "[ip]:port"; this is the operator's word, so an error is at once."""
    host, _, port = text.rpartition(":")
    return str(ip_address(host.strip("[]"))), int(port)
