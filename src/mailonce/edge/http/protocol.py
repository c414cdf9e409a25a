"""The short way for arrivals: uvicorn's connections, without ASGI in between.

A webhook is read whole, handed on and answered with one write, mostly without a task of its own.
ASGI's messages, events and second write would cost as much as verifying and parsing together.
Everything else on the connection is uvicorn's business: keep-alive, pipelining, shutdown, every
path but `POST /in/…`, and every request that `glance` does not understand at once.
"""

import asyncio
from collections.abc import Callable
from http import HTTPStatus
from typing import Any

import httptools
import orjson
from uvicorn.protocols.http.httptools_impl import HttpToolsProtocol

from mailonce.edge.http import arrivals
from mailonce.edge.http.glance import Asked, glance
from mailonce.pipeline.receive import Reply
from mailonce.service import Service
from mailonce.telemetry import UNEXPECTED, log

_PREFIX = arrivals.PREFIX.encode()
_START = b"POST " + _PREFIX
_LINES = {
    status.value: f"HTTP/1.1 {status.value} {status.phrase}\r\n".encode() for status in HTTPStatus
}
_JSON = b"content-type: application/json\r\ncontent-length: "


class Turn:
    """Gathers what comes and what is answered in one turn of the event loop, on all connections.

    The same thing done for many in a row is quicker than with other things in between.
    """

    def __init__(self, service: Service) -> None:
        self._service = service
        self._came: list[arrivals.Came] = []
        self._said: list[tuple[Callable[[bytes], None], bytes]] = []

    def take(self, came: arrivals.Came) -> None:
        """Hand this one on at the end of the turn."""
        if not self._came:
            asyncio.get_running_loop().call_soon(self._take_all)
        self._came.append(came)

    def say(self, send: Callable[[bytes], None], answer: bytes) -> None:
        """Send this answer at the end of the turn."""
        if not self._said:
            asyncio.get_running_loop().call_soon(self._say_all)
        self._said.append((send, answer))

    def _take_all(self) -> None:
        came, self._came = self._came, []
        arrivals.answer_soon(self._service, came)

    def _say_all(self) -> None:
        said, self._said = self._said, []
        for send, answer in said:
            try:
                send(answer)
            except Exception as error:  # noqa: BLE001 - the others must hear as well
                log.error(UNEXPECTED, where="answer", error=type(error).__name__, exc_info=error)


class DoorProtocol(HttpToolsProtocol):
    """Takes `POST /in/…` itself and leaves the rest to uvicorn."""

    def __init__(self, *arguments: Any, service: Service, turn: Turn, **named: Any) -> None:
        super().__init__(*arguments, **named)
        self.service = service
        self.turn = turn
        # Whether the parser stands between two requests, so that what comes begins a new one.
        self._between = True
        # One for all requests that are seen at a glance: each is answered before the next.
        self._glanced = ArrivalCycle(self)
        self._used_at = 0.0

    def data_received(self, data: bytes) -> None:
        """Take a request that is seen whole at a glance; leave any other to the parser."""
        if self._between and data.startswith(_START) and self._is_free():
            asked = glance(data)
            if asked is not None and len(asked.body) <= self.service.body_bytes_max:
                cycle = self._glanced
                cycle.response_complete = False
                self.cycle = cycle  # type: ignore[assignment]
                cycle.take(asked)
                return
        super().data_received(data)

    def on_message_begin(self) -> None:
        """Remember that a request is half read."""
        self._between = False
        super().on_message_begin()

    def on_headers_complete(self) -> None:
        """Begin a request."""
        if (
            not self.url.startswith(_PREFIX)
            or self.parser.get_method() != b"POST"
            or self.expect_100_continue
        ):
            super().on_headers_complete()
            return
        free, parser = self._is_free(), self.parser
        cycle = ArrivalCycle(
            self,
            url=self.url,
            headers=self.headers,
            keep_alive=parser.get_http_version() != "1.0" and parser.should_keep_alive(),
        )
        self.cycle = cycle  # type: ignore[assignment]
        if not free:
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
        self._between = True
        cycle = self.cycle
        if not isinstance(cycle, ArrivalCycle):
            super().on_message_complete()
            return
        cycle.more_body = False
        if cycle.message_event is not _NOBODY:
            cycle.message_event.set()
        elif not cycle.response_complete:
            cycle.take(cycle.asked())

    def answered(self) -> None:
        """Go on after an answer: with the next request, or with waiting for one."""
        if self.pipeline or self.timeout_keep_alive_task is None:
            self.on_response_complete()
        else:
            # Setting the timer anew for each request would cost more than looking at the clock.
            self.server_state.total_requests += 1
        self._used_at = self.loop.time()

    def timeout_keep_alive_handler(self) -> None:
        """Hang up on a connection that was not used for a while."""
        left = self._used_at + self.timeout_keep_alive - self.loop.time()
        if not self._is_free():
            left = self.timeout_keep_alive
        if left <= 0:
            super().timeout_keep_alive_handler()
            return
        self.timeout_keep_alive_task = self.loop.call_later(left, self.timeout_keep_alive_handler)

    def start_task(self, cycle: "ArrivalCycle") -> None:
        """Let uvicorn run what must wait, and wait for it when it stops."""
        self._start_asgi_task(cycle, self.app)  # type: ignore[arg-type]

    def _is_free(self) -> bool:
        return self.cycle is None or self.cycle.response_complete


