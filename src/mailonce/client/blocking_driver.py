"""Drive a flow over sockets, blocking; a few idle connections are kept for the next request."""

import contextlib
import socket
import threading
import time
from collections.abc import Iterator
from typing import Self, TypeVar, assert_never

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
    Step,
)
from mailonce.errors import ConfigError, MailonceError
from mailonce.tls import tls_fault

T = TypeVar("T")

CONNECT_TIMEOUT_S = 10.0
IDLE_MAX = 4
# Shorter than any server keeps a silent connection, so that few are closed as we write.
IDLE_S_MAX = 3.0
READ_BYTES = 64 << 10


class BlockingDriver:
    """Runs flows; any number of threads may share it."""

    def __init__(self, place: ServerPlace) -> None:
        self._place = place
        self._idle: list[tuple[socket.socket, float]] = []
        self._lock = threading.Lock()
        self._is_closed = False

    def run(self, flow: Flow[T]) -> T:
        """Do each step, and give what the flow returns.

        Raises: ConfigError where it was closed.
        """
        if self._is_closed:
            raise ConfigError(CLOSED)
        with contextlib.closing(flow), _Wire(self, self._place) as wire:
            try:
                step = next(flow)
                while True:
                    try:
                        result = wire.do(step)
                    except (LostConnectionError, MailonceError) as failure:
                        step = flow.throw(failure)
                    else:
                        step = flow.send(result)
            except StopIteration as end:
                value: T = end.value
                return value

    def close(self) -> None:
        self._is_closed = True
        with self._lock:
            idle, self._idle = self._idle, []
        for connection, _ in idle:
            connection.close()

    def take(self) -> socket.socket | None:
        """Take a connection that was used a moment ago."""
        with self._lock:
            while self._idle:
                connection, since = self._idle.pop()
                if time.monotonic() - since < IDLE_S_MAX:
                    return connection
                connection.close()
        return None

    def keep(self, connection: socket.socket) -> None:
        """Keep a connection for the next request."""
        with self._lock:
            if len(self._idle) < IDLE_MAX:
                self._idle.append((connection, time.monotonic()))
                return
        connection.close()


class _Wire:
    """The steps of one flow, and the stream that it may have open."""

    def __init__(self, driver: BlockingDriver, place: ServerPlace) -> None:
        self._driver = driver
        self._place = place
        self._stream: tuple[socket.socket, ResponseReader] | None = None

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self._close_stream()

    def do(self, step: Step) -> ApiAnswer | bytes | None:
        match step:
            case Exchange(request=request, timeout_s=timeout_s):
                return self._exchange(request, timeout_s)
            case OpenStream(request=request, timeout_s=timeout_s):
                return self._open(request, timeout_s)
            case ReadStream(timeout_s=timeout_s):
                return self._read(timeout_s)
            case Sleep(seconds=seconds):
                time.sleep(seconds)
                return None
            case _:
                assert_never(step)

    def _exchange(self, request: ApiRequest, timeout_s: float) -> ApiAnswer:
        idle = self._driver.take()
        if idle is not None:
            try:
                return self._exchange_over(idle, request, timeout_s)
            except LostConnectionError as lost:
                # The server may have closed it just now; then a new one tells more.
                if isinstance(lost.__cause__, TimeoutError):
                    raise
        return self._exchange_over(self._connect(), request, timeout_s)

    def _exchange_over(
        self, connection: socket.socket, request: ApiRequest, timeout_s: float
    ) -> ApiAnswer:
        reader = ResponseReader()
        with _closes_on_failure(connection):
            _send(connection, self._place.write(request), timeout_s)
            while not reader.is_complete:
                reader.feed(connection.recv(READ_BYTES))
        head = reader.head
        assert head is not None, "a complete response has a head"
        if reader.is_reusable:
            self._driver.keep(connection)
        else:
            connection.close()
        return ApiAnswer(head.status, head.headers, reader.take())

    def _open(self, request: ApiRequest, timeout_s: float) -> ApiAnswer:
        self._close_stream()
        connection, reader = self._connect(), ResponseReader()
        with _closes_on_failure(connection):
            _send(connection, self._place.write(request), timeout_s)
            while reader.head is None:
                reader.feed(connection.recv(READ_BYTES))
        if reader.head.is_success:
            self._stream = connection, reader
        else:
            connection.close()
        return reader.head

    def _read(self, timeout_s: float) -> bytes | None:
        assert self._stream is not None, "a stream is opened before it is read"
        connection, reader = self._stream
        if data := reader.take():
            return data
        if reader.is_complete:
            self._close_stream()
            return b""
        connection.settimeout(max(timeout_s, 0.001))
        try:
            reader.feed(connection.recv(READ_BYTES))
        except TimeoutError:
            return None
        except (OSError, LostConnectionError) as error:
            self._close_stream()
            raise LostConnectionError(_word(error)) from error
        return reader.take() or (b"" if reader.is_complete else None)

    def _connect(self) -> socket.socket:
        place = self._place
        try:
            plain = socket.create_connection((place.host, place.port), CONNECT_TIMEOUT_S)
            plain.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
            if place.tls is None:
                return plain
            try:
                return place.tls.wrap_socket(plain, server_hostname=place.host)
            except BaseException:
                plain.close()
                raise
        except OSError as error:
            raise tls_fault(place.url, error) or LostConnectionError(_word(error)) from error

    def _close_stream(self) -> None:
        if self._stream is not None:
            self._stream[0].close()
            self._stream = None


@contextlib.contextmanager
def _closes_on_failure(connection: socket.socket) -> Iterator[None]:
    """Close a connection that failed, or whose user was interrupted: nobody reads its rest."""
    try:
        yield
    except OSError as error:
        connection.close()
        raise LostConnectionError(_word(error)) from error
    except BaseException:
        connection.close()
        raise


def _send(connection: socket.socket, data: bytes, timeout_s: float) -> None:
    connection.settimeout(timeout_s)
    # A server that refuses a large body answers before it has read all of it.
    with contextlib.suppress(BrokenPipeError, ConnectionResetError):
        connection.sendall(data)


def _word(error: BaseException) -> str:
    return str(error) if isinstance(error, LostConnectionError) else type(error).__name__
