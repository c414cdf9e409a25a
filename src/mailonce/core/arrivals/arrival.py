"""An arrival: raw bytes that came through a door, and what came with them."""

from collections.abc import Mapping
from urllib.parse import unquote_plus

from msgspec import Struct

# The second is what RFC 6750 has for senders that can set no header.
PROVING_FIELDS = frozenset({"token", "access_token"})


class Arrival(Struct, frozen=True, kw_only=True, gc=False):
    """An arrival. Header names are lower-case; the last value of a repeated header counts."""

    method: str
    headers: Mapping[str, str]
    body: bytes
    # The door's clock, in unix milliseconds: for freshness, never for identity.
    now_ms: int
    query: str = ""
    token: str | None = None
    peer: str | None = None


def query_token(query: str) -> str | None:
    """Give the token that stands in a URL's query: some senders have no other proof."""
    for part in query.split("&"):
        name, equals, value = part.partition("=")
        if equals and name in PROVING_FIELDS:
            return unquote_plus(value)
    return None
