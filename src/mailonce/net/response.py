"""What an endpoint answers: read at once where it is plain, else by a parser, within bounds.

Nearly every answer to a webhook is one packet with plain headers and a body of the length that it
declares; one expression reads it in a third of what a parser with a callback for each part takes.
Whatever is unusual in the least is not understood by it and goes to the parser: nothing is ever
read in two ways.

An answer is known once its status and headers are there. Of the body no more than wanted is kept;
what is cut off does not change what was answered.
"""

import re
from collections.abc import Sequence
from typing import NamedTuple

from httptools import HttpParserError, HttpParserUpgrade, HttpResponseParser

# Of everything before the answer's body, interim answers (1xx) included.
HEAD_BYTES_MAX = 64 * 1024
HEADERS_MAX = 256
PLAIN_BYTES_MAX = 16 * 1024

RawHeaders = bytes | Sequence[tuple[bytes, bytes]]

# A header that does not say where the answer ends, nor that the connection does.
_OTHER = (
    rb"(?!(?i:content-length:|transfer-encoding:|(?:proxy-)?connection:(?! ?keep-alive\r)))"
    rb"[A-Za-z0-9-]++:[\t -~]*+\r\n"
)
_PLAIN = re.compile(
    rb"HTTP/1\.1 (?!204|304)([2-5]\d\d) [\t -~]*+\r\n"
    rb"((?:%b)*+(?i:content-length): ?(\d{1,5})\r\n(?:%b)*+)\r\n" % (_OTHER, _OTHER)
)


class EndpointResponse(NamedTuple):
    """What an endpoint answered.

    Not `is_whole`: of its body there was more, or less than it said. Not `is_asked`: it answered
    before it had the whole request.
    """

    status: int
    # As they came: lines, or what a parser read of them.
    raw_headers: RawHeaders
    body: bytes
    is_whole: bool = True
    is_asked: bool = True

    @property
    def headers(self) -> dict[str, str]:
        """Read the headers; their names are in lower case, of a repeated one the last counts."""
        raw = self.raw_headers
        pairs = _pairs(raw) if isinstance(raw, bytes) else raw
        return {
            name.decode("latin-1").lower(): value.decode("latin-1").strip(" \t")
            for name, value in pairs
        }


class BrokenError(Exception):
    """The peer closed the connection or does not speak HTTP; the text says which."""


def read_plain(data: bytes) -> tuple[int, bytes, bytes] | None:
    """Read an answer that keeps the connection: status, header lines and body.

    None where a parser must.
    """
    head = _PLAIN.match(data) if len(data) <= PLAIN_BYTES_MAX else None
    if head is None or head.end() + int(head[3]) != len(data):
        return None
    return int(head[1]), head[2], data[head.end() :]


class ResponseParser:
    """Reads one answer piece by piece; `status` is 0 until it is known."""

    def __init__(self, *, bytes_max: int) -> None:
        self._bytes_max = bytes_max
        self._parser = HttpResponseParser(self)
        self._body: list[bytes] = []
        self._body_bytes = 0
        self._received = 0
        self._is_complete = False
        self.headers: list[tuple[bytes, bytes]] = []
        self.status = 0
        # Whether the answer ended where it said it would; and whether nothing came behind it, so
        # that the connection can be used again.
        self.is_whole = False
        self.keeps = False

    @property
    def body(self) -> bytes:
        """As much of the body as was read; perhaps beyond what was wanted."""
        return self._body[0] if len(self._body) == 1 else b"".join(self._body)

    @property
    def lasts_until_closed(self) -> bool:
        """Say whether the end of the connection is the end of this answer."""
        framing = {b"content-length", b"transfer-encoding"}
        return not any(name.lower() in framing for name, _ in self.headers)

    def feed(self, data: bytes) -> bool:
        """Read on; say whether that is enough: the answer has ended, or goes beyond its bounds.

        Raises: BrokenError where it is none.
        """
        self._received += len(data)
        try:
            self._parser.feed_data(data)
        except HttpParserUpgrade:
            self._is_complete, self.keeps = True, False
        except HttpParserError as error:
            if self.status:
                # The answer is known; what followed it was not understood.
                return True
            raise BrokenError("the answer is not HTTP") from error
        self.is_whole = self._is_complete
        if self._is_complete or self._body_bytes > self._bytes_max:
            return True
        # Bound what an answer may cost beside its body: headers, chunks of one byte, trailers.
        if self._received <= HEAD_BYTES_MAX + (8 * self._bytes_max if self.status else 0):
            return False
        if self.status:
            return True
        raise BrokenError("the answer's headers are too large")

    def close(self) -> None:
        """Let go of what refers to this, so that its memory is free at once."""
        del self._parser

    # What the parser calls.

    def on_message_begin(self) -> None:
        """Notice a second answer to one request."""
        self.keeps = False

    def on_header(self, name: bytes, value: bytes) -> None:
        """Note a header; what follows the body (trailers) is dropped."""
        if not self.status and len(self.headers) < HEADERS_MAX:
            self.headers.append((name, value))

    def on_headers_complete(self) -> None:
        """Note the status, unless it is an interim one."""
        if self._is_complete:
            return
        status = self._parser.get_status_code()
        if 100 <= status < 200 and status != 101:
            self.headers = []
        else:
            self.status = status

    def on_body(self, data: bytes) -> None:
        """Keep a piece of the body, up to the first that is too much."""
        if self._body_bytes <= self._bytes_max and not self._is_complete:
            self._body.append(data)
            self._body_bytes += len(data)

    def on_message_complete(self) -> None:
        """Note that the answer is there, unless it was an interim one."""
        if self.status and not self._is_complete:
            self._is_complete = True
            self.keeps = self._parser.should_keep_alive()


def _pairs(lines: bytes) -> list[tuple[bytes, bytes]]:
    # Behind the last line there is nothing.
    named = [line.partition(b":") for line in lines.split(b"\r\n")[:-1]]
    return [(name, value) for name, _, value in named[:HEADERS_MAX]]
