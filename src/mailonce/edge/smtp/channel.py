"""The bytes of one SMTP connection: who connects, TLS, pauses, and a last reply that arrives.

Below this stands the socket, above it the protocol (`protocol.py`), which gets `received` for what
a client says, in clear text, and never more of it than it wants. A client that does not read its
replies is not read either. Whoever is hung up on gets the last reply first: what it still sends is
read for a moment, unkept, because a connection closed with bytes unread is reset, and the reply
lost on the way.
"""

import asyncio
import ssl
from abc import abstractmethod

from mailonce.core.signatures.proof import is_within
from mailonce.edge.connections import ClientConnections, DoorRefusal, plain_address
from mailonce.edge.smtp import replies
from mailonce.edge.smtp.certificate import ServerCertificate
from mailonce.edge.smtp.limits import (
    LINGER_BYTES_MAX,
    LINGER_S,
    TURN_BYTES_MAX,
    SmtpLimits,
)
from mailonce.edge.smtp.proxy_header import read_proxy_header
from mailonce.edge.smtp.tls_layer import TlsLayer
from mailonce.errors import ParseError


class ClientChannel(asyncio.Protocol):
    """One connection, up to the words of its client."""

    def __init__(
        self,
        connections: ClientConnections[SmtpLimits],
        certificate: ServerCertificate | None,
        proxy_peers: tuple[str, ...],
        *,
        begins_with_tls: bool,
    ) -> None:
        self._all = connections
        self.limits = connections.limits
        self._certificate = certificate
        self._proxy_peers = proxy_peers
        self._begins_with_tls = begins_with_tls
        self.is_local = False
        # What it counts for, and what the mail's envelope says.
        self.address: str | None = None
        self.client_ip: str | None = None
        self._tls: TlsLayer | None = None
        self._is_proxied = self._is_reading = self._is_write_paused = self._breathes = False
        # A half-read header of the PROXY protocol.
        self._header = b""
        # Nobody listens to this client any more; until when it may go on sending.
        self.is_done = False
        self._leaves_at: float | None = None
        self._passed_bytes = self._unsent_bytes = self._turn_bytes = 0
        self.opened_at = self._handshake_at = self._unsent_at = 0.0

    @abstractmethod
    def greet(self) -> None:
        """Say the first words, now that it is known who connects."""

    @abstractmethod
    def secured(self, version: str) -> None:
        """Begin anew under TLS."""

    @abstractmethod
    def received(self, data: bytes) -> None:
        """Take what the client says."""

    @abstractmethod
    def let_go(self) -> None:
        """Release what is held for this client, but for what is being stored."""

    @abstractmethod
    def wants_bytes(self) -> bool:
        """Say whether more may be read."""

    @abstractmethod
    def eof_received(self) -> bool:
        """Say whether a reply is still to come for a client that sends no more."""

    @property
    @abstractmethod
    def waits_for_client(self) -> bool:
        """Whether it is the client's turn."""

    @property
    @abstractmethod
    def waiting_since(self) -> float:
        """When the client's turn began."""

    @property
    @abstractmethod
    def half_read_bytes(self) -> int:
        """How much is held for a client that does not send, or read, what it should."""

    def connection_made(self, transport: asyncio.Transport) -> None:  # type: ignore[override]
        """Take a connection, unless there are too many."""
        self._transport = transport
        self._loop = asyncio.get_running_loop()
        self._is_reading = True
        self.opened_at = self._handshake_at = self._unsent_at = self._loop.time()
        peer = transport.get_extra_info("peername")
        # A client that has gone already has no address.
        self.client_ip = plain_address(peer[0]) if peer else None
        if self.client_ip is not None and is_within(self.client_ip, self._proxy_peers):
            self._is_proxied = True
            self._admit(None)
        elif self._admit(self.client_ip):
            self._open()

    def _admit(self, address: str | None) -> bool:
        self.address = None if address is None else self._all.counts_for(address)
        refusal = self._all.admit(self, self._loop.time()) or self.check_connects()
        if refusal is not None:
            self.hang_up(replies.written(refusal), refusal)
        return refusal is None

    @abstractmethod
    def check_connects(self) -> DoorRefusal | None:
        """Say whether this address may connect so often."""

    def _open(self) -> None:
        if self._begins_with_tls:
            self.begin_tls()
        else:
            self.greet()

    def begin_tls(self) -> None:
        """Take what comes from now on as TLS."""
        assert self._certificate is not None, "TLS needs a certificate"
        self._tls = TlsLayer(self._certificate.context)
        self._handshake_at = self._loop.time()

    def data_received(self, data: bytes) -> None:
        """Pass on what the client says, in clear text."""
        self._turn_bytes += len(data)
        if self._turn_bytes >= TURN_BYTES_MAX and not self._breathes:
            # Others are read first: libuv reads a fast sender up to 32 times in one turn.
            self._breathes = True
            self.set_reading()
            self._all.wait_turn(self._breathe_out)
        if self.is_done:
            self._pass_over(len(data))
        elif self._is_proxied:
            self._read_header(data)
        elif self._tls is None:
            self.received(data)
        else:
            self._decrypt(self._tls, data)

    def _breathe_out(self) -> None:
        self._breathes = False
        self._turn_bytes = 0
        self.set_reading()

    def _read_header(self, data: bytes) -> None:
        self._header += data
        try:
            header = read_proxy_header(self._header)
        except ParseError:
            self.hang_up(replies.written(replies.BAD_PROXY), replies.BAD_PROXY)
            return
        if header is None:
            return
        rest, self._header, self._is_proxied = self._header[header.bytes :], b"", False
        if header.address is not None:
            self._all.remove(self)
            self.client_ip = header.address
            if not self._admit(header.address):
                return
        self._open()
        if rest:
            self.data_received(rest)

    def _decrypt(self, tls: TlsLayer, data: bytes) -> None:
        was_ready = tls.is_ready
        try:
            text = tls.receive(data)
        except ssl.SSLError:
            self._transport.write(tls.waiting_bytes())
            self._tls = None
            self.hang_up(b"", replies.TLS_FAILED)
            return
        waiting = tls.waiting_bytes()
        if waiting:
            self._transport.write(waiting)
        if tls.is_ready and not was_ready:
            self.secured(tls.version)
            if self._begins_with_tls:
                self.greet()
        if text and not self.is_done:
            self.received(text)
        if tls.is_ended and not self.is_done and not self.eof_received():
            self._transport.close()

    @property
    def in_handshake(self) -> bool:
        """Whether the client has not come to its first word, of the session or under TLS."""
        return self._is_proxied or (self._tls is not None and not self._tls.is_ready)

    def write(self, data: bytes) -> None:
        """Send a reply."""
        if self._tls is not None:
            data = self._tls.send(data)
        self._transport.write(data)

    def hang_up(self, reply: bytes, refusal: DoorRefusal | None = None) -> None:
        """Send the last reply and close; `refusal` is counted."""
        if self.is_done:
            return
        if refusal is not None:
            self._all.count(refusal)
        self.is_done = True
        self.let_go()
        if not self._transport.is_closing():
            # Nobody who has not finished the handshake could read it.
            if reply and not (self._tls is not None and not self._tls.is_ready):
                self.write(reply)
            if self._tls is not None:
                self._transport.write(self._tls.end())
        if refusal is None or self._transport.is_closing() or not self._all.let_linger(self):
            self._transport.close()
            return
        self._leaves_at = self._loop.time() + LINGER_S
        self._transport.write_eof()
        self.set_reading()

    def give_way(self, refusal: DoorRefusal) -> None:
        """Hang up at once, to make room for others."""
        if self._transport.get_write_buffer_size():
            # Closing would wait for a client that does not read.
            self._all.count(refusal)
            self.drop()
        else:
            self.hang_up(replies.written(refusal), refusal)

    def drop(self) -> None:
        """Close without a word."""
        self.is_done = True
        self.let_go()
        self._transport.abort()

    def _pass_over(self, count: int) -> None:
        self._passed_bytes += count
        if self._passed_bytes > LINGER_BYTES_MAX:
            self._transport.abort()

    def connection_lost(self, exc: Exception | None) -> None:
        """Forget a client that has gone."""
        del exc
        self._all.remove(self)
        # Its memory is not left to the garbage collector, which looks seldom.
        self._tls = None
        if not self.is_done:
            self.is_done = True
            self.let_go()

    def set_reading(self) -> None:
        """Read, or pause, as it is wanted now."""
        wanted = self.is_done or (self.wants_bytes() and not self._is_write_paused)
        wanted = wanted and not self._breathes
        if wanted != self._is_reading and not self._transport.is_closing():
            self._is_reading = wanted
            if wanted:
                self._transport.resume_reading()
            else:
                self._transport.pause_reading()

    def pause_writing(self) -> None:
        """Read no more from a client that does not read its replies."""
        self._is_write_paused = True
        self._all.hold_unread(self, self._transport.get_write_buffer_size())
        self.set_reading()

    def resume_writing(self) -> None:
        """Go on when the client has read."""
        self._is_write_paused = False
        self._all.release_unread(self)
        self.set_reading()

    def look(self, now: float) -> None:
        """End what has taken too long."""
        if self._leaves_at is not None:
            if now >= self._leaves_at:
                self._transport.abort()
        elif self._is_unread(now):
            self._all.count(replies.UNREAD)
            self.drop()
        elif self.is_done:
            pass
        elif self.in_handshake:
            if now - self._handshake_at > self.limits.handshake_timeout_s:
                self.hang_up(replies.written(replies.SLOW_HANDSHAKE), replies.SLOW_HANDSHAKE)
        else:
            self.look_at_session(now)

    @abstractmethod
    def look_at_session(self, now: float) -> None:
        """End a session, or a step of it, that has taken too long."""

    def _is_unread(self, now: float) -> bool:
        """Say whether the client has read nothing of its replies for too long."""
        unsent = self._transport.get_write_buffer_size()
        if not unsent or unsent < self._unsent_bytes or not self._unsent_bytes:
            self._unsent_at = now
        self._unsent_bytes = unsent
        return bool(unsent) and now - self._unsent_at > self.limits.answer_timeout_s
