"""One HTTP/1.1 connection: a request at a time, its answer read within bounds.

An answer is known once its status and headers are there. Of the body no more than wanted is kept;
what is cut off, or does not end in time, does not change what was answered, so only a caller who
wants the whole body is told. A connection is used again only after an answer that ended where it
said it would, with nothing behind it. Anything that comes unasked closes it.
"""

import asyncio
from collections.abc import Callable
from typing import NamedTuple

from httptools import HttpParserError, HttpParserUpgrade, HttpResponseParser

from mailonce.net.dialer import DialedConnection

# Of everything before the answer's body, interim answers (1xx) included.
HEAD_BYTES_MAX = 64 * 1024
HEADERS_MAX = 256
# Long enough for one turn of the loop; a time of 0 would end within the same one.
TURN_S = 0.001


class RawResponse(NamedTuple):
    """An answer; `body` may go beyond what was asked for, `is_whole`: it is all of it.

    Not `is_asked`: it came before the request was sent to its end.
    """

    status: int
    headers: list[tuple[bytes, bytes]]
    body: bytes
    is_whole: bool
    is_asked: bool


class BrokenError(Exception):
    """The peer closed the connection or does not speak HTTP; the text says which."""


class OutgoingConnection(DialedConnection):
    """A connection that was made; `ended` is called when a request is over, or the connection."""

    def __init__(
        self, loop: asyncio.AbstractEventLoop, ended: Callable[["OutgoingConnection"], None]
    ) -> None:
        self._loop = loop
        self._ended = ended
        self._reply: asyncio.Future[RawResponse] | None = None
        self._writable = asyncio.Event()
        self._writable.set()
        self.is_closed = False
        # When it was given back, by the loop's clock.
        self.idle_since_s = 0.0
        # How many requests it has carried.
        self.requests = 0

    @property
    def is_usable(self) -> bool:
        """Say whether a request can still be sent; a transport knows its end before we do."""
        assert self._transport is not None, "the connection was not made"
        return not self.is_closed and not self._transport.is_closing()

    def ask(
        self, request: bytes, *, bytes_max: int, timeout_s: float, is_sent: bool = True
    ) -> "asyncio.Future[RawResponse]":
        """Send a request, and give a future of the answer; `is_sent`: nothing is to follow.

        The future fails with TimeoutError or BrokenError.
        """
        assert self._reply is None, "one request at a time"
        assert self._transport is not None, "the connection was not made"
        self._bytes_max = bytes_max
        self._parser = HttpResponseParser(self)
        self._headers: list[tuple[bytes, bytes]] = []
        self._body: list[bytes] = []
        self._body_bytes = 0
        self._received = 0
        self._status = 0
        self._is_complete = False
        self._keeps = False
        self._is_sent = is_sent
        self.requests += 1
        reply = self._reply = self._loop.create_future()
        self._timer = self._loop.call_later(timeout_s, self._expire)
        if self.is_closed:
            self._fail(BrokenError("it closed the connection without an answer"))
        else:
            self._transport.write(request)
        return reply

    async def send(self, data: bytes, *, is_last: bool = False) -> bool:
        """Send a further piece of the request; False where it is not needed any more."""
        await self._writable.wait()
        if self._reply is None or self._transport is None:
            return False
        self._transport.write(data)
        self._is_sent = is_last
        return True

    def abort(self) -> None:
        """Close at once, whatever is under way."""
        self.is_closed = True
        super().abort()

    def close(self) -> None:
        """Close a connection that is not used any more."""
        self.is_closed = True
        if self._transport is not None:
            self._transport.close()

    # What the transport calls.

    def data_received(self, data: bytes) -> None:
        """Read on; stop where the answer is known or goes beyond its bounds."""
        if self._reply is None:
            self.abort()
            return
        self._received += len(data)
        try:
            self._parser.feed_data(data)
        except HttpParserUpgrade:
            self._is_complete, self._keeps = True, False
        except HttpParserError:
            if self._status:
                # The answer is known; what followed it was not understood.
                self._finish(is_whole=False)
            else:
                self._fail(BrokenError("the answer is not HTTP"))
            return
        if self._is_complete:
            self._finish(is_whole=True)
        elif self._body_bytes > self._bytes_max:
            self._finish(is_whole=False)
        elif self._received > self._received_max():
            if self._status:
                self._finish(is_whole=False)
            else:
                self._fail(BrokenError("the answer's headers are too large"))

    def pause_writing(self) -> None:
        """Wait with further pieces."""
        self._writable.clear()

    def resume_writing(self) -> None:
        self._writable.set()

    def connection_lost(self, exc: Exception | None) -> None:
        """End what is under way: some answers last until the connection ends."""
        self.is_closed = True
        self._writable.set()
        if self._reply is None:
            self._ended(self)
        elif self._status:
            self._finish(is_whole=exc is None and self._lasts_until_closed())
        else:
            self._fail(BrokenError("it closed the connection without an answer"))

    # What the parser calls.

    def on_message_begin(self) -> None:
        """Notice a second answer to one request."""
        self._keeps = False

    def on_header(self, name: bytes, value: bytes) -> None:
        """Note a header; what follows the body (trailers) is dropped."""
        if not self._status and len(self._headers) < HEADERS_MAX:
            self._headers.append((name, value))

    def on_headers_complete(self) -> None:
        """Note the status, unless it is an interim one."""
        if self._is_complete:
            return
        status = self._parser.get_status_code()
        if 100 <= status < 200 and status != 101:
            self._headers = []
        else:
            self._status = status

    def on_body(self, data: bytes) -> None:
        """Keep a piece of the body, up to the first that is too much."""
        if self._body_bytes <= self._bytes_max and not self._is_complete:
            self._body.append(data)
            self._body_bytes += len(data)

    def on_message_complete(self) -> None:
        """Note that the answer is there, unless it was an interim one."""
        if self._status and not self._is_complete:
            self._is_complete = True
            self._keeps = self._parser.should_keep_alive()

    def _received_max(self) -> int:
        """Bound what an answer may cost beside its body: headers, chunks of one byte, trailers."""
        return HEAD_BYTES_MAX + (8 * self._bytes_max if self._status else 0)

    def _lasts_until_closed(self) -> bool:
        return not any(
            name.lower() in {b"content-length", b"transfer-encoding"} for name, _ in self._headers
        )

    def _all_sent(self) -> bool:
        """Say whether nothing is left of the request: an answer may come before its end."""
        assert self._transport is not None, "the connection was not made"
        return self._is_sent and not self._transport.get_write_buffer_size()

    def _expire(self) -> None:
        """Give up after this turn of the loop, in which what came is read.

        After a pause of the process its time is over, but the answer may have come meanwhile.
        """
        self._timer = self._loop.call_later(TURN_S, self._give_up)

    def _give_up(self) -> None:
        if self._reply is None:
            return
        if self._status:
            self._finish(is_whole=False)
        else:
            self._fail(TimeoutError())

    def _finish(self, *, is_whole: bool) -> None:
        is_asked = self._all_sent()
        if not is_asked:
            # Closing would wait until the other side reads on, which it may never do.
            self.abort()
        elif not is_whole or not self._keeps:
            self.close()
        self._writable.set()
        reply = self._over()
        if not reply.done():
            body = self._body[0] if len(self._body) == 1 else b"".join(self._body)
            reply.set_result(RawResponse(self._status, self._headers, body, is_whole, is_asked))
        self._ended(self)

    def _fail(self, error: Exception) -> None:
        self.abort()
        reply = self._over()
        if not reply.done():
            reply.set_exception(error)
        self._ended(self)

    def _over(self) -> "asyncio.Future[RawResponse]":
        assert self._reply is not None, "a request is under way"
        self._timer.cancel()
        reply, self._reply = self._reply, None
        return reply
