"""A small HTTP server on loopback for fakes: it answers, hangs, breaks off, as it is told."""

import asyncio
import contextlib
from collections.abc import Awaitable, Callable, Mapping
from dataclasses import dataclass, field
from enum import Enum, auto
from typing import NamedTuple
from urllib.parse import parse_qsl, unquote

import orjson

HEAD_BYTES_MAX = 64 << 10
BODY_BYTES_MAX = 64 << 20
# Errors of a broken connection, or of something that does not speak the protocol; and our own end.
BROKEN = (OSError, EOFError, ValueError, asyncio.LimitOverrunError, asyncio.CancelledError)


class FakeRequest(NamedTuple):
    """A request; `headers` have lower-case names."""

    method: str
    path: str
    query: Mapping[str, str]
    headers: Mapping[str, str]
    body: bytes

    @property
    def call(self) -> str:
        """Method and path, as documents write them."""
        return f"{self.method} {self.path}"

    @property
    def content_type(self) -> str:
        """The type of the body, without parameters; nothing where none is given."""
        return self.headers.get("content-type", "").partition(";")[0].strip().lower()


class Ending(Enum):
    """What becomes of an answer."""

    SENT = auto()
    # It never comes.
    HANGS = auto()
    # The connection ends without it.
    BREAKS = auto()
    # The connection ends in the middle of its body.
    CUT = auto()


@dataclass(frozen=True, slots=True)
class FakeReply:
    """An answer, and what becomes of it."""

    status: int = 200
    body: bytes = b""
    headers: Mapping[str, str] = field(default_factory=dict)
    ending: Ending = Ending.SENT


class NoRequestError(Exception):
    """What came is no request that the server can read."""

    def __init__(self, status: int, reason: str) -> None:
        super().__init__(reason)
        self.status = status


class FakeHttpServer:
    """Listens on a port of loopback; `answer` is asked for each request."""

    def __init__(self, answer: Callable[[FakeRequest], Awaitable[FakeReply]]) -> None:
        self._answer = answer
        self._server: asyncio.Server | None = None
        self._connections: set[asyncio.Task[None]] = set()
        self.port = 0

    async def start(self) -> None:
        self._server = await asyncio.start_server(
            self._serve, "127.0.0.1", self.port, limit=HEAD_BYTES_MAX
        )
        self.port = self._server.sockets[0].getsockname()[1]

    async def close(self) -> None:
        """Stop listening, and end what hangs."""
        if self._server is not None:
            self._server.close()
            self._server = None
        for task in list(self._connections):
            task.cancel()
        await asyncio.gather(*self._connections, return_exceptions=True)

    async def _serve(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        task = asyncio.current_task()
        assert task is not None, "a connection is served by a task"
        self._connections.add(task)
        try:
            with contextlib.suppress(*BROKEN):
                while await self._serve_one(reader, writer):
                    pass
        finally:
            self._connections.discard(task)
            writer.close()

    async def _serve_one(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> bool:
        try:
            request = await _read(reader, writer)
        except NoRequestError as error:
            words = f"this fake cannot read the request: {error}"
            writer.write(_written(FakeReply(error.status, orjson.dumps({"error": words}))))
            await writer.drain()
            return False
        reply = await self._answer(request)
        match reply.ending:
            case Ending.HANGS:
                # Until the caller has gone.
                await reader.read()
                return False
            case Ending.BREAKS:
                return False
            case Ending.CUT:
                writer.write(_written(reply)[: -max(1, len(reply.body) // 2)])
                await writer.drain()
                return False
            case Ending.SENT:
                is_whole = request.method != "HEAD"
                writer.write(_written(reply, with_body=is_whole))
                await writer.drain()
        return request.headers.get("connection", "").lower() != "close"


async def _read(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> FakeRequest:
    try:
        head = await reader.readuntil(b"\r\n\r\n")
    except asyncio.LimitOverrunError:
        raise NoRequestError(431, "its headers are too long") from None
    first, *lines = head.decode("latin-1").split("\r\n")
    words = first.split(" ")
    if len(words) != 3:
        raise NoRequestError(400, "its first line is none of HTTP")
    method, target, _ = words
    named = (line.partition(":") for line in lines if line)
    headers = {name.strip().lower(): value.strip() for name, _, value in named}
    if headers.get("expect", "").lower() == "100-continue":
        writer.write(b"HTTP/1.1 100 Continue\r\n\r\n")
    path, _, query = target.partition("#")[0].partition("?")
    fields = dict(parse_qsl(query, keep_blank_values=True))
    body = await _read_body(reader, headers)
    return FakeRequest(method, unquote(path), fields, headers, body)


async def _read_body(reader: asyncio.StreamReader, headers: Mapping[str, str]) -> bytes:
    if headers.get("transfer-encoding", "").lower() != "chunked":
        return await reader.readexactly(_size(headers.get("content-length", "0"), base=10))
    body = bytearray()
    while size := _size((await _read_line(reader)).partition(";")[0], base=16):
        _check_size(len(body) + size)
        body += await reader.readexactly(size)
        await _read_line(reader)
    while await _read_line(reader):
        pass
    return bytes(body)


async def _read_line(reader: asyncio.StreamReader) -> str:
    try:
        return (await reader.readuntil(b"\r\n")).decode("latin-1").strip()
    except asyncio.LimitOverrunError:
        raise NoRequestError(400, "the size of a chunk is none") from None


def _size(text: str, *, base: int) -> int:
    digits = "0123456789abcdefABCDEF" if base == 16 else "0123456789"
    if not text or text.strip(digits):
        raise NoRequestError(400, f"the size {text[:20]!r} is no number")
    # More digits than any size needs are too slow to read.
    size = int(text, base) if len(text) < 20 else BODY_BYTES_MAX + 1
    _check_size(size)
    return size


def _check_size(size: int) -> None:
    if size > BODY_BYTES_MAX:
        raise NoRequestError(413, f"its body is longer than {BODY_BYTES_MAX} bytes")


def _written(reply: FakeReply, *, with_body: bool = True) -> bytes:
    headers = {"Content-Length": str(len(reply.body)), **reply.headers}
    if reply.body:
        headers.setdefault("Content-Type", "application/json")
    lines = "".join(f"{name}: {value}\r\n" for name, value in headers.items())
    head = f"HTTP/1.1 {reply.status} Fake\r\n{lines}\r\n".encode("latin-1")
    return head + reply.body if with_body else head