class _Nobody:
    """Stands where uvicorn sets an event that nobody waits for."""

    def set(self) -> None:
        """Wake nobody."""


_NOBODY = _Nobody()


class ArrivalCycle:
    """One arrival and its answer, with the attributes that uvicorn looks at."""

    __slots__ = (
        "_asked", "_headers", "_parts", "_protocol", "_size", "_url", "disconnected", "keep_alive",
        "message_event", "more_body", "response_complete",
    )  # fmt: skip

    def __init__(
        self,
        protocol: DoorProtocol,
        *,
        url: bytes = b"",
        headers: list[tuple[bytes, bytes]] | None = None,
        keep_alive: bool = True,
    ) -> None:
        self._protocol = protocol
        self._asked: Asked | None = None
        self._url = url
        self._headers = headers
        self._parts: list[bytes] = []
        self._size = 0
        self.keep_alive = keep_alive
        self.message_event: asyncio.Event | _Nobody = _NOBODY
        self.more_body = True
        self.response_complete = False
        self.disconnected = False

    def take(self, asked: Asked) -> None:
        """Hand the arrival on."""
        protocol = self._protocol
        protocol.turn.take(arrivals.Came(asked, protocol.client, self._answer, self._delay))

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
        # At once: what still comes must find that it is answered.
        reply = arrivals.too_large(self._protocol.service, self.asked())
        self._send(_written(reply, keep_alive=False))

    def declares_too_much(self) -> bool:
        """Say whether the body, by its own word, is above the limit."""
        length = next(
            (value for name, value in self._headers or () if name == b"content-length"), b"0"
        )
        return length.isdigit() and int(length) > self._protocol.service.body_bytes_max

    def asked(self) -> Asked:
        """Put together what the parser has read."""
        url = httptools.parse_url(self._url)
        return Asked(
            url.path.decode("latin-1"),
            (url.query or b"").decode("latin-1"),
            {
                name.decode("latin-1"): value.decode("latin-1")
                for name, value in self._headers or ()
            },
            self._parts[0] if len(self._parts) == 1 else b"".join(self._parts),
        )

    async def run_asgi(self, app: Any) -> None:
        """Take the arrival; the name is uvicorn's."""
        del app
        event = self.message_event
        while self.more_body and not self.disconnected and isinstance(event, asyncio.Event):
            await event.wait()
            event.clear()
        if self.more_body or self.response_complete:
            return
        protocol = self._protocol
        asked = self._asked or self.asked()
        self._answer(await arrivals.answer(protocol.service, "POST", asked, protocol.client))

    def _delay(self, asked: Asked) -> None:
        """Wait for the answer in a task."""
        self._asked = asked
        self.more_body = False
        self._protocol.start_task(self)

    def _answer(self, reply: Reply) -> None:
        self._protocol.turn.say(self._send, _written(reply, keep_alive=self.keep_alive))

    def _send(self, answer: bytes) -> None:
        protocol = self._protocol
        self.response_complete = True
        transport = protocol.transport
        if self.disconnected or transport.is_closing():
            return
        transport.write(answer)
        if self.keep_alive:
            protocol.answered()
        else:
            transport.close()


def _written(reply: Reply, *, keep_alive: bool) -> bytes:
    if reply.code == HTTPStatus.NO_CONTENT:
        head, body = _LINES[reply.code], b""
    else:
        body = orjson.dumps(reply.body)
        head = b"%s%s%d\r\n" % (_LINES[reply.code], _JSON, len(body))
    if reply.headers:
        head += b"".join(
            f"{name.lower()}: {value}\r\n".encode() for name, value in reply.headers.items()
        )
    if reply.retry_after_s is not None:
        head += b"retry-after: %d\r\n" % reply.retry_after_s
    if not keep_alive:
        head += b"connection: close\r\n"
    return b"%s\r\n%s" % (head, body)
