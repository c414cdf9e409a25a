"""Ids: sixteen bytes that sort by the time they were minted, and their public form."""

from typing import NewType

from mailonce.errors import MissingError

EventId = NewType("EventId", bytes)
ArrivalId = NewType("ArrivalId", bytes)

ID_BYTES = 16
# By the beginning of an id: where those of its kind are listed.
_SEE = {
    "con": "see GET /v1/expectations",
    "dead": "see GET /v1/dead-letters",
    "evt": "see GET /v1/events",
    "exp": "see GET /v1/expectations",
    "mail": "see GET /v1/unmatched",
    "rdl": "see GET /v1/redeliveries",
    "rpr": "see GET /v1/reprocessings",
    "snd": "see GET /v1/sends",
}


def mint(now_ms: int, entropy: bytes) -> bytes:
    """Make an id of six bytes of time and ten random bytes."""
    assert len(entropy) == 10, f"an id takes ten random bytes, got {len(entropy)}"
    return now_ms.to_bytes(6, "big") + entropy


def nth_event_id(arrival: ArrivalId, position: int) -> EventId:
    """Give the id of an arrival's event: ids of one arrival sort by position."""
    return EventId(arrival[:13] + position.to_bytes(3, "big"))


def public(prefix: str, raw: bytes) -> str:
    """Write an id as users see it; the text sorts as the bytes do."""
    assert len(raw) == ID_BYTES, f"an id has {ID_BYTES} bytes, got {len(raw)}"
    return f"{prefix}_{raw.hex()}"


def private(prefix: str, text: str) -> bytes:
    """Read a public id.

    Raises: MissingError where it cannot be one of ours.
    """
    start, _, rest = text.partition("_")
    try:
        raw = bytes.fromhex(rest)
    except ValueError:
        raw = b""
    if start == "arr" != prefix and len(raw) == ID_BYTES:
        # A provider has no other id of ours in its log.
        raise MissingError(f"{text!r} is the id of an arrival; see GET /v1/arrivals/{text}")
    if start != prefix or len(raw) != ID_BYTES:
        see = _SEE.get(prefix, "check it")
        raise MissingError(f"{text[:60]!r} is not an id of the form {prefix}_…; {see}")
    return raw


def first_id(ms: int) -> bytes:
    """Give the bound that every id minted before `ms` is below."""
    return max(0, ms).to_bytes(6, "big") + bytes(ID_BYTES - 6)


def minted_ms(raw: bytes) -> int:
    return int.from_bytes(raw[:6], "big")
