"""Ids: sixteen bytes that sort by the time they were minted, and their public form."""

from base64 import b32hexdecode
from typing import NewType

from mailonce.errors import MissingError

EventId = NewType("EventId", bytes)
ArrivalId = NewType("ArrivalId", bytes)

ID_BYTES = 16

# Two letters of base32hex at a time, because the standard library's encoder is slow: 16 bytes are
# 13 pairs of 10 bits, the last two bits being zero.
_LETTERS = "0123456789abcdefghijklmnopqrstuv"
_PAIRS = [one + other for one in _LETTERS for other in _LETTERS]
_SHIFTS = range(120, -1, -10)


def mint(now_ms: int, entropy: bytes) -> bytes:
    """Make an id of six bytes of time and ten of chance."""
    assert len(entropy) == 10, f"an id takes ten bytes of chance, got {len(entropy)}"
    return now_ms.to_bytes(6, "big") + entropy


def public(prefix: str, raw: bytes) -> str:
    """Write an id as users see it; the text sorts as the bytes do."""
    assert len(raw) == ID_BYTES, f"an id has {ID_BYTES} bytes, got {len(raw)}"
    number = int.from_bytes(raw, "big") << 2
    return prefix + "_" + "".join([_PAIRS[number >> shift & 1023] for shift in _SHIFTS])


def private(prefix: str, text: str) -> bytes:
    """Read a public id.

    Raises: MissingError where it cannot be one of ours.
    """
    start, _, rest = text.partition("_")
    try:
        raw = b32hexdecode(rest.upper() + "=" * (-len(rest) % 8))
    except ValueError:
        raw = b""
    if start != prefix or len(raw) != ID_BYTES:
        raise MissingError(f"{text[:60]!r} is not an id of the form {prefix}_…; see the list")
    return raw


def minted_ms(raw: bytes) -> int:
    """Say when an id was minted, in unix milliseconds."""
    return int.from_bytes(raw[:6], "big")
