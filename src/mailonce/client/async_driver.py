"""Drive a flow over asyncio's streams."""

import asyncio
import contextlib
import socket
import threading
import time
from typing import Protocol, TypeVar, assert_never

from mailonce.client.place import ServerPlace
from mailonce.client.response_reader import ResponseReader
from mailonce.client.steps import (
    CLOSED,
    ApiAnswer,
    ApiRequest,
    Exchange,
    Flow,
    LostConnectionError,
    OpenStream,
    ReadStream,
    Sleep,
)
from mailonce.errors import ConfigError, MailonceError
from mailonce.tls import tls_fault

T = TypeVar("T")

CONNECT_TIMEOUT_S = 10.0
IDLE_MAX = 4
IDLE_S_MAX = 3.0
READ_BYTES = 64 << 10


class AsyncWire(Protocol):
    """What does the steps of flows: over the network, or in the process of the server itself."""

    async def exchange(self, request: ApiRequest, timeout_s: float) -> ApiAnswer: ...

    async def open(self, request: ApiRequest, timeout_s: float) -> "tuple[ApiAnswer, AsyncBody]":
        """Give the head of an answer, and its body to be read and closed."""

    async def close(self) -> None: ...


class AsyncBody(Protocol):
    """A body that comes bit by bit."""

    async def read(self, timeout_s: float) -> bytes | None:
        """Give what came: None where nothing did, b"" at the end."""

    def close(self) -> None: ...


async def run(wire: AsyncWire, flow: Flow[T]) -> T:
    """Do each step of a flow, and give what it returns."""
    body: AsyncBody | None = None
    with contextlib.closing(flow):
        try:
            step = next(flow)
            while True:
                try:
                    if isinstance(step, OpenStream):
                        if body is not None:
                            body.close()
                        result, body = await wire.open(step.request, step.timeout_s)
                        step = flow.send(result)
                    else:
                        step = flow.send(await _do(wire, step, body))
                except (LostConnectionError, MailonceError) as failure:
                    step = flow.throw(failure)
        except StopIteration as end:
            value: T = end.value
            return value
        finally:
            if body is not None:
                body.close()


async def _do(
    wire: AsyncWire, step: Exchange | ReadStream | Sleep, body: AsyncBody | None
) -> ApiAnswer | bytes | None:
    match step:
        case Exchange(request=request, timeout_s=timeout_s):
            return await wire.exchange(request, timeout_s)
        case ReadStream(timeout_s=timeout_s):
            assert body is not None, "a stream is opened before it is read"
            return await body.read(timeout_s)
        case Sleep(seconds=seconds):
            await asyncio.sleep(seconds)
            return None
        case _:
            assert_never(step)


