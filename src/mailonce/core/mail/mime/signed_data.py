"""Take the content out of S/MIME signed data (CMS, RFC 5652), without judging its signature.

Only the few ASN.1 structures on the way to the content are read, within fixed depths and counts.
"""

from msgspec import Struct

SIGNED_DATA = bytes.fromhex("2a864886f70d010702")
ENVELOPED_DATA = bytes.fromhex("2a864886f70d010703")
AUTH_ENVELOPED_DATA = bytes.fromhex("2a864886f70d0109100117")
PIECES_MAX = 100_000

_SEQUENCE, _OID, _OCTETS, _CONSTRUCTED_OCTETS = 0x30, 0x06, 0x04, 0x24
_EXPLICIT_0, _END = 0xA0, 0x00
_DEPTH_MAX = 4


class _Element(Struct, frozen=True, gc=False):
    """An element of BER: its tag, and where its content lies; -1 where its length is open."""

    tag: int
    start: int
    end: int


def content_kind(der: bytes) -> bytes | None:
    """Give the object identifier of the kind of content; None where this is no CMS."""
    outer = _element(der, 0, len(der))
    if outer is None or outer.tag != _SEQUENCE:
        return None
    kind = _element(der, outer.start, _stop(outer, der))
    return der[kind.start : kind.end] if kind and kind.tag == _OID and kind.end >= 0 else None


def signed_content(der: bytes) -> bytes | None:
    """Give the content that was signed; None where there is none or it cannot be read."""
    if content_kind(der) != SIGNED_DATA:
        return None
    # ContentInfo → [0] → SignedData → version, digestAlgorithms, EncapsulatedContentInfo.
    at = _inside(der, 0, _SEQUENCE)
    at = _after(der, at)
    at = _inside(der, at, _EXPLICIT_0)
    at = _inside(der, at, _SEQUENCE)
    at = _after(der, _after(der, at))
    at = _inside(der, at, _SEQUENCE)
    at = _after(der, at)
    at = _inside(der, at, _EXPLICIT_0)
    return None if at is None else _octets(der, at)


def _octets(der: bytes, at: int) -> bytes | None:
    """Join an octet string; it may consist of pieces, as programs write that stream."""
    pieces: list[bytes] = []
    ends = [len(der)]
    for _ in range(PIECES_MAX):
        element = _element(der, at, len(der))
        if element is None:
            return None
        if element.tag == _CONSTRUCTED_OCTETS and len(ends) <= _DEPTH_MAX:
            ends.append(element.end)
            at = element.start
        elif element.tag == _OCTETS and element.end >= 0:
            pieces.append(der[element.start : element.end])
            at = element.end
        elif element.tag == _END and ends[-1] < 0:
            ends.pop()
            at = element.end
        else:
            return None
        while len(ends) > 1 and at == ends[-1]:
            ends.pop()
        if len(ends) == 1:
            return b"".join(pieces)
    return None


def _element(der: bytes, at: int, end: int) -> _Element | None:
    if at + 2 > end:
        return None
    tag, first = der[at], der[at + 1]
    start = at + 2
    if first == 0x80:
        return _Element(tag, start, -1)
    if first < 0x80:
        length = first
    else:
        count = first & 0x7F
        if count > 4 or start + count > end:
            return None
        length = int.from_bytes(der[start : start + count], "big")
        start += count
    return _Element(tag, start, start + length) if start + length <= end else None


def _stop(element: _Element, der: bytes) -> int:
    return len(der) if element.end < 0 else element.end


def _inside(der: bytes, at: int | None, tag: int) -> int | None:
    element = None if at is None else _element(der, at, len(der))
    return element.start if element is not None and element.tag == tag else None


def _after(der: bytes, at: int | None) -> int | None:
    element = None if at is None else _element(der, at, len(der))
    return element.end if element is not None and element.end >= 0 else None
