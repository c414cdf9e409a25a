"""Times as people type them: `2h`, `3d`, `10:00`, `today`, `yesterday`, `now`, or ISO-8601."""

import re

from mailonce.core.moment import DAY_MS
from mailonce.core.reading.values import iso_ms_of

EXAMPLES = "2h, 30m, 3d, 10:00, today, yesterday, now, 2026-01-31 or 2026-01-31T12:00:00Z"
DAY_EXAMPLES = "today, yesterday, 7d or 2026-01-31"

_UNITS_MS = {"s": 1000, "m": 60_000, "h": 3_600_000, "d": DAY_MS, "w": 7 * DAY_MS}
_AGO = re.compile(r"([0-9]{1,6}) ?([smhdw])(?: ago)?")
_CLOCK = re.compile(r"([01]?[0-9]|2[0-3]):([0-5][0-9])(?::([0-5][0-9]))?", re.ASCII)
# Days ago, from midnight in UTC, as all times are shown.
_DAYS = {"today": 0, "yesterday": 1}


def past_ms_of(text: str, *, now_ms: int) -> int | None:
    """Read a time that is past, as unix milliseconds; None where it is no time.

    `10:00` is that of today in UTC, which may be still to come: `is_to_come` says so.
    """
    word = text.strip().lower()
    if word == "now":
        return now_ms
    if word in _DAYS:
        return (now_ms // DAY_MS - _DAYS[word]) * DAY_MS
    if ago := _AGO.fullmatch(word):
        return max(0, now_ms - int(ago[1]) * _UNITS_MS[ago[2]])
    if clock := _CLOCK.fullmatch(word):
        seconds = (int(clock[1]) * 60 + int(clock[2])) * 60 + int(clock[3] or 0)
        return now_ms // DAY_MS * DAY_MS + seconds * 1000
    return iso_ms_of(text.strip())


def past_day_ms_of(text: str, *, now_ms: int) -> int | None:
    """Read a day, as unix milliseconds of its first moment in UTC; None where it is no whole day.

    `7d` is the day that was seven days ago; `2h`, `10:00` and `now` are within a day.
    """
    word = text.strip().lower()
    ago = _AGO.fullmatch(word)
    is_day = word in _DAYS or (ago is not None and _UNITS_MS[ago[2]] >= DAY_MS)
    ms = past_ms_of(word, now_ms=now_ms) if is_day else iso_ms_of(text.strip())
    if ms is None or is_day:
        return None if ms is None else ms // DAY_MS * DAY_MS
    return ms if ms % DAY_MS == 0 else None


def is_to_come(text: str, *, now_ms: int) -> bool:
    """Say whether a time without a day is later today, so that another day must be meant."""
    is_clock = _CLOCK.fullmatch(text.strip()) is not None
    return is_clock and (past_ms_of(text, now_ms=now_ms) or 0) > now_ms
