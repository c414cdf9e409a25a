"""Read the date of a mail, as senders write it."""

import re
from datetime import UTC, datetime, timedelta

# Up to the year 9999, which is the end of `datetime`.
_DATE = re.compile(
    r"(?:[A-Za-z]{2,9}\.?,?\s*)?(\d{1,2})[\s-]+([A-Za-z]{3,9})\.?[\s-]+(\d{2,4}),?\s+"
    r"(\d{1,2})[:.](\d{2})(?:[:.](\d{2}))?(?:\.\d+)?\s*([AaPp][Mm]\b)?\s*([+-]\s?\d{2}:?\d{2}|[A-Za-z]{1,5})?",
    re.ASCII,
)
_ASCTIME = re.compile(
    r"[A-Za-z]{3}\s+([A-Za-z]{3})\s+(\d{1,2})\s+(\d{1,2}):(\d{2}):(\d{2})\s+(\d{4})", re.ASCII
)
_ISO = re.compile(
    r"\d{4}-\d{2}-\d{2}[T ]\d{2}:\d{2}(?::\d{2}(?:\.\d{1,6})?)?(?:Z|[+-]\d{2}:?\d{2})?"
)
_MONTHS = {
    name: number + 1
    for number, name in enumerate(
        ["jan", "feb", "mar", "apr", "may", "jun", "jul", "aug", "sep", "oct", "nov", "dec"]
    )
}
_ZONES = {
    "EST": -300, "EDT": -240, "CST": -360, "CDT": -300, "MST": -420, "MDT": -360, "PST": -480,
    "PDT": -420, "CET": 60, "CEST": 120, "MET": 60, "MEST": 120, "EET": 120, "EEST": 180,
    "WEST": 60, "BST": 60, "JST": 540, "KST": 540, "MSK": 180, "IST": 330,
}  # fmt: skip
DATE_CHARS_MAX = 100


def read_date_ms(value: str) -> int | None:
    """Give unix milliseconds; None where it is no date, or before 1970."""
    text = re.sub(r"\([^)]{0,99}\)?", " ", value[:DATE_CHARS_MAX]).strip()
    moment = _rfc_date(text) or _asctime(text) or _iso_date(text)
    if moment is None:
        return None
    ms = round((moment - datetime(1970, 1, 1, tzinfo=UTC)) / timedelta(milliseconds=1))
    return ms if ms >= 0 else None


def _rfc_date(text: str) -> datetime | None:
    match = _DATE.match(text)
    if match is None:
        return None
    year, hour = int(match[3]), int(match[4])
    if len(match[3]) < 4:
        # RFC 5322 §4.3: two or three digits.
        year += 2000 if year < 50 else 1900
    if match[7]:
        hour = hour % 12 + (12 if match[7] in "pmPMPmpM" else 0)
    month = _MONTHS.get(match[2][:3].lower(), 0)
    parts = (year, month, int(match[1]), hour, int(match[5]), int(match[6] or 0))
    return _moment(parts, _offset_min(match[8] or ""))


def _asctime(text: str) -> datetime | None:
    match = _ASCTIME.match(text)
    if match is None:
        return None
    hour, minute, second = (int(match[n]) for n in (3, 4, 5))
    month = _MONTHS.get(match[1].lower(), 0)
    return _moment((int(match[6]), month, int(match[2]), hour, minute, second), 0)


def _iso_date(text: str) -> datetime | None:
    match = _ISO.match(text)
    if match is None:
        return None
    try:
        moment = datetime.fromisoformat(match[0])
        return moment.replace(tzinfo=UTC) if moment.tzinfo is None else moment.astimezone(UTC)
    except (ValueError, OverflowError):
        return None


def _offset_min(zone: str) -> int:
    zone = zone.replace(" ", "").replace(":", "")
    if zone[:1] in {"+", "-"} and len(zone) == 5:
        minutes = int(zone[1:3]) * 60 + int(zone[3:])
        return -minutes if zone[0] == "-" else minutes
    return _ZONES.get(zone.upper(), 0)


def _moment(parts: tuple[int, int, int, int, int, int], offset_min: int) -> datetime | None:
    year, month, day, hour, minute, second = parts
    try:
        # A leap second is the second before it.
        local = datetime(year, month, day, hour, minute, min(second, 59), tzinfo=UTC)
        return local - timedelta(minutes=offset_min)
    except (ValueError, OverflowError):
        return None
