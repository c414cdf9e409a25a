"""The short way for arrivals: uvicorn's parser and connections, without ASGI in between.

A webhook is read whole, handed on and answered with one write. ASGI's messages, events and second
write would cost as much as verifying and parsing together. Everything else on the connection is
uvicorn's business: parsing, keep-alive, pipelining, shutdown, and every path but `POST /in/…`.
"""

import asyncio
from http import HTTPStatus
from typing import Any

import httptools
import orjson
from uvicorn.protocols.http.httptools_impl import HttpToolsProtocol

from mailonce.edge.http import arrivals
from mailonce.pipeline.receive import Reply
from mailonce.service import Service

_PREFIX = arrivals.PREFIX.encode()
_LINES = {
    status.value: f"HTTP/1.1 {status.value} {status.phrase}\r\n".encode() for status in HTTPStatus
}


class DoorProtocol(HttpToolsProtocol):
    """Takes `POST /in/…` itself and leaves the rest to uvicorn."""

    def __init__(self, *arguments: Any, service: Service, **named: Any) -> None:
        super().__init__(*arguments, **named)
        self.service = service

    def on_headers_complete(self) -> None:
        """Begin a request."""
        if (
            not self.url.startswith(_PREFIX)
            or self.parser.get_method() != b"POST"
            or self.expect_100_continue
        ):
            super().on_headers_complete()
            return
        before = self.cycle
        cycle = ArrivalCycle(self)
        self.cycle = cycle  # type: ignore[assignment]
        if before is not None and not before.response_complete:
            # A pipelined request waits for the answer to the one before it, as uvicorn's do.
            cycle.message_event = asyncio.Event()
            self.flow.pause_reading()
            self.pipeline.appendleft((self.cycle, self.app))
        elif cycle.declares_too_much():
            cycle.refuse()

    def on_body(self, body: bytes) -> None:
        """Gather a body, up to the limit."""
        if isinstance(self.cycle, ArrivalCycle):
            self.cycle.gather(body)
        else:
            super().on_body(body)

    def on_message_complete(self) -> None:
        """Hand on an arrival that is whole."""
        cycle = self.cycle
        if not isinstance(cycle, ArrivalCycle):
            super().on_message_complete()
        elif cycle.message_event is not None:
            cycle.more_body = False
            cycle.message_event.set()
        elif not cycle.response_complete:
            cycle.more_body = False
            self._start_asgi_task(cycle, self.app)


class ArrivalCycle:
    """One arrival and its answer, with the attributes that uvicorn looks at."""

    __slots__ = (
        "_parts", "_protocol", "_size", "disconnected", "headers", "keep_alive", "message_event",
        "more_body", "response_complete", "url",
    )  # fmt: skip

    def __init__(self, protocol: DoorProtocol) -> None:
        parser = protocol.parser
        self._protocol = protocol
        self._parts: list[bytes] = []
        self._size = 0
        self.url = protocol.url
        self.headers = protocol.headers
        self.keep_alive = parser.get_http_version() != "1.0" and parser.should_keep_alive()
        self.message_event: asyncio.Event | None = None
        self.more_body = True
        self.response_complete = False
        self.disconnected = False

    def gather(self, part: bytes) -> None:
        """Keep a part of the body; above the limit answer at once and read no further."""
        if self.response_complete:
            return
        self._parts.append(part)
        self._size += len(part)
        if self._size > self._protocol.service.body_bytes_max:
            self.refuse()

    def refuse(self) -> None:
        """Answer that the body is too large, and hang up."""
        self._parts.clear()
        self.keep_alive = False
        path = self.url.partition(b"?")[0].decode("latin-1")
        self._answer(arrivals.too_large(self._protocol.service, path, self._headers()))

    def declares_too_much(self) -> bool:
        """Say whether the body, by its own word, is above the limit."""
        length = next((value for name, value in self.headers if name == b"content-length"), b"0")
        return length.isdigit() and int(length) > self._protocol.service.body_bytes_max

    async def run_asgi(self, app: Any) -> None:
        """Take the arrival; the name is uvicorn's."""
        del app
        while self.more_body and not self.disconnected and self.message_event is not None:
            await self.message_event.wait()
            self.message_event.clear()
        if self.more_body or self.response_complete:
            return
        protocol = self._protocol
        url = httptools.parse_url(self.url)
        parts = self._parts
        reply = await arrivals.answer(
            protocol.service,
            method="POST",
            path=url.path.decode("latin-1"),
            query=(url.query or b"").decode("latin-1"),
            headers=self._headers(),
            body=parts[0] if len(parts) == 1 else b"".join(parts),
            peer=protocol.client[0] if protocol.client else None,
        )
        self._answer(reply)

    def _headers(self) -> dict[str, str]:
        return {name.decode("latin-1"): value.decode("latin-1") for name, value in self.headers}

    def _answer(self, reply: Reply) -> None:
        protocol = self._protocol
        self.response_complete = True
        if self.disconnected or protocol.transport.is_closing():
            return
        protocol.transport.write(_written(reply, keep_alive=self.keep_alive))
        if not self.keep_alive:
            protocol.transport.close()
        protocol.on_response_complete()


def _written(reply: Reply, *, keep_alive: bool) -> bytes:
    body = b"" if reply.code == HTTPStatus.NO_CONTENT else orjson.dumps(reply.body)
    head = [_LINES[reply.code], b"content-type: application/json\r\n" if body else b""]
    if body or reply.code != HTTPStatus.NO_CONTENT:
        head.append(b"content-length: %d\r\n" % len(body))
    for name, value in reply.headers.items():
        head.append(f"{name.lower()}: {value}\r\n".encode())
    if reply.retry_after_s is not None:
        head.append(b"retry-after: %d\r\n" % reply.retry_after_s)
    if not keep_alive:
        head.append(b"connection: close\r\n")
    return b"%s\r\n%s" % (b"".join(head), body)
