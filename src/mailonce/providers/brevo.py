"""Brevo: https://developers.brevo.com/docs/transactional-webhooks.

Brevo signs nothing: a source proves it by basic auth, a token, a header or its address ranges. One
body is one event or, for a webhook with `batched`, up to 500 of them in an array.
"""

from collections.abc import Mapping
from functools import partial
from typing import Any

from mailonce.core import json_text
from mailonce.core.arrivals.arrival import Arrival
from mailonce.core.arrivals.provider import Codes, Parsed, Provider
from mailonce.core.arrivals.source import Source
from mailonce.core.events.event import Bounce, Event, EventType, Reject
from mailonce.core.events.key import WHOLE, Identity, Recipe
from mailonce.core.json_text import Unreadable
from mailonce.core.reading import values as reading
from mailonce.core.reading.mail_batch import read_mails
from mailonce.errors import ParseError
from mailonce.providers.inbound import brevo as inbound

# Some of Brevo's examples have seconds where milliseconds belong. As milliseconds, this is 1973.
EPOCH_MS_MIN = 10**11

TYPES = {
    # Accepted by Brevo only: it may still be blocked.
    "request": EventType.ACCEPTED,
    "delivered": EventType.DELIVERED,
    "deferred": EventType.DEFERRED,
    "soft_bounce": EventType.BOUNCED,
    "hard_bounce": EventType.BOUNCED,
    "invalid_email": EventType.BOUNCED,
    "blocked": EventType.REJECTED,
    "error": EventType.REJECTED,
    "spam": EventType.COMPLAINED,
    "complaint": EventType.COMPLAINED,
    # A message's first open has a word of its own, in place of the plain one.
    "unique_opened": EventType.OPENED,
    "opened": EventType.OPENED,
    "unique_proxy_open": EventType.OPENED,
    "proxy_open": EventType.OPENED,
    "click": EventType.CLICKED,
    "unsubscribe": EventType.UNSUBSCRIBED,
    "unsubscribed": EventType.UNSUBSCRIBED,
    "list_addition": EventType.SUBSCRIBED,
}
BOUNCES = {
    "soft_bounce": Bounce.SOFT,
    "hard_bounce": Bounce.HARD,
    "invalid_email": Bounce.HARD,
}
MACHINE_OPENS = frozenset({"unique_proxy_open", "proxy_open"})
# Brevo blocks for what it knows of the address, or for the sender's sake; the reason is prose.
REJECT_WORDS = {
    "unsubscribed": Reject.UNSUBSCRIBED,
    "blacklist": Reject.SUPPRESSED,
    "blocklist": Reject.SUPPRESSED,
}

# `id` is that of the webhook. The event's time is mostly in milliseconds; where it is not, the
# client tells the opens of one second apart.
EVENT = Recipe(
    name="brevo.event",
    version=1,
    identity=("event", "message-id", "@email", "at", "link", "reason", "ip", "user_agent"),
    content=("subject", "template_id"),
)


def parse(arrival: Arrival, source: Source) -> Parsed:
    """Read one event, or a batch; an element that is no object is set aside, and costs no other."""
    elements, unreadable = json_text.read_objects(arrival.body)
    if len(elements) == 1 and "event" not in elements[0]:
        wrapper = elements[0]
        elements, unreadable = _unwrapped(wrapper)
        if "items" in wrapper:
            return _parse_inbound(elements, unreadable, source)
    return Parsed(events=tuple(map(_read_event, elements)), unreadable=tuple(unreadable))


def _parse_inbound(
    elements: list[dict[str, Any]], unreadable: list[Unreadable], source: Source
) -> Parsed:
    batch = read_mails(
        elements,
        unreadable,
        partial(inbound.parse_mail, source=source),
        alone=lambda element: {"items": [element]},
    )
    events = tuple(map(_read_inbound, batch.elements))
    return Parsed(events=events, mails=batch.mails, unreadable=batch.unreadable)


def _unwrapped(wrapper: dict[str, Any]) -> tuple[list[dict[str, Any]], list[Unreadable]]:
    """Take a batch out of the object around it.

    What Brevo wraps a batch in is not documented, so any object with one list is taken for one.
    Inbound mail comes in such an object, as its `items`.
    """
    lists = [value for value in wrapper.values() if isinstance(value, list)]
    return json_text.objects_in(lists[0]) if len(lists) == 1 else ([wrapper], [])


