"""TLS between a socket and the protocol, in memory: bytes in, bytes out.

The event loop's own `start_tls` swaps protocols on a live transport: what arrives meanwhile goes
to the one or the other, a handshake that fails tells neither, and bytes that came in one packet
with a PROXY header could not be handed over. Here each byte is where we put it.
"""

import contextlib
import ssl

_READ_BYTES = 256 << 10


class TlsLayer:
    """The server's side of one TLS connection. `SSLError` means that it cannot go on."""

    def __init__(self, context: ssl.SSLContext) -> None:
        self._incoming, self._outgoing = ssl.MemoryBIO(), ssl.MemoryBIO()
        self._tls = context.wrap_bio(self._incoming, self._outgoing, server_side=True)
        self.is_ready = False
        # The client has said that it sends no more.
        self.is_ended = False

    @property
    def version(self) -> str:
        """Such as TLSv1.3, once the handshake is done."""
        return self._tls.version() or "TLS"

    def receive(self, data: bytes) -> bytes:
        """Take bytes of the socket; give what they say, which is nothing during the handshake."""
        self._incoming.write(data)
        pieces: list[bytes] = []
        try:
            if not self.is_ready:
                self._tls.do_handshake()
                self.is_ready = True
            while piece := self._tls.read(_READ_BYTES):
                pieces.append(piece)
            self.is_ended = True
        except ssl.SSLWantReadError:
            pass
        except ssl.SSLZeroReturnError:
            self.is_ended = True
        return b"".join(pieces)

    def send(self, data: bytes) -> bytes:
        """Give the bytes for the socket that say `data`, after those that wait already."""
        rest = memoryview(data)
        while rest:
            rest = rest[self._tls.write(rest) :]
        return self._outgoing.read()

    def waiting_bytes(self) -> bytes:
        """Give what the handshake wants to send."""
        return self._outgoing.read()

    def end(self) -> bytes:
        """Give the bytes that say the end."""
        if self.is_ready:
            # It would wait for the client's own end, which nobody needs.
            with contextlib.suppress(ssl.SSLError):
                self._tls.unwrap()
        return self._outgoing.read()
