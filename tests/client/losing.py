"""A proxy before a server that can lose an answer: the server did it, and nobody heard."""

import socket
import threading
from contextlib import closing, suppress
from types import TracebackType
from typing import Self


class LosingProxy:
    """Forwards connections; the answer to the next request that holds a mark is lost."""

    def __init__(self, port: int) -> None:
        self._port = port
        self._listener = socket.create_server(("127.0.0.1", 0))
        self._mark: bytes | None = None
        self.lost = 0

    def __enter__(self) -> Self:
        self._start(self._accept)
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, _: TracebackType | None
    ) -> None:
        self._listener.shutdown(socket.SHUT_RDWR)
        self._listener.close()

    @property
    def url(self) -> str:
        return f"http://127.0.0.1:{self._listener.getsockname()[1]}"

    def lose_answer_to(self, mark: bytes) -> None:
        self._mark = mark

    def _accept(self) -> None:
        while True:
            try:
                client = self._listener.accept()[0]
            except OSError:
                return
            self._start(self._serve, client)

    def _serve(self, client: socket.socket) -> None:
        losing = threading.Event()
        with closing(client), socket.create_connection(("127.0.0.1", self._port)) as server:
            self._start(self._answer, server, client, losing)
            while data := _received(client):
                if self._mark is not None and self._mark in data:
                    self._mark = None
                    losing.set()
                server.sendall(data)

    def _answer(
        self, server: socket.socket, client: socket.socket, losing: threading.Event
    ) -> None:
        while data := _received(server):
            if losing.is_set():
                # It was done and answered; the client only sees the connection end.
                self.lost += 1
                break
            client.sendall(data)
        with suppress(OSError):
            client.shutdown(socket.SHUT_RDWR)

    def _start(self, target: object, *arguments: object) -> None:
        thread = threading.Thread(target=target, args=arguments, daemon=True)  # type: ignore[arg-type]
        thread.start()


def _received(connection: socket.socket) -> bytes:
    try:
        return connection.recv(1 << 20)
    except OSError:
        return b""
