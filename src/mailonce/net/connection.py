"""One HTTP/1.1 connection: a request at a time, its answer read within bounds.

An answer is known once its status and headers are there; what is cut off of its body, or does not
end in time, does not change what was answered, so only a caller who wants the whole body is told. A
connection is used again only after an answer that ended where it said it would, with nothing behind
it. Anything that comes unasked closes it.

A timer for each request would cost more than reading its answer. So a connection has one, which
goes off when the first request since would have taken too long, and is set anew if a later one is
under way by then.
"""

import asyncio
from collections.abc import Callable

from mailonce.net.dialer import DialedConnection
from mailonce.net.response import (
    BrokenError,
    EndpointResponse,
    RawHeaders,
    ResponseParser,
    read_plain,
)

# Long enough for one turn of the loop; a time of 0 would end within the same one.
TURN_S = 0.001


class OutgoingConnection(DialedConnection):
    """A connection that was made; `ended` is called when a request is over, or the connection."""

    def __init__(
        self, loop: asyncio.AbstractEventLoop, ended: Callable[["OutgoingConnection"], None]
    ) -> None:
        self._loop = loop
        self._ended = ended
        self._reply: asyncio.Future[EndpointResponse] | None = None
        self._parser: ResponseParser | None = None
        self._bytes_max = 0
        self._is_sent = True
        # When the request's time is over, and when we look at that; by the loop's clock.
        self._until_s = 0.0
        self._timer: asyncio.TimerHandle | None = None
        self._timer_s = 0.0
        self._writable = asyncio.Event()
        self._writable.set()
        self.is_closed = False
        # When it was given back, by the loop's clock.
        self.idle_since_s = 0.0

    @property
    def is_usable(self) -> bool:
        """Say whether a request can still be sent; a transport knows its end before we do."""
        assert self._transport is not None, "the connection was not made"
        return not self.is_closed and not self._transport.is_closing()

    def ask(
        self, request: bytes, *, bytes_max: int, timeout_s: float, is_sent: bool = True
    ) -> "asyncio.Future[EndpointResponse]":
        """Send a request, and give a future of the answer; `is_sent`: nothing is to follow.

        Of the answer's body there are at most `bytes_max`. The future fails with TimeoutError or
        BrokenError.
        """
        assert self._reply is None, "one request at a time"
        assert self._transport is not None, "the connection was not made"
        self._bytes_max = bytes_max
        self._is_sent = is_sent
        reply = self._reply = self._loop.create_future()
        if self.is_closed:
            self._fail(BrokenError("it closed the connection without an answer"))
            return reply
        self._until_s = self._loop.time() + timeout_s
        if self._timer is None or self._timer_s > self._until_s:
            self._set_timer(self._until_s, self._expire)
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
        if self._parser is None:
            plain = read_plain(data)
            if plain is not None:
                self._finish(*plain, keeps=True, is_whole=True)
                return
            self._parser = ResponseParser(bytes_max=self._bytes_max)
        try:
            if self._parser.feed(data):
                self._finish_parsed(self._parser, is_whole=self._parser.is_whole)
        except BrokenError as error:
            self._fail(error)

    def pause_writing(self) -> None:
        """Wait with further pieces."""
        self._writable.clear()

    def resume_writing(self) -> None:
        self._writable.set()

    def connection_lost(self, exc: Exception | None) -> None:
        """End what is under way: some answers last until the connection ends."""
        self.is_closed = True
        self._writable.set()
        parser = self._parser
        if self._timer is not None:
            self._timer.cancel()
        if self._reply is None:
            self._ended(self)
        elif parser is not None and parser.status:
            self._finish_parsed(parser, is_whole=exc is None and parser.lasts_until_closed)
        else:
            self._fail(BrokenError("it closed the connection without an answer"))

    def _set_timer(self, at_s: float, then: Callable[[], None]) -> None:
        if self._timer is not None:
            self._timer.cancel()
        self._timer_s = at_s
        self._timer = self._loop.call_at(at_s, then)

    def _expire(self) -> None:
        """Give up after this turn of the loop, in which what came is read.

        After a pause of the process its time is over, but the answer may have come meanwhile.
        """
        if self._is_late():
            self._set_timer(self._loop.time() + TURN_S, self._give_up)

    def _give_up(self) -> None:
        if not self._is_late():
            return
        if self._parser is not None and self._parser.status:
            self._finish_parsed(self._parser, is_whole=False)
        else:
            self._fail(TimeoutError())

    def _is_late(self) -> bool:
        """Say whether a request's time is over; set the timer for one that has time left."""
        self._timer = None
        if self._reply is None:
            return False
        # A timer may go off a little early: it counts in milliseconds.
        if self._until_s - self._loop.time() <= TURN_S:
            return True
        self._set_timer(self._until_s, self._expire)
        return False

    def _finish_parsed(self, parser: ResponseParser, *, is_whole: bool) -> None:
        self._finish(
            parser.status, parser.headers, parser.body, keeps=parser.keeps, is_whole=is_whole
        )

    def _finish(
        self, status: int, headers: RawHeaders, body: bytes, *, keeps: bool, is_whole: bool
    ) -> None:
        assert self._transport is not None, "the connection was not made"
        # An answer may come before the request's end.
        is_asked = self._is_sent and not self._transport.get_write_buffer_size()
        if not is_asked:
            # Closing would wait until the other side reads on, which it may never do.
            self.abort()
            self._writable.set()
        elif not (keeps and is_whole):
            self.close()
        if len(body) > self._bytes_max:
            body, is_whole = body[: self._bytes_max], False
        reply = self._over()
        if not reply.done():
            reply.set_result(EndpointResponse(status, headers, body, is_whole, is_asked))
        self._ended(self)

    def _fail(self, error: Exception) -> None:
        self.abort()
        reply = self._over()
        if not reply.done():
            reply.set_exception(error)
        self._ended(self)

    def _over(self) -> "asyncio.Future[EndpointResponse]":
        assert self._reply is not None, "a request is under way"
        if self._parser is not None:
            self._parser.close()
            self._parser = None
        reply, self._reply = self._reply, None
        return reply
