"""The short way for arrivals: uvicorn's connections, without ASGI in between.

A packet that holds a whole `POST /in/…` with plain headers is read by one expression
(`request.read_whole`) and joins what else arrived in this turn of the event loop (`loop_turn`). At
the end of the turn all of them go through `pipeline/receive` in lockstep, up to the group commit.
Its commit answers each with one write, at the end of a later turn. A whole `POST /v1/sends` of a
known key is taken likewise (`submission_cycle`), and so is a request that waits for mail
(`wait_cycle`). What must wait (a key to be fetched, a large
body, a template) goes on as a task of uvicorn's. Whatever is unusual goes to the parser, and
every other path is uvicorn's business; `bounded_protocol` sets limits to all of it. ASGI's
messages, events and second write would cost as much as verifying and parsing together.

A crash before the commit answers nobody, so the sender tries again. One between the commit and the
write makes the next try a copy, which is answered 2xx. A client that hangs up meanwhile changes
neither: what was handed on is recorded, and its answer is dropped.
"""

import re
from collections import deque
from typing import Any, TypeVar

from mailonce.edge.connections import DoorRefusal
from mailonce.edge.http import arrivals, body_reader, client_limits, framing, submit
from mailonce.edge.http.arrival_cycle import ArrivalCycle
from mailonce.edge.http.bounded_protocol import BoundedProtocol
from mailonce.edge.http.loop_turn import Turn
from mailonce.edge.http.request import read_whole
from mailonce.edge.http.submission_cycle import SubmissionCycle, caller_of
from mailonce.edge.http.wait_cycle import WaitCycle, begin_wait
from mailonce.edge.http.wait_request import START as WAIT_START
from mailonce.service import Service

_PREFIX = arrivals.PREFIX.encode()
_STARTS = (b"POST " + _PREFIX, b"POST " + submit.PATH.encode() + b" ")
_NEVER = b"\0"
_NO_PIPELINE: deque[Any] = deque(maxlen=0)
# Where the API takes a mail, which may be as large as an arrival.
_MAIL_PATH = re.compile(body_reader.MAIL_PATH.encode())
WHOLE_BYTES_MAX = 64 << 10
Cycle = TypeVar("Cycle", bound=ArrivalCycle)
_CONTINUE = b"HTTP/1.1 100 Continue\r\n\r\n"
_LARGE_BODY = DoorRefusal(413, "api_body_bytes", "the body is too large for this path; send less")


