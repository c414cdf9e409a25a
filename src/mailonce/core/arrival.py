"""An arrival: raw bytes that came through a door, and what came with them."""

from collections.abc import Mapping

from mailonce.core.frozen import frozen


@frozen(kw_only=True)
class Arrival:
    """`headers` have lower-case names; of a repeated header the last value counts."""

    method: str
    headers: Mapping[str, str]
    body: bytes
    # The door's clock, in unix milliseconds: for freshness, never for identity.
    now_ms: int
    query: str = ""
    token: str | None = None
    peer: str | None = None
