"""Times as users see them: ISO-8601, UTC, with milliseconds."""

from datetime import UTC, date, datetime, timedelta
from typing import overload

from mailonce.core.facts import Stamp, stamp_ms

DAY_MS = 86_400_000

_EPOCH = datetime(1970, 1, 1, tzinfo=UTC)
_EPOCH_DAY = _EPOCH.date()


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


def moment_of(stamp: Stamp | None) -> str | None:
    """Write the event time that a stamp holds."""
    return None if stamp is None else moment(stamp_ms(stamp))


def day_text(day: int) -> str:
    """Write days since 1970 as 2026-01-31."""
    return (_EPOCH_DAY + timedelta(days=day)).isoformat()


def day_number(day: date) -> int:
    """Count the days since 1970."""
    return (day - _EPOCH_DAY).days
