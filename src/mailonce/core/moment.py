"""Times as users see them: ISO-8601, UTC, with milliseconds."""

from datetime import date, timedelta
from functools import lru_cache
from typing import overload

DAY_MS = 86_400_000
_EPOCH = date(1970, 1, 1)


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
    day, left = divmod(ms, DAY_MS)
    hours, left = divmod(left, 3_600_000)
    minutes, left = divmod(left, 60_000)
    seconds, left = divmod(left, 1000)
    return f"{day_text(day)}T{hours:02}:{minutes:02}:{seconds:02}.{left:03}Z"


@lru_cache(maxsize=1024)
def day_text(day: int) -> str:
    """Write days since 1970 as 2026-01-31; cached, since the same few are written repeatedly."""
    return (_EPOCH + timedelta(days=day)).isoformat()


def steady(wall_ms: int, *, last_ms: int, elapsed_s: float) -> int:
    """Read a clock that always moves forward, however the wall clock is set.

    Ahead of the wall clock it goes a thousandth slower, so that the two meet again.
    """
    return max(wall_ms, last_ms + int(elapsed_s * 999))
