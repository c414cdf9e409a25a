"""A response is the same in whatever pieces it comes, and broken bytes are an error."""

from itertools import pairwise

import pytest
from hypothesis import given
from hypothesis import strategies as st

from mailonce.client.response_reader import ResponseReader
from mailonce.client.steps import LostConnectionError

PLAIN = b"HTTP/1.1 200 OK\r\nContent-Length: 5\r\nX-Two: a: b\r\n\r\nhello"
CHUNKED = (
    b"HTTP/1.1 100 Continue\r\n\r\n"
    b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n"
    b"2\r\nhe\r\n3;x=y\r\nllo\r\n0\r\nTrailer: 1\r\n\r\n"
)


def read(*pieces: bytes) -> ResponseReader:
    reader = ResponseReader()
    for piece in pieces:
        reader.feed(piece)
    return reader


@given(st.sampled_from([PLAIN, CHUNKED]), st.lists(st.integers(0, 120), max_size=8))
def test_a_response_is_the_same_in_any_pieces(raw: bytes, cuts: list[int]) -> None:
    places = sorted({0, len(raw), *(cut for cut in cuts if cut < len(raw))})
    pieces = [raw[a:b] for a, b in pairwise(places)]

    reader = read(*pieces)

    assert reader.is_complete
    assert reader.is_reusable
    assert reader.head is not None
    assert reader.head.status == 200
    assert reader.take() == b"hello"


def test_a_body_without_a_length_ends_with_the_connection() -> None:
    reader = read(b"HTTP/1.1 200 OK\r\nX-Two: a: b\r\n\r\nhel", b"lo")
    assert not reader.is_complete

    reader.feed(b"")

    assert reader.is_complete
    assert reader.head is not None
    assert reader.head.headers["x-two"] == "a: b"
    assert reader.take() == b"hello"


@pytest.mark.parametrize("length", range(len(PLAIN)))
def test_a_response_that_is_cut_off_is_none(length: int) -> None:
    with pytest.raises(LostConnectionError):
        read(*([PLAIN[:length]] if length else []), b"")


@pytest.mark.parametrize(
    "raw",
    [
        b"SSH-2.0-OpenSSH\r\n\r\n",
        b"HTTP/1.1 200 OK\r\nContent-Length: -5\r\n\r\n",
        b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\nzz\r\n",
        b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n" + b"1" * 2000,
        b"x" * 70_000,
    ],
)
def test_what_is_no_response_is_an_error(raw: bytes) -> None:
    with pytest.raises(LostConnectionError):
        read(raw)


def test_a_connection_that_the_server_closes_is_not_used_again() -> None:
    reader = read(b"HTTP/1.1 200 OK\r\nConnection: close\r\nContent-Length: 0\r\n\r\n")

    assert reader.is_complete
    assert not reader.is_reusable


@pytest.mark.parametrize("length", [b"-5", b"+5", b"1_0", b"", b"0x5", b"f" * 20])
def test_a_chunk_has_a_length_in_plain_digits(length: bytes) -> None:
    head = b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n"

    with pytest.raises(LostConnectionError):
        read(head + length + b";\r\nhello and more\r\n0\r\n\r\n", b"")
