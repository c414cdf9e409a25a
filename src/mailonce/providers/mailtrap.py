"""Mailtrap: https://docs.mailtrap.io/email-api-smtp/advanced/webhooks.

The signature is hex HMAC-SHA256 over the raw body, without a timestamp. A body is an object with
`events`, or one JSON object per line where the webhook's format is jsonlines; the SDKs' fixtures
sign a bare event, so that and an array are read as well.
"""

import re
from collections.abc import Mapping
from typing import Any

from mailonce.core import json_text
from mailonce.core.arrivals.arrival import Arrival
from mailonce.core.arrivals.provider import Parsed, Provider, Verdict
from mailonce.core.arrivals.source import Source
from mailonce.core.events.event import Bounce, Event, EventType, Reject
from mailonce.core.events.key import WHOLE, Identity, Recipe
from mailonce.core.json_text import Unreadable
from mailonce.core.reading import held_mail
from mailonce.core.reading import values as reading
from mailonce.core.signatures import hmac_signature
from mailonce.errors import ParseError

# A body says "soft bounce" where the API's names have an underscore.
TYPES = {
    "delivery": EventType.DELIVERED,
    "open": EventType.OPENED,
    "click": EventType.CLICKED,
    "unsubscribe": EventType.UNSUBSCRIBED,
    "spam": EventType.COMPLAINED,
    "spam complaint": EventType.COMPLAINED,
    "bounce": EventType.BOUNCED,
    # Mailtrap goes on trying; a bounce follows where it gives up.
    "soft bounce": EventType.DEFERRED,
    "reject": EventType.REJECTED,
    "inbound.message received": EventType.INBOUND,
    "inbound message received": EventType.INBOUND,
}
# Whether a suspended message is refused or only held back is not documented. Option `suspension`.
SUSPENSION = "suspension"
REJECTS = {"unsubscription": Reject.UNSUBSCRIBED}
# Mailtrap does not list its bounce categories; these two speak of the mail, not of the address.
# Option `blocked_categories`.
BLOCKED_CATEGORIES = ("policy", "spam")

EVENT = Recipe(
    name="mailtrap.event",
    version=1,
    identity=("event_id",),
    content=("event", "message_id", "@email", "timestamp", "bounce_category", "url"),
)
# The event_id of inbound mail is said to change between attempts; the message's own does not.
INBOUND = Recipe(
    name="mailtrap.inbound",
    version=1,
    identity=("inbox_id", "message_id"),
)

# Seconds of this size would be in the year 5138; inbound events count milliseconds.
SECONDS_MAX = 100_000_000_000

_WRAPPED = re.compile(rb'\s*\{\s*"events"\s*:\s*(\[.*\])\s*\}\s*', re.DOTALL)


def verify(arrival: Arrival, source: Source, keys: Mapping[str, bytes]) -> Verdict:
    """Check the signature over the raw bytes, before any line is split."""
    del keys
    signature = arrival.headers.get("mailtrap-signature")
    if signature is None:
        return hmac_signature.MISSING
    return hmac_signature.verify_hex(source, arrival.body, signature)


def parse(arrival: Arrival, source: Source) -> Parsed:
    """Read the events in whichever of the four shapes they come."""
    elements, unreadable = json_text.objects_in(*_read_elements(arrival.body))
    return Parsed(
        events=tuple(_read_event(element, source) for element in elements),
        unreadable=tuple(unreadable),
    )


def check(source: Source) -> str | None:
    """Name the option that could never work."""
    hold_fault = held_mail.fault_of(source, SUSPENSION)
    if hold_fault is not None:
        return hold_fault
    if not isinstance(source.options.get("blocked_categories", ()), list | tuple):
        return "option 'blocked_categories' must be a list of Mailtrap's bounce categories"
    return None


def _read_elements(body: bytes) -> tuple[list[Any], list[Unreadable]]:
    try:
        value = json_text.read(body)
    except ParseError:
        return _read_pieces(body)
    if isinstance(value, dict):
        value = [value] if "event" in value else value.get("events")
    if not isinstance(value, list):
        raise ParseError("a Mailtrap body has a list 'events', or is an event")
    return value, []


