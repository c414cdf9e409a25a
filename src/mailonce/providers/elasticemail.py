"""Elastic Email: https://help.elasticemail.com/en/articles/2376855-how-to-manage-http-web-notifications-webhooks.

Notifications are unsigned: a source proves them by a token, which may stand in the URL's query.
One request is one event, its fields in the query of a GET or in the form of a POST. Before a URL
is saved it is asked for with GET and without any field.
"""

import re
from datetime import UTC, datetime
from typing import Any
from urllib.parse import parse_qsl

from mailonce.core.arrivals.arrival import Arrival
from mailonce.core.arrivals.provider import Parsed, Probe, Provider
from mailonce.core.arrivals.source import Source
from mailonce.core.events.event import Bounce, Classification, Event, EventType, Reject
from mailonce.core.events.key import WHOLE, Identity, Recipe
from mailonce.core.reading import form
from mailonce.core.reading import values as reading
from mailonce.errors import ParseError

TYPES = {
    "sent": EventType.DELIVERED,
    "opened": EventType.OPENED,
    "clicked": EventType.CLICKED,
    "unsubscribed": EventType.UNSUBSCRIBED,
    "abusereport": EventType.COMPLAINED,
    "error": EventType.BOUNCED,
}
BOUNCES = {
    "nomailbox": Bounce.HARD,
    "spam": Bounce.BLOCKED,
    "blacklisted": Bounce.BLOCKED,
    "contentfilter": Bounce.BLOCKED,
    "spfproblem": Bounce.BLOCKED,
    "whitelistingproblem": Bounce.BLOCKED,
    "greylisted": Bounce.SOFT,
    "throttled": Bounce.SOFT,
    "timeout": Bounce.SOFT,
    "connectionproblem": Bounce.SOFT,
    "connectionterminated": Bounce.SOFT,
    "dnsproblem": Bounce.SOFT,
    "accountproblem": Bounce.SOFT,
    "notdelivered": Bounce.SOFT,
    "codeerror": Bounce.UNDETERMINED,
    "unknown": Bounce.UNDETERMINED,
}
# Elastic Email never tried: told to ignore the address, or cancelled by hand.
REJECTED_CATEGORIES = frozenset({"ignore", "manualcancel"})

EVENT = Recipe(
    name="elasticemail.event",
    version=1,
    identity=("status", "transaction", "messageid", "@to", "date", "target", "category"),
    content=("from", "subject", "channel", "postback"),
)
# A request with none of these says nothing of any mail.
EVENT_FIELDS = frozenset({"status", "transaction", "messageid", "to", "category"})

# As .NET writes it in American English, which the zone of the account does not touch.
_DATE = re.compile(
    r"(\d{1,2})/(\d{1,2})/(\d{4}) (\d{1,2}):(\d{2}):(\d{2})(?:[ \u202f]([AP])M)?", re.ASCII
)


def probe(arrival: Arrival, source: Source) -> Probe | None:
    """Answer the check of a URL that is being saved; its query may hold a token at most."""
    del source
    if arrival.method not in {"GET", "HEAD"}:
        return None
    try:
        pairs = parse_qsl(arrival.query, keep_blank_values=True, max_num_fields=form.FIELDS_MAX)
    except ValueError:
        return None
    return None if EVENT_FIELDS & {name.lower() for name, _ in pairs} else Probe()


def parse(arrival: Arrival, source: Source) -> Parsed:
    """Read one event from query and form; the case of the fields' names varies."""
    del source
    arrival = form.with_query(arrival)
    pairs = form.read(arrival.headers, arrival.body)
    fields = {name.lower(): value for name, value in pairs}
    if not EVENT_FIELDS & fields.keys():
        raise ParseError("an Elastic Email notification has 'status' and 'to' among its fields")
    return Parsed(events=(_read_event(fields),))


def _read_event(fields: dict[str, Any]) -> Event:
    type_, bounce, reject = _meaning(_plain(fields.get("status")), _plain(fields.get("category")))
    failed = bounce is not None or reject is not None
    message_id = fields.get("messageid") or fields.get("transaction")
    return Event(
        type=type_,
        identity=_identity(fields),
        message_id=reading.text_of(message_id, 400) or "",
        recipient=reading.address_of(fields.get("to")),
        occurred_ms=_occurred_ms(fields.get("date", "")),
        bounce=bounce,
        reject=reject,
        reason=reading.text_of(fields.get("category")) if failed else None,
        tags=reading.texts_of(fields.get("channel")),
        metadata={"postback": postback}
        if (postback := reading.text_of(fields.get("postback")))
        else {},
        url=reading.text_of(fields.get("target")),
        raw=fields,
    )


def _meaning(status: str, category: str) -> Classification:
    type_ = TYPES.get(status, EventType.OTHER)
    if type_ is not EventType.BOUNCED:
        return (type_, None, None)
    if category in REJECTED_CATEGORIES:
        return (EventType.REJECTED, None, Reject.OTHER)
    return (type_, BOUNCES.get(category, Bounce.UNDETERMINED), None)


def _plain(word: Any) -> str:
    """Write "Abuse Report" and "AbuseReport" alike; both have been documented."""
    return reading.word_of(word).replace(" ", "").lower()


def _identity(fields: dict[str, Any]) -> Identity:
    says_whose = fields.get("transaction") or fields.get("messageid")
    return Identity(EVENT if says_whose and fields.get("status") else WHOLE, fields)


def _occurred_ms(date: str) -> int | None:
    """Read a date in UTC, American unless its first number can be no month; else ISO 8601."""
    match = _DATE.fullmatch(date.strip())
    if match is None:
        return reading.iso_ms_of(date.strip())
    month, day, year, hour, minute, second = map(int, match.groups()[:6])
    if month > 12:
        month, day = day, month
    if match.group(7) is not None:
        hour = hour % 12 + (12 if match.group(7) == "P" else 0)
    try:
        moment = datetime(year, month, day, hour, minute, second, tzinfo=UTC)
    except ValueError:
        return None
    return reading.epoch_ms_of(int(moment.timestamp()))


PROVIDER = Provider(
    name="elasticemail",
    title="Elastic Email",
    docs="https://help.elasticemail.com/en/articles/2376855-how-to-manage-http-web-notifications-webhooks",
    parse=parse,
    recipes=(EVENT,),
    probe=probe,
    methods=("POST", "GET"),
    signs_body=False,
    # How long it tries is not documented; after a thousand failures it stops for good.
    retry_horizon_s=24 * 3600,
    reads_headers=("content-type",),
    types=frozenset({*TYPES.values(), EventType.REJECTED, EventType.OTHER}),
)
