"""Resend: https://resend.com/docs/webhooks/event-types.

Svix delivers for Resend, and signs as Standard Webhooks do. One body is one event; its `created_at`
on the outside is the event's time, the one within `data` the message's.
"""

from collections.abc import Mapping
from typing import Any

from mailonce.core import json_text
from mailonce.core.arrivals.arrival import Arrival
from mailonce.core.arrivals.provider import Codes, Parsed, Provider
from mailonce.core.arrivals.source import Source
from mailonce.core.events.event import Bounce, Event, EventType, Reject
from mailonce.core.events.key import WHOLE, Identity, Recipe
from mailonce.core.reading import values as reading
from mailonce.core.signatures import standard_webhooks
from mailonce.providers.inbound import resend as inbound

TYPES = {
    "email.scheduled": EventType.ACCEPTED,
    "email.sent": EventType.SENT,
    "email.delivered": EventType.DELIVERED,
    "email.delivery_delayed": EventType.DEFERRED,
    "email.bounced": EventType.BOUNCED,
    "email.suppressed": EventType.REJECTED,
    "email.failed": EventType.REJECTED,
    "email.complained": EventType.COMPLAINED,
    "email.opened": EventType.OPENED,
    "email.clicked": EventType.CLICKED,
    "email.received": EventType.INBOUND,
}
BOUNCES = {
    "Permanent": Bounce.HARD,
    "Transient": Bounce.SOFT,
    "Undetermined": Bounce.UNDETERMINED,
}
# The content was refused, not the address.
BLOCKED = frozenset({"ContentRejected", "AttachmentRejected"})
# Nothing was sent at all. Before `email.suppressed` existed, only the message said so.
SUPPRESSED = frozenset({"Suppressed", "OnAccountSuppressionList"})
SUPPRESSED_MESSAGES = ("suppressed sending", "on the suppression list")
# Before a bounce had a type, only the message said what it was. The first that fits counts.
BOUNCE_MESSAGES = (
    ("hard bounce", Bounce.HARD),
    ("general bounce", Bounce.SOFT),
    ("inbox was full", Bounce.SOFT),
    ("too large", Bounce.SOFT),
    ("attachment", Bounce.BLOCKED),
    ("content", Bounce.BLOCKED),
)

# All endpoints of an account get an event under one id, on every attempt and replay.
EVENT = Recipe(
    name="resend.event",
    version=1,
    identity=("svix-id",),
    content=("type", "email_id", "created_at", "to", "link", "clicked_at"),
)
# For a copy that lost its headers on the way. It is no alias: of a mail to several recipients each
# has an event of its own, and these may be equal in all but their id.
CONTENT = Recipe(
    name="resend.content",
    version=1,
    identity=("type", "email_id", "created_at", "to", "link", "clicked_at"),
)


def parse(arrival: Arrival, source: Source) -> Parsed:
    body = json_text.read_object(arrival.body, "a Resend body", "type")
    svix_id = standard_webhooks.message_id_of(arrival)
    if body["type"].startswith("email."):
        event = _read_email(body, svix_id)
    else:
        event = _read_other(body, svix_id, source)
    mail = inbound.parse_mail(body, source, delivery_id=svix_id)
    mails = () if mail is None else (mail,)
    return Parsed(events=(event,), mails=mails, delivery_id=svix_id)


def _read_email(body: dict[str, Any], svix_id: str | None) -> Event:
    data = reading.mapping_of(body.get("data"))
    # Of inbound mail, the addresses of ours that it came in for.
    recipient, certain = reading.recipient_of(data.get("received_for") or data.get("to"))
    type_, bounce, reject = _meaning(body["type"], data)
    action = reading.mapping_of(data.get("click") or data.get("open"))
    tags = _tags(data.get("tags"))
    return Event(
        type=type_,
        identity=_identity(body, data, svix_id),
        provider_event_id=svix_id,
        message_id=reading.text_of(data.get("email_id"), 400) or "",
        recipient=recipient,
        occurred_ms=reading.iso_ms_of(body.get("created_at")),
        bounce=bounce,
        reject=reject,
        reason=_reason(data),
        tags=reading.texts_of(list(tags.values())),
        metadata=tags,
        url=reading.text_of(action.get("link")),
        user_agent=reading.text_of(action.get("userAgent")),
        ip=reading.text_of(action.get("ipAddress"), 60),
        certain=certain,
        raw=body,
    )