def _read_event(element: dict[str, Any]) -> Event:
    word = reading.word_of(element.get("event"))
    type_ = TYPES.get(word, EventType.OTHER)
    reason = reading.text_of(element.get("reason"))
    message_id = reading.text_of(element.get("message-id"), 400) or ""
    return Event(
        type=type_,
        identity=_identity(element, word),
        message_id=message_id,
        recipient=reading.address_of(element.get("email")),
        occurred_ms=_occurred_ms(element),
        bounce=BOUNCES.get(word),
        reject=_reject(word, reason) if type_ is EventType.REJECTED else None,
        reason=reason,
        stream=_lists(element) if type_ is EventType.SUBSCRIBED else "",
        tags=_tags(element),
        metadata=reading.metadata_in(element.get("X-Mailin-custom"), "X-Mailin-custom"),
        url=reading.text_of(element.get("link")),
        user_agent=reading.text_of(element.get("user_agent")),
        ip=reading.text_of(element.get("ip"), 60),
        machine=True if word in MACHINE_OPENS else None,
        raw=element,
    )


def _read_inbound(element: dict[str, Any]) -> Event:
    """Read mail as an event."""
    recipient, certain = reading.recipient_of(element.get("Recipients"))
    return Event(
        type=EventType.INBOUND,
        identity=Identity(WHOLE, element),
        message_id=reading.text_of(element.get("MessageId"), 400) or "",
        recipient=recipient,
        certain=certain,
        raw=element,
    )


def _identity(element: dict[str, Any], word: str) -> Identity:
    if not word or not (element.get("message-id") or element.get("email")):
        return Identity(WHOLE, element)
    at = _time(element)
    fields = {**element, "at": at}
    return Identity(EVENT, {**fields, "ip": None, "user_agent": None} if _is_ms(at) else fields)


def _time(element: Mapping[str, Any]) -> Any:
    """Give the best of the event's times; `date` is in the time zone of the account."""
    names = ("ts_epoch", "ts_event", "ts")
    return next((element[name] for name in names if element.get(name) is not None), None)


def _occurred_ms(element: Mapping[str, Any]) -> int | None:
    at = _time(element)
    return round(at) if _is_ms(at) else reading.epoch_ms_of(at)


def _is_ms(time: Any) -> bool:
    return isinstance(time, int | float) and EPOCH_MS_MIN <= time <= reading.TIME_MS_MAX


def _reject(word: str, reason: str | None) -> Reject:
    if word == "error":
        return Reject.OTHER
    text = (reason or "").casefold()
    return next((reject for part, reject in REJECT_WORDS.items() if part in text), Reject.POLICY)


def _lists(element: Mapping[str, Any]) -> str:
    """Name the lists that an address was added to.

    Whoever puts an address on a list does not undo its owner's unsubscribing from all mail.
    """
    return ",".join(reading.texts_of(element.get("list_id")))[:200] or "list"


def _tags(element: Mapping[str, Any]) -> tuple[str, ...]:
    """Read `tags`, or else `tag`: one tag, a template's name, or a list of tags as JSON text."""
    if element.get("tags"):
        return reading.texts_of(element["tags"])
    tag = element.get("tag")
    try:
        tags = json_text.read(reading.word_of(tag).encode("utf-8", "surrogatepass"))
    except ParseError:
        tags = None
    return reading.texts_of(tags if isinstance(tags, list) else tag)


PROVIDER = Provider(
    name="brevo",
    title="Brevo",
    docs="https://developers.brevo.com/docs/transactional-webhooks",
    parse=parse,
    recipes=(EVENT,),
    signs_body=False,
    # Tried again after 10 minutes, 1, 2 and 8 hours.
    retry_horizon_s=12 * 3600,
    # By its documentation a 5xx ends the retries as a 4xx does, and only 429 is tried again.
    codes=Codes(later=429, full=429, refused_is_final=True),
    inbound=inbound.INBOUND,
    types=frozenset({*TYPES.values(), EventType.INBOUND, EventType.OTHER}),
)
