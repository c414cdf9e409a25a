"""A small HTTP server on loopback for fakes: it answers, hangs, breaks off, as it is told."""

import asyncio
import contextlib
from collections.abc import Awaitable, Callable, Mapping
from dataclasses import dataclass, field
from enum import Enum, auto
from typing import NamedTuple
from urllib.parse import parse_qsl, unquote, urlsplit

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
        request = await _read(reader)
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
                writer.write(_written(reply))
                await writer.drain()
        return request.headers.get("connection", "").lower() != "close"


async def _read(reader: asyncio.StreamReader) -> FakeRequest:
    first, *lines = (await reader.readuntil(b"\r\n\r\n")).decode("latin-1").split("\r\n")
    method, target, _ = first.split(" ", 2)
    named = (line.partition(":") for line in lines if line)
    headers = {name.strip().lower(): value.strip() for name, _, value in named}
    size = int(headers.get("content-length", "0"))
    if not 0 <= size <= BODY_BYTES_MAX:
        raise ValueError("a longer body than anybody needs")
    parts = urlsplit(target)
    query = dict(parse_qsl(parts.query, keep_blank_values=True))
    body = await reader.readexactly(size)
    return FakeRequest(method, unquote(parts.path), query, headers, body)


def _written(reply: FakeReply) -> bytes:
    headers = {"Content-Length": str(len(reply.body)), **reply.headers}
    if reply.body:
        headers.setdefault("Content-Type", "application/json")
    lines = "".join(f"{name}: {value}\r\n" for name, value in headers.items())
    return f"HTTP/1.1 {reply.status} Fake\r\n{lines}\r\n".encode("latin-1") + reply.body