def _read_other(body: dict[str, Any], svix_id: str | None, source: Source) -> Event:
    """Read what concerns no message: a contact, a domain, the list of suppressions.

    An update of a contact repeats that it has unsubscribed, whatever else was changed: it counts as
    a wish of the recipient's only where the option `contact_unsubscribes` says so.
    """
    data = reading.mapping_of(body.get("data"))
    unsubscribes = (
        source.options.get("contact_unsubscribes") is True
        and body["type"] == "contact.updated"
        and data.get("unsubscribed") is True
    )
    return Event(
        type=EventType.UNSUBSCRIBED if unsubscribes else EventType.OTHER,
        identity=_identity(body, data, svix_id),
        provider_event_id=svix_id,
        recipient=reading.address_of(data.get("email")),
        occurred_ms=reading.iso_ms_of(body.get("created_at")),
        reason=reading.text_of(data.get("origin")),
        stream=(reading.text_of(data.get("audience_id"), 200) or "") if unsubscribes else "",
        raw=body,
    )


def _identity(body: dict[str, Any], data: Mapping[str, Any], svix_id: str | None) -> Identity:
    click = reading.mapping_of(data.get("click"))
    fields = {
        "svix-id": svix_id,
        "type": body["type"],
        "email_id": data.get("email_id"),
        "created_at": body.get("created_at"),
        "to": data.get("to"),
        "link": click.get("link"),
        "clicked_at": click.get("timestamp"),
    }
    if svix_id is not None:
        return Identity(EVENT, fields)
    return Identity(CONTENT, fields) if data.get("email_id") else Identity(WHOLE, body)


def _meaning(word: str, data: Mapping[str, Any]) -> tuple[EventType, Bounce | None, Reject | None]:
    match word:
        case "email.bounced":
            bounce = reading.mapping_of(data.get("bounce"))
            if _was_suppressed(bounce):
                return EventType.REJECTED, None, Reject.SUPPRESSED
            return EventType.BOUNCED, _bounce(bounce), None
        case "email.suppressed":
            return EventType.REJECTED, None, Reject.SUPPRESSED
        case "email.failed":
            reason = reading.word_of(reading.mapping_of(data.get("failed")).get("reason"))
            return EventType.REJECTED, None, Reject.QUOTA if "quota" in reason else Reject.OTHER
        case _:
            return TYPES.get(word, EventType.OTHER), None, None


def _was_suppressed(bounce: Mapping[str, Any]) -> bool:
    message = reading.word_of(bounce.get("message"))
    says_so = any(text in message for text in SUPPRESSED_MESSAGES)
    return says_so or reading.word_of(bounce.get("subType")) in SUPPRESSED


def _bounce(bounce: Mapping[str, Any]) -> Bounce:
    if not bounce.get("type"):
        message = reading.word_of(bounce.get("message")).casefold()
        classes = (class_ for text, class_ in BOUNCE_MESSAGES if text in message)
        return next(classes, Bounce.UNDETERMINED)
    class_ = BOUNCES.get(reading.word_of(bounce.get("type")), Bounce.UNDETERMINED)
    if class_ is Bounce.SOFT and reading.word_of(bounce.get("subType")) in BLOCKED:
        return Bounce.BLOCKED
    return class_


def _reason(data: Mapping[str, Any]) -> str | None:
    bounce = reading.mapping_of(data.get("bounce"))
    return reading.first_text_of(
        *reading.list_of(bounce.get("diagnosticCode"))[:1],
        bounce.get("message"),
        reading.mapping_of(data.get("suppressed")).get("message"),
        reading.mapping_of(data.get("failed")).get("reason"),
    )


def _tags(value: Any) -> Mapping[str, Any]:
    """Read the sender's pairs, which come as a mapping; some of Resend's pages show a list."""
    if isinstance(value, list):
        pairs = map(reading.mapping_of, value)
        value = {reading.word_of(pair.get("name")): pair.get("value") for pair in pairs}
    return reading.metadata_of(value)


PROVIDER = Provider(
    name="resend",
    title="Resend",
    docs="https://resend.com/docs/webhooks/event-types",
    verify=standard_webhooks.verify,
    parse=parse,
    recipes=(EVENT, CONTENT),
    event_id="svix-id",
    check=standard_webhooks.fault_of,
    needs=("secrets",),
    freshness_s=standard_webhooks.FRESHNESS_S,
    # Eight attempts, the last after 27 hours and a half.
    retry_horizon_s=28 * 3600,
    codes=Codes(full=429),
    reads_headers=standard_webhooks.HEADERS,
    inbound=inbound.INBOUND,
    types=frozenset({*TYPES.values(), EventType.UNSUBSCRIBED, EventType.OTHER}),
    options={
        **standard_webhooks.OPTIONS,
        "contact_unsubscribes": "`true`: an update of a contact that has unsubscribed "
        "counts as an unsubscribe",
    },
)
