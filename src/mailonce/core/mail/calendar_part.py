"""The few facts of an invitation that tell what it is about (RFC 5545, RFC 6047)."""

import re

from msgspec import Struct

CONTENT_CHARS_MAX = 256 << 10
VALUE_CHARS_MAX = 1_000
TYPES = frozenset({"text/calendar", "application/ics"})

_FOLD = re.compile(r"\n[ \t]")
_PROPERTY = re.compile(r"^([A-Z-]{1,40})(?:;[^:\n]{0,500})?:(.*)$", re.MULTILINE | re.IGNORECASE)
_ESCAPE = re.compile(r"\\([\\;,nN])")
_METHODS = frozenset(
    {"publish", "request", "reply", "add", "cancel", "refresh", "counter", "declinecounter"}
)


class CalendarFacts(Struct, frozen=True, kw_only=True, gc=False):
    """What an invitation, a change, an answer or a cancellation is about, in its own words."""

    method: str | None
    uid: str | None
    summary: str | None
    starts: str | None
    ends: str | None
    location: str | None


def read_calendar(text: str, declared_method: str | None = None) -> CalendarFacts | None:
    """Read the first event of a calendar; None where the text is none."""
    text = _FOLD.sub("", text[:CONTENT_CHARS_MAX].replace("\r\n", "\n"))
    head, mark, event = text.partition("BEGIN:VEVENT")
    if not head.lstrip().upper().startswith("BEGIN:VCALENDAR"):
        return None
    event = event.partition("END:VEVENT")[0] if mark else ""
    calendar, first = _properties(head), _properties(event)
    method = (declared_method or calendar.get("METHOD") or "").lower()
    return CalendarFacts(
        method=method if method in _METHODS else None,
        uid=first.get("UID"),
        summary=first.get("SUMMARY"),
        starts=first.get("DTSTART"),
        ends=first.get("DTEND"),
        location=first.get("LOCATION"),
    )


def _properties(text: str) -> dict[str, str]:
    properties: dict[str, str] = {}
    for count, match in enumerate(_PROPERTY.finditer(text)):
        if count >= 500:
            break
        value = _ESCAPE.sub(
            lambda escape: "\n" if escape[1] in "nN" else escape[1], match[2].strip()
        )
        cleaned = "".join(char if char.isprintable() else " " for char in value[:VALUE_CHARS_MAX])
        properties.setdefault(match[1].upper(), cleaned)
    return {name: value for name, value in properties.items() if value}
