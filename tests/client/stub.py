"""A server that answers every request with the same words, over connections that stay open."""

import socket
import threading
from contextlib import closing, suppress
from types import TracebackType
from typing import Self

SENT = b'{"id": "snd_1", "key": "k", "state": "accepted", "to": "ann@example.net"}'


class StubServer:
    """Counts requests and connections; `answer` may be changed between requests."""

    def __init__(self, body: bytes = SENT, status: str = "202 Accepted") -> None:
        self._listener = socket.create_server(("127.0.0.1", 0))
        self.body = body
        self.status = status
        self.requests = 0
        self.connections = 0

    def __enter__(self) -> Self:
        threading.Thread(target=self._accept, daemon=True).start()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, _: TracebackType | None
    ) -> None:
        self._listener.shutdown(socket.SHUT_RDWR)
        self._listener.close()

    @property
    def url(self) -> str:
        return f"http://127.0.0.1:{self._listener.getsockname()[1]}"

    def _accept(self) -> None:
        while True:
            try:
                client = self._listener.accept()[0]
            except OSError:
                return
            self.connections += 1
            threading.Thread(target=self._serve, args=(client,), daemon=True).start()

    def _serve(self, client: socket.socket) -> None:
        with closing(client), client.makefile("rb") as requests, suppress(OSError):
            while requests.readline():
                length = 0
                while (line := requests.readline().strip()) != b"":
                    name, _, value = line.partition(b":")
                    length = int(value) if name.lower() == b"content-length" else length
                requests.read(length)
                self.requests += 1
                head = f"HTTP/1.1 {self.status}\r\nContent-Length: {len(self.body)}\r\n\r\n"
                client.sendall(head.encode() + self.body)
