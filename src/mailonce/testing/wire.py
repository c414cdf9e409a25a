"""One keep-alive connection to a receiver, in plain asyncio.

What plays the providers must not be slower than what it plays them to, and needs no more to be
installed than the library itself.
"""

import asyncio
import ssl
from dataclasses import dataclass
from typing import NamedTuple
from urllib.parse import urlsplit

from mailonce.errors import ConfigError
from mailonce.testing.simulator import Post
from mailonce.tls import tls_fault

ANSWER_TIMEOUT_S = 30
ANSWER_BYTES_MAX = 1 << 20
NO_CONTENT = 204
# Errors of a broken connection, or of something that is no HTTP server.
BROKEN = (OSError, EOFError, TimeoutError, ValueError, asyncio.LimitOverrunError)


class PostResponse(NamedTuple):
    """An answer."""

    code: int
    body: bytes


@dataclass(frozen=True, slots=True)
class ReceiverAddress:
    """Where a receiver listens, and the path that all its URLs begin with."""

    host: str
    port: int
    tls: ssl.SSLContext | None
    prefix: str


def place_of(url: str, tls: ssl.SSLContext | None = None) -> ReceiverAddress:
    """Read a URL; with https, `tls` says whom to trust, by default the system's authorities.

    Raises: ConfigError where it is none.
    """
    parts = urlsplit(url)
    if parts.scheme not in {"http", "https"} or not parts.hostname:
        raise ConfigError(f"{url!r} is no URL; write http://HOST:PORT/in/SOURCE")
    if parts.scheme == "http":
        return ReceiverAddress(parts.hostname, parts.port or 80, None, parts.path.rstrip("/"))
    tls = tls or ssl.create_default_context()
    return ReceiverAddress(parts.hostname, parts.port or 443, tls, parts.path.rstrip("/"))


def written(place: ReceiverAddress, path: str, post: Post) -> bytes:
    """Write a request as it goes over the line."""
    target = place.prefix + path + post.path + (f"?{post.query}" if post.query else "")
    headers = "".join(f"{name}: {value}\r\n" for name, value in post.headers.items())
    head = (
        f"{post.method} {target or '/'} HTTP/1.1\r\nHost: {place.host}:{place.port}\r\n"
        f"Content-Length: {len(post.body)}\r\n{headers}\r\n"
    )
    return head.encode("latin-1") + post.body


class ReceiverConnection:
    """Opened when it is first needed, and again where it broke."""

    def __init__(self, place: ReceiverAddress) -> None:
        self._place = place
        self._streams: tuple[asyncio.StreamReader, asyncio.StreamWriter] | None = None

    async def ask(self, request: bytes) -> PostResponse | None:
        """Send a request once; None where no answer came.

        Raises: MailonceError where a check of TLS failed, which no retry would change.
        """
        try:
            return await asyncio.wait_for(self._ask(request), ANSWER_TIMEOUT_S)
        except BROKEN as error:
            self.close()
            fault = tls_fault(f"https://{self._place.host}:{self._place.port}", error)
            if fault is not None:
                raise fault from error
            return None

    def close(self) -> None:
        """Hang up."""
        if self._streams is not None:
            self._streams[1].close()
            self._streams = None

    async def _ask(self, request: bytes) -> PostResponse:
        if self._streams is None:
            place = self._place
            self._streams = await asyncio.open_connection(place.host, place.port, ssl=place.tls)
        reader, writer = self._streams
        writer.write(request)
        first, *lines = (await reader.readuntil(b"\r\n\r\n")).split(b"\r\n")
        code = int(first.split(b" ", 2)[1])
        named = (line.partition(b":") for line in lines)
        headers = {name.strip().lower(): value.strip().lower() for name, _, value in named}
        body = b"" if code == NO_CONTENT else await _body(reader, headers)
        # HTTP/1.0 hangs up unless it says otherwise, and an answer without a length ends with it.
        is_old = first.startswith(b"HTTP/1.0") and headers.get(b"connection") != b"keep-alive"
        if is_old or headers.get(b"connection") == b"close" or reader.at_eof():
            self.close()
        return PostResponse(code, body)


async def _body(reader: asyncio.StreamReader, headers: dict[bytes, bytes]) -> bytes:
    if headers.get(b"transfer-encoding") == b"chunked":
        return await _chunks(reader)
    if b"content-length" in headers:
        return await reader.readexactly(_size(headers[b"content-length"], 10))
    body = b""
    while part := await reader.read(ANSWER_BYTES_MAX):
        body += part
        if len(body) > ANSWER_BYTES_MAX:
            raise ValueError("a longer answer than anybody needs")
    return body


async def _chunks(reader: asyncio.StreamReader) -> bytes:
    body = b""
    while len(body) <= ANSWER_BYTES_MAX:
        size = _size((await reader.readuntil(b"\r\n")).partition(b";")[0], 16)
        part = await reader.readexactly(size + 2)
        body += part[:-2]
        if size == 0:
            return body
    raise ValueError("a longer answer than anybody needs")


def _size(text: bytes, base: int) -> int:
    size = int(text, base)
    if not 0 <= size <= ANSWER_BYTES_MAX:
        raise ValueError("a longer answer than anybody needs")
    return size
