import pytest
from hypothesis import given
from hypothesis import strategies as st

from mailonce.core.mail.mime.signed_data import (
    ENVELOPED_DATA,
    SIGNED_DATA,
    content_kind,
    signed_content,
)


def tlv(tag: int, content: bytes) -> bytes:
    size = len(content)
    if size < 0x80:
        return bytes([tag, size]) + content
    length = size.to_bytes((size.bit_length() + 7) // 8, "big")
    return bytes([tag, 0x80 | len(length)]) + length + content


def make_signed(content: bytes) -> bytes:
    """Make signed data without certificates, as DER."""
    data_oid = bytes.fromhex("2a864886f70d010701")
    inner = tlv(0x30, tlv(0x06, data_oid) + tlv(0xA0, tlv(0x04, content)))
    signed = tlv(0x30, tlv(0x02, b"\x01") + tlv(0x31, b"") + inner + tlv(0x31, b""))
    return tlv(0x30, tlv(0x06, SIGNED_DATA) + tlv(0xA0, signed))


def make_streamed(pieces: list[bytes]) -> bytes:
    """Make the same with open lengths, as programs write that do not know the size before."""
    data_oid = bytes.fromhex("2a864886f70d010701")
    octets = b"\x24\x80" + b"".join(tlv(0x04, piece) for piece in pieces) + b"\0\0"
    inner = b"\x30\x80" + tlv(0x06, data_oid) + b"\xa0\x80" + octets + b"\0\0" + b"\0\0"
    signed = b"\x30\x80" + tlv(0x02, b"\x01") + tlv(0x31, b"") + inner + b"\0\0"
    return b"\x30\x80" + tlv(0x06, SIGNED_DATA) + b"\xa0\x80" + signed + b"\0\0" + b"\0\0"


@pytest.mark.parametrize("size", [0, 5, 127, 128, 300, 70_000])
def test_the_content_is_taken_out(size: int) -> None:
    content = b"x" * size

    assert signed_content(make_signed(content)) == content


def test_content_in_pieces_is_joined() -> None:
    assert signed_content(make_streamed([b"Content-", b"Type: ", b"text/plain"])) == (
        b"Content-Type: text/plain"
    )


def test_encrypted_data_has_no_content_to_take() -> None:
    der = tlv(0x30, tlv(0x06, ENVELOPED_DATA) + tlv(0xA0, b""))

    assert content_kind(der) == ENVELOPED_DATA
    assert signed_content(der) is None


@given(st.binary(max_size=200), st.integers(0, 100))
def test_other_bytes_are_none_and_never_an_error(noise: bytes, at: int) -> None:
    content_kind(noise)
    signed_content(noise)
    der = make_streamed([b"abc"])
    signed_content(der[:at] + noise + der[at:])
    signed_content(der[:at])
