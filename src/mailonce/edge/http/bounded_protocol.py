"""Uvicorn's connections with limits: what one client may send, hold and leave unread, and how long.

A connection takes one request at a time. What follows an unanswered one waits as bytes, and
reading pauses: a client that sends without end, or never reads its answers, stops by itself.
What is half sent has a time limit (`ClientConnections` looks each second) and counts against the
bytes that all connections may hold together. It stays counted until it is answered, also where the
client has gone: else hanging up would make it free. A client that is refused is answered with
the reason, and is given a moment to read it. Keep-alive has no timer per connection either.
"""

import asyncio
from typing import Any

import httptools
from uvicorn.protocols.http.httptools_impl import HttpToolsProtocol

from mailonce.edge.connections import ClientConnections, DoorRefusal
from mailonce.edge.http import client_limits, framing
from mailonce.edge.http.arrival_cycle import written_refusal
from mailonce.edge.http.client_limits import (
    LINGER_BYTES_MAX,
    LINGER_S,
    PIECE_BYTES_MAX,
    DoorLimits,
)
from mailonce.edge.http.flow_control import Flow
from mailonce.telemetry import UNEXPECTED, log

CHUNKED = -1


class BoundedProtocol(HttpToolsProtocol):
    """A connection that takes one request at a time, within limits."""

    def __init__(
        self, *arguments: Any, connections: ClientConnections[DoorLimits], **named: Any
    ) -> None:
        super().__init__(*arguments, **named)
        self.limits = connections.limits
        self.address: str | None = None
        self.is_local = True
        self._all = connections
        # Whether what comes begins a new request; else it is the parser's, or must wait.
        self.is_between = True
        self.in_body = False
        # How much of a declared body is to come, or CHUNKED; how much has come.
        self.body_left = self.body_bytes = 0
        # Bytes since the last of a body: chunk extensions and trailers, which nobody needs.
        self._framing_bytes = 0
        # The last bytes of a body so far.
        self._last = b""
        # The incomplete head of a request, and what followed one that is not answered yet.
        self._head = self._rest = b""
        self.held = 0
        self._passed_bytes = self._unsent = 0
        self._is_half_closed = self._is_used = False
        # Set when nothing more is taken from this client; until when it may go on sending.
        self.is_done = False
        self._leaves_at: float | None = None
        self._began_at = self._read_at = self._used_at = self._unsent_at = 0.0

    def connection_made(self, transport: asyncio.Transport) -> None:  # type: ignore[override]
        """Take a connection, unless there are too many."""
        super().connection_made(transport)
        self.flow: Flow = Flow(transport, self.may_read, self._all.wait_turn)
        self._used_at = now = self.loop.time()
        if self.client is not None:
            self.is_local = False
            self.address = self._all.counts_for(self.client[0])
        refusal = self._all.admit(self, now)
        if refusal is not None:
            self.refuse(refusal)

    def connection_lost(self, exc: Exception | None) -> None:
        """Release everything but the body that is being processed."""
        is_judged = self.is_judged
        super().connection_lost(exc)
        self._all.remove(self)
        if not (is_judged or self.is_done):
            self.release()
        self.is_done = True
        self._head = self._rest = b""
        self.cycle = None  # type: ignore[assignment]

    def eof_received(self) -> bool:  # type: ignore[override]
        """Answer complete requests before closing: a client that sends no more may still read."""
        if self.is_free or self.in_body or self.is_done:
            return False
        self._is_half_closed = True
        self.cycle.keep_alive = False
        return True

    def read(self, data: bytes) -> None:
        """Give the parser one request; what follows an unanswered one waits."""
        if len(data) >= PIECE_BYTES_MAX:
            self.flow.breathe()
        if self.is_done:
            self._pass_over(len(data))
            return
        if self._rest:
            self._keep_rest(data)
            return
        cuts = 0
        try:
            while data and not self.is_done:
                if not (self.in_body or self.is_free):
                    self._keep_rest(data)
                    return
                cuts += 1
                data = self._read_body(data, cuts) if self.in_body else self._read_head(data)
        except (httptools.HttpParserError, httptools.HttpParserUpgrade) as error:
            cause = error.__context__
            if cause is not None and not isinstance(
                cause, httptools.HttpParserError | UnicodeDecodeError
            ):
                log.error(UNEXPECTED, where="parser", error=type(cause).__name__, exc_info=cause)
            self.refuse(client_limits.BAD_REQUEST)

    def _pass_over(self, count: int) -> None:
        self._passed_bytes += count
        if self._passed_bytes > LINGER_BYTES_MAX:
            self.transport.abort()

    def _read_head(self, data: bytes) -> bytes:
        if not self._head:
            self._began_at = self.loop.time()
        head = self._head + data
        end = framing.head_end(head)
        if (len(head) if end < 0 else end) > self.limits.head_bytes_max:
            self.refuse(client_limits.LONG_HEAD)
        # One line for the request, an empty one at the end.
        elif head.count(b"\n", 0, len(head) if end < 0 else end) > self.limits.headers_max + 2:
            self.refuse(client_limits.MANY_HEADERS)
        elif end >= 0:
            self._head = b""
            self.release()
            self.parser.feed_data(framing.without_upgrade(head[:end]))
            self.is_between = not (self.in_body or self.is_done)
            return head[end:]
        elif framing.begins_like_a_request(head):
            self._head, self.is_between = head, False
            self.hold(len(data))
        else:
            self.refuse(client_limits.BAD_REQUEST)
        return b""

    def _read_body(self, data: bytes, cuts: int) -> bytes:
        self._read_at = self.loop.time()
        is_chunked = self.body_left == CHUNKED
        if is_chunked:
            end = framing.chunked_end(self._last, data, cuts=cuts)
            self._framing_bytes += end
        else:
            end = min(len(data), self.body_left)
            self.body_left -= end
        piece = data if end == len(data) else data[:end]
        self.parser.feed_data(piece)
        self._last = (self._last + piece[-3:])[-3:]
        if is_chunked and self._framing_bytes > self.limits.head_bytes_max and not self.is_done:
            self.refuse(client_limits.LONG_HEAD)
        return data[end:]

    def _keep_rest(self, data: bytes) -> None:
        self.is_between = False
        self._rest += data
        self.flow.pause_reading()
        self.hold(len(data))

    def on_message_begin(self) -> None:
        if not self.is_free:
            # Only a chunked body that wastes its cuts gets here.
            raise httptools.HttpParserError("a request follows one that is not answered")
        super().on_message_begin()

    def on_header(self, name: bytes, value: bytes) -> None:
        """Keep a header; trailers after a body are ignored."""
        if not self.in_body:
            super().on_header(name, value)

    def begin_body(self) -> None:
        """Find out how long the body is; the parser has checked the headers that say so."""
        self.body_left = self.body_bytes = self._framing_bytes = 0
        self._last = b""
        for name, value in self.headers:
            if name == b"transfer-encoding":
                self.body_left = CHUNKED
                break
            if name == b"content-length":
                self.body_left = int(value)
        self.in_body = self.body_left != 0

    def count_body(self, body: bytes) -> bool:
        """Count a piece of the body; say whether it is still wanted."""
        if self.is_done or self.cycle.response_complete:
            return False
        self.body_bytes += len(body)
        self._framing_bytes = 0
        return self.hold(len(body))

    def answered(self) -> None:
        """Go on after an answer: with what waits, or with waiting."""
        self._used_at = self.loop.time()
        self._is_used = True
        if self.held or not self.is_between:
            self._go_on()

    def on_response_complete(self) -> None:
        """Go on after an answer of uvicorn's."""
        self.server_state.total_requests += 1
        if not (self.is_done or self.transport.is_closing()):
            self.answered()

    def _go_on(self) -> None:
        self.release()
        if self.in_body:
            # The answer did not wait for the body, which may be long.
            self.leave()
            return
        if not self._rest:
            self.is_between = True
            self.flow.resume_reading()
        elif self.hold(len(self._rest)):
            self._all.wait_turn(self._read_rest)

    def _read_rest(self) -> None:
        if self.is_done or self.flow.write_paused or not self.is_free:
            # Closed, or not yet due: the next answer or read schedules another turn.
            return
        rest, self._rest = self._rest, b""
        self.release()
        self.is_between = True
        self.read(rest)
        self.flow.resume_reading()

    def pause_writing(self) -> None:
        """Read no more from a client that does not read its answers."""
        super().pause_writing()
        self.flow.pause_reading()
        self._all.hold_unread(self, self.transport.get_write_buffer_size())

    def resume_writing(self) -> None:
        """Go on when the client has read."""
        super().resume_writing()
        self._all.release_unread(self)
        if self._rest:
            self._all.wait_turn(self._read_rest)
        self.flow.resume_reading()

    @property
    def is_free(self) -> bool:
        """Whether no request is being read or answered."""
        return self.cycle is None or self.cycle.response_complete

    @property
    def is_judged(self) -> bool:
        """Whether what is held will be released by its answer, even if the client has gone."""
        return False

    def may_read(self) -> bool:
        """Whether more may come: nothing waits, and answers are read."""
        return self.is_done or not (self._rest or self.flow.write_paused)

    @property
    def waits_for_client(self) -> bool:
        """Whether it is the client's turn."""
        return (self.in_body or self.is_free) and not self.is_done

    @property
    def waiting_since(self) -> float:
        """When the client's turn began."""
        return self._began_at if self.in_body or self._head else self._used_at

    @property
    def half_read_bytes(self) -> int:
        """How much is held for a client that does not send, or read, what it should."""
        return self.held if self.in_body or self._head or self.flow.write_paused else 0

    def look(self, now: float) -> None:
        """End what has taken too long."""
        if self._leaves_at is not None:
            if now >= self._leaves_at:
                self.transport.abort()
        elif self._is_unread(now):
            self._all.count(client_limits.UNREAD)
            self.transport.abort()
        elif self.in_body:
            last_at = max(self._began_at, self._read_at)
            if self.limits.is_slow(self.body_bytes, now - self._began_at, silent_s=now - last_at):
                self.refuse(client_limits.SLOW_BODY)
        elif self._head:
            if now - self._began_at > self.limits.head_timeout_s:
                self.refuse(client_limits.SLOW_HEAD)
        elif (
            self.is_free and not self._is_used and now - self._used_at > self.limits.head_timeout_s
        ):
            self._all.count(client_limits.SILENT)
            self.transport.close()
        elif self.is_free and now - self._used_at > self.limits.idle_timeout_s:
            self.transport.close()

    def _is_unread(self, now: float) -> bool:
        """Say whether the client has read nothing of its answers for too long."""
        unsent = self.transport.get_write_buffer_size()
        if not unsent or unsent < self._unsent or not self._unsent:
            self._unsent_at = now
        self._unsent = unsent
        return bool(unsent) and now - self._unsent_at > self.limits.answer_timeout_s

    def refuse(self, refusal: DoorRefusal) -> None:
        """Say why no more is taken from this client, and hang up."""
        self._all.count(refusal)
        if self._end_cycle():
            self.transport.write(written_refusal(refusal))
        self.leave()

    def give_way(self, refusal: DoorRefusal) -> None:
        """Close to make room for others; say why where a request had begun."""
        if self.transport.get_write_buffer_size():
            # Closing would wait for a client that does not read.
            self._all.count(refusal)
            self._end_cycle()
            self._let_go()
            self.transport.abort()
        elif self.in_body or self._head:
            self.refuse(refusal)
        else:
            self._all.count(refusal)
            self.hang_up()

    def hang_up(self) -> None:
        """Close after an answer; a client that is still sending must first read it."""
        if self.in_body:
            self.leave()
        else:
            self._let_go()
            self.transport.close()

    def leave(self) -> None:
        """Send no more, and discard what still arrives for a moment."""
        if self.is_done:
            return
        self._let_go()
        if self._is_half_closed or not self._all.let_linger(self):
            self.transport.close()
            return
        self._leaves_at = self.loop.time() + LINGER_S
        self.transport.write_eof()
        self.flow.resume_reading()

    def shutdown(self) -> None:
        """Stop: what is whole is still answered, what is half sent is not waited for."""
        if self.is_done:
            self.transport.close()
        elif self.in_body or self._head:
            self.refuse(client_limits.STOPPING)
        else:
            super().shutdown()

    def hold(self, count: int) -> bool:
        """Count received bytes; refuse them where there is no room."""
        self.held += count
        if self._all.hold(self, count, self.loop.time()):
            return True
        self.refuse(client_limits.NO_ROOM)
        return False

    def hold_judged(self, count: int) -> bool:
        """Count a body that waits to be judged; say whether there is room."""
        more = max(0, count - self.held)
        if not self._all.hold(self, more, self.loop.time()):
            self._all.release(more)
            return False
        self.held += more
        return True

    def release(self) -> None:
        """Count nothing any more."""
        if self.held:
            self._all.release(self.held)
            self.held = 0

    def _let_go(self) -> None:
        if not self.is_judged:
            self.release()
        self.is_done = True
        self.is_between = self.in_body = False
        self._head = self._rest = b""
        # It may hold half a body.
        self.cycle = None  # type: ignore[assignment]

    def _end_cycle(self) -> bool:
        """Reserve the answer to the request under way; say whether nobody else has begun it."""
        cycle = self.cycle
        if cycle is None or cycle.response_complete:
            return True
        cycle.disconnected = True
        cycle.message_event.set()
        return not cycle.response_started