class NetworkWire:
    """The server over the network; a few idle connections are kept for the next request.

    A connection belongs to the event loop that opened it. Another loop leaves it alone, and drops
    it once its own is closed: before anything is written, so that no request goes out unanswered.
    """

    def __init__(self, place: ServerPlace) -> None:
        self._place = place
        # Loops may run in several threads; the lock is never held while one waits.
        self._lock = threading.Lock()
        self._idle: list[tuple[_Connection, float]] = []
        self._is_closed = False

    async def exchange(self, request: ApiRequest, timeout_s: float) -> ApiAnswer:
        self._check_open()
        idle = self._take()
        if idle is not None:
            try:
                return await self._exchange_over(idle, request, timeout_s)
            except LostConnectionError as lost:
                # The server may have closed it just now; then a new one tells more.
                if isinstance(lost.__cause__, TimeoutError):
                    raise
        return await self._exchange_over(await self._connect(), request, timeout_s)

    async def open(self, request: ApiRequest, timeout_s: float) -> tuple[ApiAnswer, AsyncBody]:
        self._check_open()
        connection = await self._connect()
        return await connection.head(self._place.write(request), timeout_s), connection

    async def close(self) -> None:
        self._is_closed = True
        with self._lock:
            idle, self._idle = self._idle, []
        for connection, _ in idle:
            connection.close()

    def _check_open(self) -> None:
        if self._is_closed:
            raise ConfigError(CLOSED)

    async def _exchange_over(
        self, connection: "_Connection", request: ApiRequest, timeout_s: float
    ) -> ApiAnswer:
        head = await connection.head(self._place.write(request), timeout_s)
        body = await connection.rest(timeout_s)
        if connection.reader.is_reusable:
            connection.reader = ResponseReader()
            self._keep(connection)
        else:
            connection.close()
        return ApiAnswer(head.status, head.headers, body)

    def _take(self) -> "_Connection | None":
        """Take a connection of this loop that was used a moment ago; drop those of closed loops."""
        here, fresh_s = asyncio.get_running_loop(), time.monotonic() - IDLE_S_MAX
        with self._lock:
            usable = [one for one in self._idle if one[0].loop is here and one[1] > fresh_s]
            taken = usable.pop() if usable else None
            others = [one for one in self._idle if one[0].loop is not here]
            kept = usable + [one for one in others if not one[0].loop.is_closed()]
            gone = [one for one in self._idle if one not in kept and one is not taken]
            self._idle = kept
        for connection, _ in gone:
            connection.close()
        return None if taken is None else taken[0]

    def _keep(self, connection: "_Connection") -> None:
        """Keep a connection for the next request of its loop."""
        with self._lock:
            if sum(one.loop is connection.loop for one, _ in self._idle) < IDLE_MAX:
                self._idle.append((connection, time.monotonic()))
                return
        connection.close()

    async def _connect(self) -> "_Connection":
        place = self._place
        try:
            async with asyncio.timeout(CONNECT_TIMEOUT_S):
                reader, writer = await asyncio.open_connection(
                    place.host, place.port, ssl=place.tls
                )
        except OSError as error:
            lost = LostConnectionError(type(error).__name__)
            raise tls_fault(place.url, error) or lost from error
        return _Connection(reader, writer)


class _Connection:
    """One connection, with the response that is being read."""

    def __init__(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        self._reading = reader
        self._writing = writer
        self.loop = asyncio.get_running_loop()
        self.reader = ResponseReader()

    async def head(self, request: bytes, timeout_s: float) -> ApiAnswer:
        try:
            self._writing.write(request)
            while self.reader.head is None:
                await self._feed(timeout_s)
        except BaseException:
            self.close()
            raise
        return self.reader.head

    async def rest(self, timeout_s: float) -> bytes:
        try:
            while not self.reader.is_complete:
                await self._feed(timeout_s)
        except BaseException:
            self.close()
            raise
        return self.reader.take()

    async def read(self, timeout_s: float) -> bytes | None:
        if data := self.reader.take():
            return data
        if self.reader.is_complete:
            return b""
        try:
            # A read that is given up leaves what comes in the stream's own buffer.
            async with asyncio.timeout(timeout_s):
                data = await self._reading.read(READ_BYTES)
        except TimeoutError:
            return None
        except OSError as error:
            raise LostConnectionError(type(error).__name__) from error
        self.reader.feed(data)
        return self.reader.take() or (b"" if self.reader.is_complete else None)

    def close(self) -> None:
        """Close it, in whichever loop or thread this is called."""
        try:
            here = asyncio.get_running_loop()
        except RuntimeError:
            here = None
        try:
            if self.loop is here:
                self._writing.close()
            else:
                self.loop.call_soon_threadsafe(self._writing.close)
        except RuntimeError:
            # Its loop is closed and does nothing more: tell the server; Python collects the rest.
            with (
                contextlib.suppress(OSError, AttributeError),
                self._writing.get_extra_info("socket").dup() as connection,
            ):
                connection.shutdown(socket.SHUT_RDWR)

    async def _feed(self, timeout_s: float) -> None:
        try:
            async with asyncio.timeout(timeout_s):
                data = await self._reading.read(READ_BYTES)
        except OSError as error:
            raise LostConnectionError(type(error).__name__) from error
        self.reader.feed(data)
