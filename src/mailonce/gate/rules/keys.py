"""The key that a request carries in its headers, read strictly."""

import re
from dataclasses import dataclass

from mailonce.gate.rules.http import Request

KEY_HEADERS = ("x-idempotency-key", "idempotency-key")

# A comma is how servers join a header that was sent twice; such a key would be two.
_PLAIN = re.compile(r"[ !#-+\--~]+")
# A string of RFC 9651: printable ASCII, in which only a quote and a backslash are escaped.
_STRING = re.compile(r'"((?:[ !#-\[\]-~]|\\["\\])*)"')


@dataclass(frozen=True, slots=True)
class BadKey:
    """The request has no usable key; `reason` says what the sender must change."""

    reason: str
    missing: bool = False


MISSING = BadKey("missing idempotency key", missing=True)
# Senders of Standard Webhooks write no other key than their signed id.
SIGNED_IDS = ("webhook-id", "svix-id")
UNREAD_ID = BadKey(
    "missing idempotency key; the request has a signed id of Standard Webhooks, so let the gate "
    "read that: Policy(…, key=webhook_id), of mailonce.gate.signature",
    missing=True,
)


def key_of(request: Request, *, chars_max: int) -> str | BadKey:
    """Read the key from both headers; where both are given they must agree."""
    key: str | None = None
    for name, value in request.headers:
        if name.lower() not in KEY_HEADERS or not value.strip():
            continue
        read = _read(value.strip())
        if read is None:
            return BadKey(f"{name.lower()} is neither a plain key nor a structured-field string")
        if key is not None and key != read:
            return BadKey("the idempotency key headers differ")
        key = read
    if key is None and any(True for name in SIGNED_IDS for _ in request.values(name)):
        return UNREAD_ID
    return checked(key, chars_max=chars_max)


def checked(key: str | None, *, chars_max: int) -> str | BadKey:
    """Refuse a key that is blank, too long, or that a database could not hold."""
    if key is None or not key.strip():
        return MISSING
    if len(key) > chars_max:
        return BadKey(f"the idempotency key is longer than {chars_max} characters")
    if not key.isprintable():
        return BadKey("the idempotency key has characters that cannot be printed")
    return key


def _read(value: str) -> str | None:
    if not value.startswith('"'):
        return value if _PLAIN.fullmatch(value) else None
    match = _STRING.fullmatch(value)
    return re.sub(r"\\(.)", r"\1", match[1]) if match else None
