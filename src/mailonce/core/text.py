"""How values are written for people and JSON."""

import re
from datetime import UTC, datetime, timedelta

_UNSTORABLE = re.compile("[\x00\ud800-\udfff]")
_EPOCH = datetime(1970, 1, 1, tzinfo=UTC)


def iso(ms: int | None) -> str | None:
    """Write unix milliseconds as ISO-8601 in UTC."""
    if ms is None:
        return None
    moment = _EPOCH + timedelta(milliseconds=ms)
    return moment.isoformat(timespec="milliseconds").replace("+00:00", "Z")


def storable(text: str, *, chars_max: int) -> str:
    """Make a text that every database holds: no NUL, no lone surrogate, not too long."""
    return _UNSTORABLE.sub("\ufffd", text[:chars_max])
