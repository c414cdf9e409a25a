"""Times as people type them: `2h`, `30m`, `3d`, `today`, `yesterday`, `now`, or ISO-8601."""

import re

from mailonce.core.moment import DAY_MS
from mailonce.core.reading.values import iso_ms_of

EXAMPLES = "2h, 30m, 3d, today, yesterday, now, 2026-01-31 or 2026-01-31T12:00:00Z"

_UNITS_MS = {"s": 1000, "m": 60_000, "h": 3_600_000, "d": DAY_MS, "w": 7 * DAY_MS}
_AGO = re.compile(r"([0-9]{1,6}) ?([smhdw])(?: ago)?")
# Days ago, from midnight in UTC, as all times are shown.
_DAYS = {"today": 0, "yesterday": 1}


def past_ms_of(text: str, *, now_ms: int) -> int | None:
    """Read a time that is past, as unix milliseconds; None where it is no time."""
    word = text.strip().lower()
    if word == "now":
        return now_ms
    if word in _DAYS:
        return (now_ms // DAY_MS - _DAYS[word]) * DAY_MS
    if ago := _AGO.fullmatch(word):
        return max(0, now_ms - int(ago[1]) * _UNITS_MS[ago[2]])
    return iso_ms_of(text.strip())
