"""An endpoint that remembers what it was sent, and answers as it is told."""

import threading
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer


@dataclass(frozen=True)
class Request:
    headers: dict[str, str]
    body: bytes


@dataclass
class Endpoint:
    """`codes` are given in turn; once they are used up, 204."""

    codes: list[int] = field(default_factory=list)
    requests: list[Request] = field(default_factory=list)
    port: int = 0
    lock: threading.Lock = field(default_factory=threading.Lock)

    @property
    def url(self) -> str:
        return f"http://127.0.0.1:{self.port}/hooks"

    def take(self, headers: dict[str, str], body: bytes) -> int:
        with self.lock:
            self.requests.append(Request(headers, body))
            return self.codes.pop(0) if self.codes else 204


@contextmanager
def serving(*codes: int) -> Iterator[Endpoint]:
    endpoint = Endpoint(list(codes))

    class Handler(BaseHTTPRequestHandler):
        protocol_version = "HTTP/1.1"

        def do_POST(self) -> None:
            body = self.rfile.read(int(self.headers.get("content-length", 0)))
            headers = {name.lower(): value for name, value in self.headers.items()}
            self.send_response(endpoint.take(headers, body))
            self.send_header("content-length", "0")
            self.end_headers()

        def log_message(self, format: str, *args: object) -> None:  # noqa: A002
            del format, args

    server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
    endpoint.port = server.server_address[1]
    thread = threading.Thread(target=server.serve_forever, daemon=True)
    thread.start()
    try:
        yield endpoint
    finally:
        server.shutdown()
        server.server_close()
