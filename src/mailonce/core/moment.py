"""Times as users see them: ISO-8601, UTC, with milliseconds."""

from datetime import UTC, datetime, timedelta
from typing import overload

_EPOCH = datetime(1970, 1, 1, tzinfo=UTC)


@overload
def moment(ms: int) -> str: ...
@overload
def moment(ms: None) -> None: ...
@overload
def moment(ms: int | None) -> str | None: ...
def moment(ms: int | None) -> str | None:
    """Write unix milliseconds as 2026-01-31T23:59:59.999Z."""
    if ms is None:
        return None
    at = _EPOCH + timedelta(milliseconds=ms)
    return at.isoformat(timespec="milliseconds").replace("+00:00", "Z")
