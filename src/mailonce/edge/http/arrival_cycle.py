"""One arrival and its answer, as the connection that it came on sees them."""

import asyncio
from http import HTTPStatus
from typing import Any, Protocol

import httptools
import orjson

from mailonce.edge.connections import DoorRefusal
from mailonce.edge.http import arrivals
from mailonce.edge.http.loop_turn import Turn
from mailonce.edge.http.problems import problem_json
from mailonce.edge.http.request import ArrivalRequest
from mailonce.pipeline.drive_flows import drive
from mailonce.pipeline.receive import Flow, Reply, Step
from mailonce.service import Service

_LINES = {
    status.value: f"HTTP/1.1 {status.value} {status.phrase}\r\n".encode() for status in HTTPStatus
}
_NO_CONTENT = HTTPStatus.NO_CONTENT.value
_JSON = b"content-type: application/json\r\ncontent-length: "
_PROBLEM = b"content-type: application/problem+json\r\nconnection: close\r\ncontent-length: "
NO_ROOM = Reply(503, {"detail": "too many requests are being processed; try again"}, 2)


class Line(Protocol):
    """The connection on which an arrival came."""

    service: Service
    turn: Turn
    client: arrivals.Client
    transport: asyncio.Transport

    def start_task(self, cycle: "ArrivalCycle") -> None:
        """Run what must wait in a task."""

    def hold_judged(self, count: int) -> bool:
        """Count a body that waits to be judged; say whether there is room."""

    def release(self) -> None:
        """Count it no longer."""

    def answered(self) -> None:
        """Go on after an answer."""

    def hang_up(self) -> None:
        """Close after an answer."""


class _Nobody:
    """Stands in for an event that uvicorn sets and nobody waits for."""

    def set(self) -> None:
        """Wake nobody."""


_NOBODY = _Nobody()


class ArrivalCycle:
    """One arrival and its answer, with the attributes that uvicorn looks at."""

    __slots__ = (
        "_body", "_body_bytes", "_bytes_max", "_headers", "_line", "_url", "_waiting",
        "disconnected", "keep_alive", "message_event", "response_complete",
    )  # fmt: skip
    # An arrival is answered in one write.
    response_started = False

    def __init__(
        self,
        line: Line,
        *,
        url: bytes = b"",
        headers: list[tuple[bytes, bytes]] | None = None,
        keep_alive: bool = True,
    ) -> None:
        self._line = line
        # A flow that waits, and the step for which it does.
        self._waiting: tuple[Flow, Step] | None = None
        self._body_bytes = 0
        # How large a body may be, once somebody had to ask.
        self._bytes_max: int | None = None
        self._url = url
        self._headers = headers
        # Grown in place: a list of pieces would leave holes all over the heap.
        self._body = bytearray()
        self.keep_alive = keep_alive
        self.message_event = _NOBODY
        self.response_complete = False
        self.disconnected = False

    def take(self, request: ArrivalRequest) -> None:
        """Hand the arrival on."""
        line = self._line
        self._body_bytes = len(request.body)
        line.turn.take(request, line.client, self)

    def gather(self, part: bytes) -> None:
        """Keep a part of the body."""
        self._body += part

    def admits(self, body_bytes: int) -> bool:
        """Say whether a body as large as only mail is may be taken; what may not is answered."""
        line = self._line
        limit: int | Reply | None = self._bytes_max
        if limit is None:
            limit = arrivals.bytes_max_of(line.service, self._head(b""), line.client)
        if isinstance(limit, int):
            self._bytes_max = limit
            if body_bytes <= limit:
                return True
            limit = arrivals.too_large(line.service, self._head(b""), limit)
        # At once, and hanging up: what still comes must find that it is answered.
        self._body.clear()
        self.keep_alive = False
        self._send(written(limit, keep_alive=False))
        return False

    def request(self) -> ArrivalRequest:
        """Put together what the parser has read, and keep nothing of it."""
        body, self._body = self._body, bytearray()
        request = self._head(bytes(body))
        self._headers = None
        return request

    def _head(self, body: bytes) -> ArrivalRequest:
        url, headers = httptools.parse_url(self._url), self._headers or ()
        return ArrivalRequest(
            url.path.decode("latin-1"),
            (url.query or b"").decode("latin-1"),
            {name.decode("latin-1"): value.decode("latin-1") for name, value in headers},
            body,
        )

    async def run_asgi(self, app: Any) -> None:
        """Wait for what the arrival needs; the name is uvicorn's."""
        del app
        waiting, self._waiting = self._waiting, None
        assert waiting is not None, "only what must wait runs in a task"
        self.answer(await drive(self._line.service.receiving, *waiting))

    def wait(self, flow: Flow, step: Step) -> None:
        """Go on in a task, if there is room for one more body that waits."""
        if not self._line.hold_judged(self._body_bytes):
            flow.close()
            self.answer(NO_ROOM)
            return
        self._waiting = (flow, step)
        self._line.start_task(self)

    def answer(self, reply: Reply) -> None:
        """Send the answer at the end of the turn."""
        self._line.turn.send_at_end(self._send, written(reply, keep_alive=self.keep_alive))

    def _send(self, answer: bytes) -> None:
        line = self._line
        self.response_complete = True
        transport = line.transport
        if self.disconnected or transport.is_closing():
            line.release()
            return
        transport.write(answer)
        if self.keep_alive:
            line.answered()
        else:
            line.hang_up()


def written(reply: Reply, *, keep_alive: bool) -> bytes:
    """Write a whole answer."""
    if reply.code == _NO_CONTENT:
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


def written_refusal(refusal: DoorRefusal) -> bytes:
    """Write the answer of the door itself, after which it hangs up."""
    body = problem_json(refusal.code, refusal.detail, kind=refusal.reason)
    later = b"\r\nretry-after: 2" if refusal.code in {429, 503} else b""
    return b"%s%s%d%s\r\n\r\n%s" % (_LINES[refusal.code], _PROBLEM, len(body), later, body)
