"""An endpoint that notes every request and answers as a test says: a real server, often rude."""

import asyncio
import threading
import time
from collections.abc import Awaitable, Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field

import uvloop


@dataclass(frozen=True)
class Request:
    path: str
    headers: dict[str, str]
    body: bytes
    at_s: float

    @property
    def key(self) -> str:
        return self.headers["x-idempotency-key"]

    @property
    def attempt(self) -> int:
        return int(self.headers["x-mailonce-attempt"])


Behaviour = Callable[[Request, asyncio.StreamWriter], Awaitable[None]]


@dataclass
class Endpoint:
    """Behaves by path; a path that nobody named answers 200."""

    behaviours: dict[str, Behaviour] = field(default_factory=dict)
    requests: list[Request] = field(default_factory=list)
    port: int = 0
    # Requests under way, and the most there ever were at once, by path.
    running: dict[str, int] = field(default_factory=dict)
    most: dict[str, int] = field(default_factory=dict)
    _tasks: set["asyncio.Task[None]"] = field(default_factory=set)
    _server: asyncio.Server | None = None

    @property
    def host(self) -> str:
        return f"127.0.0.1:{self.port}"

    def url(self, path: str) -> str:
        return f"http://{self.host}{path}"

    def at(self, path: str) -> list[Request]:
        """The requests to a path, in order."""
        return [request for request in self.requests if request.path == path]

    async def start(self) -> "Endpoint":
        self._server = await asyncio.start_server(self._serve, "127.0.0.1", 0, backlog=1024)
        self.port = self._server.sockets[0].getsockname()[1]
        return self

    async def stop(self) -> None:
        assert self._server is not None, "the endpoint was not started"
        self._server.close()
        for task in self._tasks:
            task.cancel()
        await asyncio.gather(*self._tasks, return_exceptions=True)

    async def _serve(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        task = asyncio.current_task()
        assert task is not None
        self._tasks.add(task)
        task.add_done_callback(self._tasks.discard)
        try:
            while not writer.is_closing():
                await self._answer(await _read(reader), writer)
        except (asyncio.IncompleteReadError, asyncio.CancelledError, ConnectionError):
            # Nobody waits for this any more; a cancelled one would be reported as a failure.
            pass
        finally:
            writer.close()

    async def _answer(self, request: Request, writer: asyncio.StreamWriter) -> None:
        self.requests.append(request)
        path = request.path
        self.running[path] = self.running.get(path, 0) + 1
        self.most[path] = max(self.most.get(path, 0), self.running[path])
        try:
            await self.behaviours.get(path, answers(200))(request, writer)
        finally:
            self.running[path] -= 1


async def _read(reader: asyncio.StreamReader) -> Request:
    head = (await reader.readuntil(b"\r\n\r\n")).decode("latin-1").split("\r\n")
    headers = {}
    for line in head[1:]:
        name, _, value = line.partition(":")
        headers[name.lower()] = value.strip()
    body = await reader.readexactly(int(headers.get("content-length", "0")))
    return Request(head[0].split()[1], headers, body, time.monotonic())


def answers(status: int, body: bytes = b"ok", *, after_s: float = 0, **headers: str) -> Behaviour:
    extra = "".join(f"{name.replace('_', '-')}: {value}\r\n" for name, value in headers.items())
    whole = f"HTTP/1.1 {status} X\r\nContent-Length: {len(body)}\r\n{extra}\r\n".encode() + body

    async def behave(_: Request, writer: asyncio.StreamWriter) -> None:
        if after_s:
            await asyncio.sleep(after_s)
        writer.write(whole)
        await writer.drain()

    return behave


def in_turn(*behaviours: Behaviour) -> Behaviour:
    """Behave differently on each attempt of a delivery; the last stays."""

    async def behave(request: Request, writer: asyncio.StreamWriter) -> None:
        turn = min(request.attempt, len(behaviours)) - 1
        await behaviours[turn](request, writer)

    return behave


async def hangs(_: Request, writer: asyncio.StreamWriter) -> None:
    del writer
    await asyncio.sleep(600)


async def drips(_: Request, writer: asyncio.StreamWriter) -> None:
    """Answer byte by byte: no single read is slow, the whole never ends."""
    writer.write(b"HTTP/1.1 200 OK\r\nContent-Length: 1000000\r\n\r\n")
    while not writer.is_closing():
        writer.write(b"x")
        await writer.drain()
        await asyncio.sleep(0.05)


async def floods(_: Request, writer: asyncio.StreamWriter) -> None:
    """Answer with 100 MB."""
    writer.write(b"HTTP/1.1 200 OK\r\nContent-Length: 100000000\r\n\r\n")
    for _number in range(100):
        writer.write(b"x" * 1_000_000)
        await writer.drain()


async def breaks_off(_: Request, writer: asyncio.StreamWriter) -> None:
    """Promise more than comes."""
    writer.write(b"HTTP/1.1 200 OK\r\nContent-Length: 100\r\n\r\nhalf")
    await writer.drain()
    writer.close()


async def hangs_up(_: Request, writer: asyncio.StreamWriter) -> None:
    """Close without a word."""
    writer.close()


@contextmanager
def running_endpoint(**behaviours: Behaviour) -> Iterator[Endpoint]:
    """Run an endpoint in a thread of its own; `ok=…` is the behaviour of /ok."""
    loop = uvloop.new_event_loop()
    endpoint = Endpoint({f"/{path}": behave for path, behave in behaviours.items()})
    thread = threading.Thread(target=loop.run_forever, daemon=True)
    thread.start()
    try:
        asyncio.run_coroutine_threadsafe(endpoint.start(), loop).result(10)
        yield endpoint
    finally:
        asyncio.run_coroutine_threadsafe(endpoint.stop(), loop).result(10)
        loop.call_soon_threadsafe(loop.stop)
        thread.join()
        loop.close()