class DoorProtocol(BoundedProtocol):
    """Takes `POST /in/…` itself and leaves the rest to uvicorn."""

    def __init__(
        self, *arguments: Any, service: Service, turn: Turn, is_door: bool = True, **named: Any
    ) -> None:
        super().__init__(*arguments, **named)
        self.service = service
        self.turn = turn
        # A connection takes one request at a time, and thousands wait: uvicorn's own takes as much
        # as all the rest that is kept of one of them.
        self.pipeline = _NO_PIPELINE
        # A process that is no door takes no arrivals.
        self._prefix = _PREFIX if is_door else _NEVER
        self._starts: tuple[bytes, ...] = _STARTS if is_door else (_NEVER,)
        self._wait_start = WAIT_START if is_door else _NEVER
        limits = self.limits
        self._whole_bytes_max = min(WHOLE_BYTES_MAX, limits.body_bytes_max, limits.head_bytes_max)
        self._api_body_bytes_max = limits.api_body_bytes_max
        # One for all requests that are read whole: each is answered before the next.
        self._whole = ArrivalCycle(self)
        self._submission = SubmissionCycle(self)

    def data_received(self, data: bytes) -> None:
        """Take a request that came whole; leave any other to the parser."""
        if (
            self.is_between
            and data.startswith(self._starts)
            and len(data) <= self._whole_bytes_max
            and (self.cycle is None or self.cycle.response_complete)
        ):
            request = read_whole(data)
            if request is not None and len(request.headers) <= self.limits.headers_max:
                if request.path != submit.PATH:
                    self._begin(self._whole).take(request)
                    return
                caller = caller_of(self.service, request)
                if caller is not None:
                    self._begin(self._submission).begin(request, caller)
                    return
        elif self.is_between and data.startswith(self._wait_start) and self._takes_wait(data):
            return
        self.read(data)

    def _takes_wait(self, data: bytes) -> bool:
        """Take a request that waits; False where the API does."""
        if not self.is_free or self.is_local or self.flow.write_paused:
            return False
        if len(data) > self._whole_bytes_max or data.count(b"\n") > self.limits.headers_max + 2:
            return False
        cycle = begin_wait(self, data)
        if cycle is None:
            return False
        self.cycle = cycle  # type: ignore[assignment]
        self.start_task(cycle)
        return True

    def read_again(self, data: bytes, *, keep_alive: bool) -> None:
        """Hand a request to the API from its beginning; what followed it still waits."""
        rest, self._rest = self._rest, b""
        self.cycle = None  # type: ignore[assignment]
        self.release()
        self.read(data)
        if self.cycle is not None and not keep_alive:
            self.cycle.keep_alive = False
        if rest and not self.is_done:
            self._keep_rest(rest)

    def _begin(self, cycle: Cycle) -> Cycle:
        cycle.response_complete = False
        self.cycle = cycle  # type: ignore[assignment]
        return cycle

    def on_headers_complete(self) -> None:
        self.begin_body()
        parser = self.parser
        if not framing.names_one_host(self.headers, parser.get_http_version()):
            self.refuse(client_limits.BAD_HOST)
            return
        if not self.url.startswith(self._prefix) or parser.get_method() != b"POST":
            self._api_body_bytes_max = (
                self.limits.body_bytes_max
                if _MAIL_PATH.match(self.url)
                else self.limits.api_body_max(self.url)
            )
            if self.body_left > self._api_body_bytes_max:
                self.refuse(_LARGE_BODY)
                return
            super().on_headers_complete()
            self.cycle.transport = _Transport(self)  # type: ignore[assignment]
            return
        cycle = ArrivalCycle(
            self,
            url=self.url,
            headers=self.headers,
            keep_alive=parser.get_http_version() != "1.0" and parser.should_keep_alive(),
        )
        self.cycle = cycle  # type: ignore[assignment]
        if self.body_left > self.limits.body_bytes_max and not cycle.admits(self.body_left):
            return
        if self.expect_100_continue and self.in_body:
            self.transport.write(_CONTINUE)

    def on_body(self, body: bytes) -> None:
        """Gather a body, up to the limit."""
        if not self.count_body(body):
            return
        cycle = self.cycle
        if isinstance(cycle, ArrivalCycle):
            if self.body_bytes <= self.limits.body_bytes_max or cycle.admits(self.body_bytes):
                cycle.gather(body)
        elif self.body_bytes > self._api_body_bytes_max:
            self.refuse(_LARGE_BODY)
        else:
            super().on_body(body)

    def on_message_complete(self) -> None:
        """Hand on an arrival that is whole."""
        if self.is_done:
            return
        self.in_body, self.is_between = False, True
        cycle = self.cycle
        if not isinstance(cycle, ArrivalCycle):
            super().on_message_complete()
        elif not cycle.response_complete:
            cycle.take(cycle.request())

    @property
    def is_judged(self) -> bool:
        """Whether an arrival came whole and is not answered yet."""
        cycle = self.cycle
        return isinstance(cycle, ArrivalCycle) and not (self.in_body or cycle.response_complete)

    def start_task(self, cycle: ArrivalCycle | WaitCycle) -> None:
        """Let uvicorn run what must wait, and wait for it when it stops."""
        self._start_asgi_task(cycle, self.app)  # type: ignore[arg-type]


class _Transport:
    """The transport as uvicorn's cycle sees it: it closes when the client could read why."""

    def __init__(self, protocol: DoorProtocol) -> None:
        self.write = protocol.transport.write
        self.is_closing = protocol.transport.is_closing
        self.close = protocol.hang_up