def _read_pieces(body: bytes) -> tuple[list[Any], list[Unreadable]]:
    """Read what is no JSON as a whole: lines, or an array of which some element is broken."""
    wrapped = _WRAPPED.fullmatch(body)
    if wrapped is not None:
        return json_text.read_elements(wrapped.group(1))
    if body.lstrip().startswith(b"["):
        return json_text.read_elements(body)
    elements: list[Any] = []
    unreadable: list[Unreadable] = []
    for position, line in enumerate(filter(None, map(bytes.strip, body.split(b"\n")))):
        try:
            elements.append(json_text.read(line))
        except ParseError as error:
            unreadable.append(Unreadable(position, str(error), line))
    if not any(isinstance(element, dict) for element in elements):
        raise ParseError("a Mailtrap body is JSON, or JSON lines")
    return elements, unreadable


def _read_event(element: dict[str, Any], source: Source) -> Event:
    type_, reject = _type(element, source)
    return Event(
        type=type_,
        identity=_identity(element, type_),
        provider_event_id=reading.text_of(element.get("event_id"), 200),
        message_id=reading.text_of(element.get("message_id"), 400) or "",
        recipient=reading.address_of(element.get("email")),
        occurred_ms=_occurred_ms(element.get("timestamp")),
        bounce=_bounce(element, source) if type_ is EventType.BOUNCED else None,
        reject=reject,
        reason=reading.text_of(element.get("response")) or reading.text_of(element.get("reason")),
        tags=reading.texts_of(element.get("category")),
        metadata=reading.metadata_of(element.get("custom_variables")),
        url=reading.text_of(element.get("url")),
        user_agent=reading.text_of(element.get("user_agent")),
        ip=reading.text_of(element.get("ip"), 60),
        raw=element,
    )


def _type(element: dict[str, Any], source: Source) -> held_mail.Hold:
    word = reading.word_of(element.get("event")).replace("_", " ")
    if word == SUSPENSION:
        return held_mail.hold_of(source, SUSPENSION)
    type_ = TYPES.get(word, EventType.OTHER)
    return (type_, _reject(element) if type_ is EventType.REJECTED else None)


def _identity(element: dict[str, Any], type_: EventType) -> Identity:
    if type_ is EventType.INBOUND and element.get("inbox_id") and element.get("message_id"):
        return Identity(INBOUND, element)
    event_id = element.get("event_id")
    return Identity(EVENT if isinstance(event_id, str) and event_id else WHOLE, element)


def _bounce(element: dict[str, Any], source: Source) -> Bounce:
    category = reading.word_of(element.get("bounce_category")).lower()
    wanted = source.options.get("blocked_categories")
    blocked = wanted if isinstance(wanted, list | tuple) else BLOCKED_CATEGORIES
    return Bounce.BLOCKED if category and category in blocked else Bounce.HARD


def _reject(element: dict[str, Any]) -> Reject:
    """Read why Mailtrap did not send it; of its words only this one speaks of the recipient's."""
    return REJECTS.get(reading.word_of(element.get("reason")).lower(), Reject.OTHER)


def _occurred_ms(value: Any) -> int | None:
    if isinstance(value, int | float) and value >= SECONDS_MAX:
        return reading.epoch_ms_of(value / 1000)
    return reading.epoch_ms_of(value)


PROVIDER = Provider(
    name="mailtrap",
    title="Mailtrap",
    docs="https://docs.mailtrap.io/email-api-smtp/advanced/webhooks",
    verify=verify,
    parse=parse,
    recipes=(EVENT, INBOUND),
    event_id="event_id",
    check=check,
    needs=("secrets",),
    # The schedule is not documented; the longest that Mailtrap has written of is a day.
    retry_horizon_s=24 * 3600,
    types=frozenset({*TYPES.values(), EventType.OTHER}),
    options={
        SUSPENSION: held_mail.WHAT_IT_COUNTS_AS,
        "blocked_categories": "list of bounce categories that blame the mail, not the address",
    },
)
