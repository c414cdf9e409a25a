"""Emailit: https://emailit.com/docs/webhooks/.

The signature is hex HMAC-SHA256 over `{timestamp}.` and the raw body. It looks like Standard
Webhooks and is not: the key is the whole secret, `whsec_` included, as text. A body is an array of
events since "Webhooks v2"; before, it was one event, whose mail stood in `object.email`.
"""

from collections.abc import Mapping
from functools import partial
from typing import Any

from mailonce.core import json_text
from mailonce.core.arrivals.arrival import Arrival
from mailonce.core.arrivals.provider import Parsed, Provider, Verdict
from mailonce.core.arrivals.source import Source
from mailonce.core.events.event import Bounce, Event, EventType, Reject
from mailonce.core.events.key import WHOLE, Identity, Recipe
from mailonce.core.reading import held_mail
from mailonce.core.reading import values as reading
from mailonce.core.signatures import hmac_signature

TYPES = {
    "email.accepted": EventType.ACCEPTED,
    "email.scheduled": EventType.ACCEPTED,
    "email.delivered": EventType.DELIVERED,
    "email.attempted": EventType.DEFERRED,
    "email.bounced": EventType.BOUNCED,
    "email.failed": EventType.BOUNCED,
    "email.rejected": EventType.REJECTED,
    "email.suppressed": EventType.REJECTED,
    "email.complained": EventType.COMPLAINED,
    "email.clicked": EventType.CLICKED,
    "email.loaded": EventType.OPENED,
    "email.unsubscribed": EventType.UNSUBSCRIBED,
    "email.received": EventType.INBOUND,
    # The words before v2: https://docs.emailit.com/webhooks/event-types.
    "email.delivery.sent": EventType.DELIVERED,
    "email.delivery.softfail": EventType.DEFERRED,
    "email.delivery.error": EventType.DEFERRED,
    "email.delivery.delayed": EventType.DEFERRED,
    "email.delivery.hardfail": EventType.BOUNCED,
    "email.delivery.bounce": EventType.BOUNCED,
    "email.link.clicked": EventType.CLICKED,
}
# Option `held` says what a hold counts as.
HELD_WORDS = frozenset({"email.held", "email.delivery.held"})

BOUNCES = {
    "email.bounced": Bounce.HARD,
    # Emailit gave up; the address may be fine.
    "email.failed": Bounce.SOFT,
    "email.delivery.bounce": Bounce.HARD,
}
# Whether an object ever names its bounce's class is not documented; if it does, it knows best.
BOUNCE_CLASSES = {
    "hard": Bounce.HARD,
    "permanent": Bounce.HARD,
    "soft": Bounce.SOFT,
    "transient": Bounce.SOFT,
    "blocked": Bounce.BLOCKED,
}

# The times are those of the object, which may have changed again before the next attempt.
EVENT = Recipe(
    name="emailit.event",
    version=1,
    identity=("event_id",),
    content=("type", "id", "@to"),
)


def verify(arrival: Arrival, source: Source, keys: Mapping[str, bytes]) -> Verdict:
    """Check the signature over timestamp and body; each attempt is signed anew."""
    del keys
    timestamp = arrival.headers.get("x-emailit-timestamp")
    signature = arrival.headers.get("x-emailit-signature")
    if timestamp is None or signature is None:
        return hmac_signature.MISSING
    fault = hmac_signature.time_fault(timestamp, arrival, source, PROVIDER.freshness_s)
    if fault is not None:
        return fault
    signed = timestamp.encode() + b"." + arrival.body
    return hmac_signature.verify_hex(source, signed, signature)


def parse(arrival: Arrival, source: Source) -> Parsed:
    """Read an array of events, or one event alone."""
    elements, unreadable = json_text.read_objects(arrival.body)
    events = tuple(_read_event(element, source) for element in elements)
    return Parsed(events=events, unreadable=tuple(unreadable))


def _read_event(element: dict[str, Any], source: Source) -> Event:
    word = reading.word_of(element.get("type"))
    about = _object(element)
    # Domains, contacts and templates have ids, too, which are no message's.
    is_mail = word.startswith("email.")
    type_, reject = _type(word, source)
    time = next(
        (about[name] for name in ("timestamp", "updated_at", "created_at") if about.get(name)),
        None,
    )
    return Event(
        type=type_,
        identity=_identity(element, about),
        provider_event_id=reading.text_of(element.get("event_id"), 200),
        message_id=(reading.text_of(about.get("id"), 400) or "") if is_mail else "",
        recipient=reading.address_of(about.get("to")),
        occurred_ms=reading.time_ms_of(time),
        bounce=_bounce(word, about) if type_ is EventType.BOUNCED else None,
        reject=reject,
        reason=reading.first_text_of(about.get("reason"), about.get("error"), about.get("details")),
        tags=reading.texts_of(about.get("tag")),
        metadata=reading.metadata_of(about.get("meta")),
        url=reading.text_of(about.get("url")) or reading.text_of(about.get("link")),
        user_agent=reading.text_of(about.get("user_agent")),
        ip=reading.text_of(about.get("ip_address") or about.get("ip"), 60),
        raw=element,
    )


def _object(element: dict[str, Any]) -> Mapping[str, Any]:
    """Give what the event is about; before v2, what happened stood beside the mail."""
    data = element.get("data")
    about = reading.mapping_of(data).get("object") if data is not None else element.get("object")
    object_ = reading.mapping_of(about)
    mail = object_.get("email")
    return {**mail, **object_} if isinstance(mail, dict) else object_


def _type(word: str, source: Source) -> held_mail.Hold:
    if word in HELD_WORDS:
        return held_mail.hold_of(source, "held")
    type_ = TYPES.get(word, EventType.OTHER)
    if type_ is not EventType.REJECTED:
        return (type_, None)
    return (type_, Reject.SUPPRESSED if word == "email.suppressed" else Reject.OTHER)


def _identity(element: dict[str, Any], about: Mapping[str, Any]) -> Identity:
    event_id = element.get("event_id")
    if not isinstance(event_id, str) or not event_id:
        return Identity(WHOLE, element)
    own = {"id": about.get("id"), "to": about.get("to")}
    return Identity(EVENT, {"event_id": event_id, "type": element.get("type"), **own})


def _bounce(word: str, about: Mapping[str, Any]) -> Bounce:
    named = BOUNCE_CLASSES.get(reading.word_of(about.get("bounce_type")).lower())
    return named or BOUNCES.get(word, Bounce.UNDETERMINED)


PROVIDER = Provider(
    name="emailit",
    title="Emailit",
    docs="https://emailit.com/docs/webhooks/",
    verify=verify,
    parse=parse,
    recipes=(EVENT,),
    event_id="event_id",
    check=partial(held_mail.fault_of, option="held"),
    needs=("secrets",),
    freshness_s=300,
    # Eleven attempts over three days and seven hours.
    retry_horizon_s=80 * 3600,
    types=frozenset({*TYPES.values(), EventType.OTHER}),
    options={"held": held_mail.WHAT_IT_COUNTS_AS},
)
