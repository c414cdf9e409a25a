"""Remove secrets from an endpoint's answer before it is stored."""

import re
from collections.abc import Iterable

MARK = b"[redacted]"
# A value shorter than this would take ordinary words out with it.
SECRET_CHARS_MIN = 6

_KEYS = re.compile(rb"wh(?:sec|sk)_[A-Za-z0-9+/=_-]+|(?i:bearer)[ \t]+[^\s\"',;<>]+")


def redacted(text: bytes, secrets: Iterable[str]) -> bytes:
    """Blank out our own secrets, and whatever looks like a signing key or a bearer token."""
    for secret in secrets:
        for spelling in {secret, secret.partition("_")[2]}:
            if len(spelling) >= SECRET_CHARS_MIN:
                text = text.replace(spelling.encode(), MARK)
    return _KEYS.sub(MARK, text)


def origin_of(url: str) -> str:
    """Cut a URL after its host: its path or query may hold a key."""
    scheme, separator, rest = url.partition("://")
    host = rest.partition("/")[0].partition("?")[0].partition("#")[0].rpartition("@")[2]
    origin = f"{scheme}{separator}{host}"
    return origin if url in {origin, origin + "/"} else f"{origin}/…"
