"""An answer that is read at once is what the parser would have read, and nothing else."""

import itertools

import pytest

from mailonce.net.response import (
    HEADERS_MAX,
    PLAIN_BYTES_MAX,
    BrokenError,
    EndpointResponse,
    ResponseParser,
    read_plain,
)

NGINX = (
    b"HTTP/1.1 200 OK\r\nServer: nginx/1.24.0\r\nDate: Tue, 17 Nov 2026 21:00:00 GMT\r\n"
    b"Content-Type: application/json; charset=utf-8\r\nContent-Length: 2\r\n"
    b"Connection: keep-alive\r\nX-Request-Id: 0d3f2c0f\r\n\r\n{}"
)
STATUS_LINES = (
    b"HTTP/1.1 200 OK", b"HTTP/1.1 201 ", b"HTTP/1.1 202 Accepted", b"HTTP/1.1 200",
    b"HTTP/1.0 200 OK", b"HTTP/1.1 100 Continue", b"HTTP/1.1 101 Go", b"HTTP/1.1 204 None",
    b"HTTP/1.1 304 Same", b"HTTP/1.1 404 Not Found", b"HTTP/1.1 500 Oh \t no",
    b"HTTP/1.1 999 What", b"HTTP/1.1  200 OK", b"HTTP/1.1 200 \xe9", b"HTTP/2 200 OK",
)  # fmt: skip
LINES = (
    b"Content-Length: 0", b"content-length:2", b"CONTENT-LENGTH: 5", b"Content-Length: +2",
    b"Content-Length: 2 ", b"Content-Length: 2, 2", b"Content-Length:\t2", b"Content-Length:",
    b"Content-Length : 2", b"Content-Length: 002", b"X-Content-Length: 9", b"Content-Length-X: 9",
    b"Transfer-Encoding: chunked", b"transfer-encoding:identity", b"Connection: close",
    b"connection:keep-alive", b"Connection: Keep-Alive", b"Connection: keep-alive, close",
    b"Connection: keep-alive ", b"Proxy-Connection: close", b"Upgrade: h2c", b"Keep-Alive: 5",
    b"Retry-After:  7\t", b"X: ", b"X: a:b", b"x: again", b"X:\xe9", b" folded", b"\tfolded",
    b"No-Colon", b": empty", b"X y: z", b"X_Y: z", b"X: a\nY: b", b"X: a\x00", b"X: a\rb", b"",
)  # fmt: skip
BEHIND = (b"", b"\r\n", b"HTTP/1.1 200 OK\r\nContent-Length: 0\r\n\r\n", b"x")


@pytest.mark.parametrize("body", [b"", b"{}", b"hello", b"0\r\n\r\n"])
def test_what_is_read_at_once_is_what_the_parser_reads(body: bytes) -> None:
    length = b"Content-Length: %d" % len(body)
    read_at_once = 0
    for status, line, behind in itertools.product(STATUS_LINES, LINES, BEHIND):
        for lines in [(length, line), (line, length), (line,), (b"A: b", line, line, length)]:
            data = b"\r\n".join([status, *lines]) + b"\r\n\r\n" + body + behind

            plain = read_plain(data)

            if plain is not None:
                read_at_once += 1
                parser = ResponseParser(bytes_max=100)
                assert parser.feed(data), data
                assert (parser.is_whole, parser.keeps) == (True, True), data
                assert (plain[0], plain[2]) == (parser.status, parser.body), data
                assert _headers(plain[1]) == _headers(parser.headers), data
    assert read_at_once > 100


def test_common_answers_are_read_at_once(subtests: pytest.Subtests) -> None:
    for answer, body in [
        (NGINX, b"{}"),
        (b"HTTP/1.1 200 OK\r\ncontent-length: 2\r\n\r\nok", b"ok"),
        (b"HTTP/1.1 429 Slow down\r\nRetry-After: 7\r\nContent-Length: 0\r\n\r\n", b""),
    ]:
        with subtests.test(str(answer[:30])):
            plain = read_plain(answer)

            assert plain is not None
            assert plain[2] == body


def test_headers_are_read_by_lower_case_names() -> None:
    plain = read_plain(NGINX)

    assert plain is not None
    headers = EndpointResponse(*plain).headers
    assert headers["server"] == "nginx/1.24.0"
    assert headers["date"] == "Tue, 17 Nov 2026 21:00:00 GMT"
    assert [*headers][-1] == "x-request-id"


def test_a_large_answer_goes_to_the_parser() -> None:
    head = b"HTTP/1.1 200 OK\r\nContent-Length: %d\r\n\r\n"
    length = PLAIN_BYTES_MAX - len(head % 10_000)

    assert read_plain(head % length + b"x" * length) is not None
    assert read_plain(head % (length + 1) + b"x" * (length + 1)) is None


def test_headers_are_bounded_however_they_are_read() -> None:
    lines = b"".join(b"X-%d: y\r\n" % number for number in range(2 * HEADERS_MAX))
    data = b"HTTP/1.1 200 OK\r\nContent-Length: 0\r\n" + lines + b"\r\n"

    plain = read_plain(data)
    parser = ResponseParser(bytes_max=100)

    assert plain is not None
    assert parser.feed(data)
    assert _headers(plain[1]) == _headers(parser.headers)
    assert len(_headers(plain[1])) == HEADERS_MAX


def test_what_does_not_begin_as_an_answer_is_none() -> None:
    assert read_plain(b"SSH-2.0-OpenSSH_9.6\r\n") is None
    with pytest.raises(BrokenError, match="not HTTP"):
        ResponseParser(bytes_max=100).feed(b"SSH-2.0-OpenSSH_9.6\r\n")


def _headers(raw: bytes | list[tuple[bytes, bytes]]) -> dict[str, str]:
    return EndpointResponse(200, raw, b"").headers
