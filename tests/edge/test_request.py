"""What is read whole is read as the parser reads it, or left to the parser."""

from typing import Any

import httptools
import pytest
from hypothesis import given
from hypothesis import strategies as st

from mailonce.edge.http.request import ArrivalRequest, read_whole

USUAL = b"POST /in/ses?a=b HTTP/1.1\r\nHost: x\r\nX-Sig:  s\r\nContent-Length: 2\r\n\r\n{}"


class Parsed:
    """What llhttp makes of the same bytes."""

    def __init__(self, data: bytes) -> None:
        self.url = b""
        self.headers: dict[str, str] = {}
        self.body = b""
        self.complete = 0
        self._parser: Any = httptools.HttpRequestParser(self)
        self._parser.feed_data(data)

    def on_url(self, url: bytes) -> None:
        self.url += url

    def on_header(self, name: bytes, value: bytes) -> None:
        self.headers[name.decode("latin-1").lower()] = value.decode("latin-1")

    def on_body(self, body: bytes) -> None:
        self.body += body

    def on_message_complete(self) -> None:
        self.complete += 1

    @property
    def request(self) -> ArrivalRequest:
        url = httptools.parse_url(self.url)
        return ArrivalRequest(
            url.path.decode(), (url.query or b"").decode(), self.headers, self.body
        )


def test_a_usual_webhook_is_seen_whole() -> None:
    headers = {"host": "x", "x-sig": "s", "content-length": "2"}
    assert (
        read_whole(USUAL)
        == ArrivalRequest("/in/ses", "a=b", headers, b"{}")
        == Parsed(USUAL).request
    )


@pytest.mark.parametrize(
    "data",
    [
        USUAL[:-1],
        USUAL + b"POST /in/ses HTTP/1.1\r\n",
        USUAL.replace(b"HTTP/1.1", b"HTTP/1.0"),
        USUAL.replace(b"X-Sig:  s", b"Transfer-Encoding: chunked"),
        USUAL.replace(b"X-Sig:  s", b"Content-Length: 3"),
        USUAL.replace(b"Content-Length: 2", b"Content-Length: +2"),
        USUAL.replace(b"Content-Length: 2", b"Content-Length: 02"),
        USUAL.replace(b"Content-Length: 2", b"Content-Length : 2"),
        USUAL.replace(b"Host: x", b"Host: x\r\n folded"),
        USUAL.replace(b"Host: x\r\n", b"Host: x\n"),
        USUAL.replace(b"Host: x", b"Host: \xe9"),
        USUAL.replace(b"Host: x\r\n", b""),
        USUAL.replace(b"Host: x\r\n", b"Host: x\r\nhost: x\r\n"),
        USUAL.replace(b"X-Sig:  s", b"Expect: 100-continue"),
        USUAL.replace(b"X-Sig:  s", b"Connection: close"),
        USUAL.replace(b"X-Sig:  s", b"Upgrade: websocket\r\nConnection: upgrade"),
        USUAL.replace(b"X-Sig:  s", b"Upgrade: websocket\r\nConnection: keep-alive"),
        USUAL.replace(b"/in/ses?a=b", b"/in/ses#x"),
        USUAL.replace(b"/in/ses", b"/out/s"),
        USUAL.replace(b"POST", b"GET"),
    ],
)
def test_whatever_is_unusual_is_left_to_the_parser(data: bytes) -> None:
    assert read_whole(data) is None


def test_asking_to_keep_the_connection_is_usual() -> None:
    data = USUAL.replace(b"Host: x", b"Host: x\r\nConnection: Keep-Alive")
    assert read_whole(data) == Parsed(data).request


# Pieces that are all right, strange, or dangerous, in any combination.
pieces = st.sampled_from(
    [b"Host: x", b"X-A:b", b"X-A: c", b"x-a:\t d \t", b"Content-Length: 2", b"Content-Length: 20",
     b"Connection: keep-alive", b"Connection: close", b"Transfer-Encoding: chunked", b"X_y: z",
     b"Empty:", b"No colon", b" folded", b"Host:\x00", b"a:b\rc", b"a:b\nContent-Length: 0"]
)  # fmt: skip


@given(st.lists(pieces, max_size=6), st.binary(max_size=4))
def test_what_is_understood_means_the_same_to_the_parser(some: list[bytes], body: bytes) -> None:
    lines = [b"Host: x", *some, b"Content-Length: %d" % len(body)]
    data = b"POST /in/a HTTP/1.1\r\n" + b"\r\n".join(lines) + b"\r\n\r\n" + body

    request = read_whole(data)

    if request is not None:
        parsed = Parsed(data)
        assert parsed.complete == 1
        assert parsed.request == request
