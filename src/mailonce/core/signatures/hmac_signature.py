"""Signature schemes that several providers share."""

import hmac
import re
from base64 import b64decode
from binascii import Error as Base64Error
from functools import lru_cache
from hashlib import sha256
from typing import TYPE_CHECKING

from mailonce.core.arrivals.arrival import Arrival
from mailonce.core.arrivals.provider import VERIFIED, Refused, Verified
from mailonce.core.arrivals.source import Source

if TYPE_CHECKING:
    from hashlib import _Hash

MISSING = Refused("missing signature")
WRONG = Refused("wrong signature")
STALE = Refused("stale timestamp")
NOT_NUMERIC = Refused("timestamp is not a number")
BAD_ID = Refused("message id is not plain")

# Id, timestamp and body are joined by dots. A plain id and a decimal timestamp leave one way only
# to take them apart again.
PLAIN_ID = re.compile(r"[!-~]{1,256}")

# RFC 2104: a block of SHA-256, and what the key is combined with inside and outside.
_BLOCK_BYTES = 64
_INSIDE = bytes(one ^ 0x36 for one in range(256))
_OUTSIDE = bytes(one ^ 0x5C for one in range(256))


def hmac_hex_matches(secret: bytes, signed: bytes, signature: str) -> bool:
    """Compare a hex HMAC-SHA256 in constant time."""
    expected = hmac_sha256(secret, signed).hex()
    return signature.isascii() and hmac.compare_digest(expected, signature)


def verify_hex(source: Source, signed: bytes, signature: str) -> Verified | Refused:
    """Compare a hex HMAC-SHA256 by any of the source's secrets."""
    secrets = (secret.encode("utf-8", "replace") for secret in source.secrets)
    is_signed = any(hmac_hex_matches(secret, signed, signature) for secret in secrets)
    return VERIFIED if is_signed else WRONG


def hmac_sha256(secret: bytes, signed: bytes) -> bytes:
    """Do what `hmac.digest` does, in half the time: the secret is hashed only once."""
    begun_inside, begun_outside = _begun(secret)
    inside, outside = begun_inside.copy(), begun_outside.copy()
    inside.update(signed)
    outside.update(inside.digest())
    return outside.digest()


def hmac_base64_matches(
    secret: bytes, signed: bytes, signature: str, *, algorithm: str = "sha256"
) -> bool:
    """Compare a base64 HMAC in constant time."""
    expected = hmac.digest(secret, signed, algorithm)
    try:
        given = b64decode(signature, validate=True)
    except (Base64Error, ValueError):
        return False
    return hmac.compare_digest(expected, given)


@lru_cache(maxsize=1024)
def _begun(secret: bytes) -> "tuple[_Hash, _Hash]":
    key = secret if len(secret) <= _BLOCK_BYTES else sha256(secret).digest()
    key = key.ljust(_BLOCK_BYTES, b"\0")
    return sha256(key.translate(_INSIDE)), sha256(key.translate(_OUTSIDE))


def same_text(one: str, other: str) -> bool:
    """Compare two secrets in constant time."""
    return hmac.compare_digest(one.encode("utf-8", "replace"), other.encode("utf-8", "replace"))


def unpadded(text: str) -> bytes:
    """Decode base64 that may have lost its padding in a form or a shell; b"" where it is none."""
    text = text.rstrip("=")
    try:
        return b64decode(text + "=" * (-len(text) % 4), validate=True)
    except (Base64Error, ValueError):
        return b""


def seconds_of(timestamp: str) -> int | None:
    """Read a timestamp of plain decimal digits; anything else could be re-split when joined."""
    if not timestamp.isascii() or not timestamp.isdecimal() or len(timestamp) > 12:
        return None
    return int(timestamp)


def time_fault(
    timestamp: str, arrival: Arrival, source: Source, window_s: int | None
) -> Refused | None:
    """Say what is wrong with a signed time; the source's own window comes before the provider's."""
    seconds = seconds_of(timestamp)
    if seconds is None:
        return NOT_NUMERIC
    if source.freshness_s is not None:
        window_s = source.freshness_s
    return None if is_fresh(seconds, now_ms=arrival.now_ms, window_s=window_s) else STALE


def is_fresh(seconds: float, *, now_ms: int, window_s: int | None) -> bool:
    """Say whether a signed time is within the window, in both directions; no window: always."""
    return not window_s or abs(now_ms / 1000 - seconds) <= window_s
