"""However the bytes come, the parser is given one request at a time."""

import httptools
import pytest
from hypothesis import given
from hypothesis import strategies as st

from mailonce.edge.http.framing import (
    CUTS_MAX,
    begins_like_a_request,
    chunked_end,
    head_end,
    without_upgrade,
)


class Counter:
    def __init__(self) -> None:
        self.begun = self.complete = 0
        self.body = b""

    def on_message_begin(self) -> None:
        self.begun += 1

    def on_message_complete(self) -> None:
        self.complete += 1

    def on_body(self, body: bytes) -> None:
        self.body += body


@given(
    st.lists(
        st.binary(min_size=1, max_size=40) | st.just(b"\r\n\r\n") | st.just(b"a\r\n0\r\n\r\n")
    ),
    st.sampled_from([b"", b"X-T: v\r\n", b"X-T: v\r\nX-U: w\r\n"]),
    st.lists(st.integers(1, 20), min_size=1),
)
def test_a_chunked_body_is_cut_where_it_ends(
    chunks: list[bytes], trailers: bytes, sizes: list[int]
) -> None:
    head = b"POST / HTTP/1.1\r\nTransfer-Encoding: chunked\r\n\r\n"
    body = b"".join(b"%x\r\n%s\r\n" % (len(chunk), chunk) for chunk in chunks)
    wire = body + b"0\r\n" + trailers + b"\r\n"
    following = b"GET /next HTTP/1.1\r\n\r\n"
    seen = Counter()
    parser = httptools.HttpRequestParser(seen)
    parser.feed_data(head)

    last, left, given_ = b"", wire + following, 0
    while not seen.complete:
        data = left[: sizes[given_ % len(sizes)]]
        given_ += 1
        left = left[len(data) :]
        while data and not seen.complete:
            end = chunked_end(last, data, cuts=1)
            parser.feed_data(data[:end])
            last, data = (last + data[:end])[-3:], data[end:]
        left = data + left

    assert (seen.begun, seen.complete, left) == (1, 1, following)
    assert seen.body == b"".join(chunks)


def test_a_body_that_wastes_its_cuts_is_read_in_larger_pieces() -> None:
    assert chunked_end(b"", b"\r\n\r\n" * 5000, cuts=1) == 4
    assert chunked_end(b"", b"\r\n\r\n" * 5000, cuts=CUTS_MAX + 1) >= 4096


@pytest.mark.parametrize(
    ("data", "end"),
    [(b"GET / HTTP/1.1\r\n\r\nrest", 18), (b"GET / HTTP/1.1\r\nA: b\r\n", -1), (b"A\n\nB", 3),
     (b"\r\n\r\nGET", 4), (b"", -1), (b"A: b\r\n\r\nC\n\n", 8)],
)  # fmt: skip
def test_a_head_ends_with_an_empty_line(data: bytes, end: int) -> None:
    assert head_end(data) == end


@pytest.mark.parametrize(
    ("head", "is_one"),
    [(b"POST /in", True), (b"PO", True), (b"\r\nGET /", True), (b"\r\n", True),
     (b"\x16\x03\x01", False), (b"get /", False), (b"ABCDEFGHIJKLMNOPQRSTUVWXYZ", False)],
)  # fmt: skip
def test_what_never_becomes_a_request_is_known_early(head: bytes, is_one: object) -> None:
    assert begins_like_a_request(head) is is_one


def test_only_the_name_of_the_header_is_changed() -> None:
    head = b"POST /upgrade: HTTP/1.1\r\nUpGrade : h2c\r\nX: upgrade:\r\nConnection: upgrade\r\n\r\n"

    assert without_upgrade(head) == head.replace(b"UpGrade", b"x-upgrade")
