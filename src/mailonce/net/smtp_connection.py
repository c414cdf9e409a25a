"""One SMTP connection: a line out, a reply in, within bounds. Time limits are the caller's.

A reply answers the command before it and nothing else. What comes unasked is either the server's
farewell or a server that does not keep to the protocol, whose next word would be taken for the
answer to something that it was never asked; so nothing more is sent on such a connection.
"""

import asyncio
import re
import ssl
from typing import NamedTuple

from mailonce.net.dialer import TLS_CLOSE_S, DialedConnection

# A reply of many lines is what EHLO gets: some dozens.
REPLY_BYTES_MAX = 64 * 1024
LINE_BYTES_MAX = 4 * 1024
# Long enough for one turn of the loop; a time of 0 would end within the same one.
TURN_S = 0.001

_LINE = re.compile(rb"([2-5][0-9]{2})([ -]?)([^\r\n]*)")


class SmtpReply(NamedTuple):
    """A reply: its code, and the texts of its lines."""

    code: int
    lines: tuple[str, ...]

    @property
    def text(self) -> str:
        """The reply on one line, short and printable."""
        words = " ".join(" ".join(self.lines).split())
        return f"{self.code} {''.join(c for c in words if c.isprintable())[:200]}".strip()


class SmtpBrokenError(Exception):
    """The server hung up or does not speak SMTP; the text says which."""


class SmtpConnection(DialedConnection):
    """A connection that was made; one command at a time."""

    def __init__(self) -> None:
        self._buffer = b""
        self._lines: list[tuple[int, bytes]] = []
        self._waiter: asyncio.Future[SmtpReply] | None = None
        self._early: SmtpReply | None = None
        self._fault: str | None = None
        self._bytes = 0
        self._flushed = asyncio.Event()
        self._flushed.set()

    @property
    def is_usable(self) -> bool:
        """Say whether a command can be sent: nothing has come unasked, and nobody hung up."""
        assert self._transport is not None, "the connection was not made"
        is_quiet = self._early is None and not self._buffer and not self._lines
        return self._fault is None and is_quiet and not self._transport.is_closing()

    @property
    def own_address(self) -> str:
        """The address at our end, as a greeting writes it."""
        assert self._transport is not None, "the connection was not made"
        name = self._transport.get_extra_info("sockname")
        host = str(name[0]) if name else "127.0.0.1"
        return f"[IPv6:{host.partition('%')[0]}]" if ":" in host else f"[{host}]"

    async def greeting(self) -> SmtpReply:
        """Wait for what the server says first.

        Raises: SmtpBrokenError.
        """
        return await self._reply()

    async def command(self, line: str) -> SmtpReply:
        """Send one line, and wait for its reply.

        Raises: SmtpBrokenError.
        """
        assert "\r" not in line, "a command is one line"
        assert "\n" not in line, "a command is one line"
        return await self.ask(f"{line}\r\n".encode())

    async def ask(self, data: bytes) -> SmtpReply:
        """Send bytes, and wait for the reply to them.

        Raises: SmtpBrokenError.
        """
        self.check_quiet()
        assert self._transport is not None, "the connection was not made"
        self._transport.write(data)
        return await self._reply()

    async def late_reply(self) -> SmtpReply | None:
        """Give the reply for which nobody waits any more, where it has come; None where not.

        After a pause of the process the time to wait is over before what came meanwhile is read.
        """
        # A turn of the loop, in which that is read.
        await asyncio.sleep(TURN_S)
        reply, self._early = self._early, None
        return reply

    async def send(self, data: bytes) -> None:
        """Send bytes to which nothing is replied, and wait until the last of them has left.

        Raises: SmtpBrokenError.
        """
        self.check_quiet()
        assert self._transport is not None, "the connection was not made"
        # So that it is reported when the buffer has run empty.
        self._transport.set_write_buffer_limits(high=0)
        self._transport.write(data)
        await self._flushed.wait()
        self.check_quiet()

    def check_quiet(self) -> None:
        """See that nothing has come unasked.

        Raises: SmtpBrokenError.
        """
        if self._fault is not None:
            raise SmtpBrokenError(self._fault)
        if self._early is not None:
            raise SmtpBrokenError(f"it replied out of turn: {self._early.text}")
        if self._buffer or self._lines:
            raise SmtpBrokenError("it replied out of turn")

    async def start_tls(self, context: ssl.SSLContext, host: str) -> None:
        """Turn the connection into an encrypted one.

        Raises: SmtpBrokenError where something was slipped in before, OSError.
        """
        self.check_quiet()
        transport = self._transport
        assert transport is not None, "the connection was not made"
        encrypted = await asyncio.get_running_loop().start_tls(
            transport, self, context, server_hostname=host, ssl_shutdown_timeout=TLS_CLOSE_S
        )
        if encrypted is None:
            raise SmtpBrokenError("it closed the connection")
        self._transport = encrypted

    def end(self) -> None:
        """Say goodbye without waiting for an answer."""
        assert self._transport is not None, "the connection was not made"
        if self.is_usable:
            self._transport.write(b"QUIT\r\n")
            self._fault = "we have said goodbye"
        self._transport.close()

    # What the transport calls.

    def data_received(self, data: bytes) -> None:
        """Take whole lines out of what came; more than one reply at a time is too many."""
        if self._fault is not None:
            return
        self._bytes += len(data)
        *lines, self._buffer = (self._buffer + data).split(b"\n")
        if self._bytes > REPLY_BYTES_MAX or len(self._buffer) > LINE_BYTES_MAX:
            self._break("its reply is too long")
            return
        for line in lines:
            if not self._take(line.removesuffix(b"\r")):
                return

    def pause_writing(self) -> None:
        self._flushed.clear()

    def resume_writing(self) -> None:
        self._flushed.set()

    def connection_lost(self, exc: Exception | None) -> None:
        """End what waits: there will be no reply."""
        del exc
        self._break("it closed the connection")

    def _take(self, line: bytes) -> bool:
        match = _LINE.fullmatch(line)
        if match is None or len(line) > LINE_BYTES_MAX:
            self._break("its reply is not SMTP")
            return False
        code = int(match[1])
        if self._lines and self._lines[0][0] != code:
            self._break("its reply has two codes")
            return False
        self._lines.append((code, match[3]))
        if match[2] != b"-":
            self._finish()
        return True

    def _finish(self) -> None:
        texts = tuple(text.decode("utf-8", "replace") for _, text in self._lines)
        reply = SmtpReply(self._lines[0][0], texts)
        self._lines = []
        self._bytes = len(self._buffer)
        if self._waiter is not None and not self._waiter.done():
            self._waiter.set_result(reply)
        elif self._early is None:
            self._early = reply
        else:
            self._break("it replied out of turn")

    def _break(self, fault: str) -> None:
        if self._fault is None:
            self._fault = fault
        self._flushed.set()
        if self._waiter is not None and not self._waiter.done():
            self._waiter.set_exception(SmtpBrokenError(self._fault))
        if self._transport is not None:
            self._transport.abort()

    async def _reply(self) -> SmtpReply:
        if self._early is not None:
            reply, self._early = self._early, None
            return reply
        if self._fault is not None:
            raise SmtpBrokenError(self._fault)
        waiter: asyncio.Future[SmtpReply] = asyncio.get_running_loop().create_future()
        self._waiter = waiter
        try:
            return await waiter
        except asyncio.CancelledError:
            if waiter.done() and not waiter.cancelled() and waiter.exception() is None:
                # It came in the very turn in which the time was over.
                self._early = waiter.result()
            raise
        finally:
            self._waiter = None
