"""Stamps and days as users see them."""

from datetime import date, timedelta

from mailonce.core.facts import Stamp, stamp_ms
from mailonce.core.moment import moment

DAY_MS = 86_400_000

_EPOCH_DAY = date(1970, 1, 1)


def moment_of(stamp: Stamp | None) -> str | None:
    """Write the event time that a stamp holds."""
    return None if stamp is None else moment(stamp_ms(stamp))


def day_text(day: int) -> str:
    """Write days since 1970 as 2026-01-31."""
    return (_EPOCH_DAY + timedelta(days=day)).isoformat()
