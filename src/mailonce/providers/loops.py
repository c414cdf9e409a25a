"""Loops: https://loops.so/docs/webhooks."""

from typing import Any

from mailonce.core import json_text
from mailonce.core.arrivals.arrival import Arrival
from mailonce.core.arrivals.provider import Codes, Parsed, Provider
from mailonce.core.arrivals.source import Source
from mailonce.core.events.event import Bounce, Event, EventType
from mailonce.core.events.key import WHOLE, Identity, Recipe
from mailonce.core.reading import values as reading
from mailonce.core.signatures import standard_webhooks

TYPES = {
    "campaign.email.sent": EventType.SENT,
    "loop.email.sent": EventType.SENT,
    "transactional.email.sent": EventType.SENT,
    "email.delivered": EventType.DELIVERED,
    "email.softBounced": EventType.BOUNCED,
    "email.hardBounced": EventType.BOUNCED,
    "email.opened": EventType.OPENED,
    "email.clicked": EventType.CLICKED,
    "email.unsubscribed": EventType.UNSUBSCRIBED,
    "email.resubscribed": EventType.SUBSCRIBED,
    "email.spamReported": EventType.COMPLAINED,
}
BOUNCES = {"email.softBounced": Bounce.SOFT, "email.hardBounced": Bounce.HARD}

# Contacts may change between two attempts, and with them everything said of them but the address.
EVENT = Recipe(
    name="loops.event",
    version=1,
    identity=("webhook-id",),
    content=("eventName", "eventTime", "email.id", "@contactIdentity.email"),
)


def parse(arrival: Arrival, source: Source) -> Parsed:
    body = json_text.read_object(arrival.body, "a Loops event", "eventName")
    webhook_id = standard_webhooks.message_id_of(arrival)
    return Parsed(events=(_read(body, webhook_id, source),), delivery_id=webhook_id)


def _read(body: dict[str, Any], webhook_id: str | None, source: Source) -> Event:
    word: str = body["eventName"]
    email, contact = (reading.mapping_of(body.get(name)) for name in ("email", "contactIdentity"))
    type_ = TYPES.get(word, EventType.OTHER)
    fields = {
        "webhook-id": webhook_id,
        "eventName": word,
        "eventTime": body.get("eventTime"),
        "email.id": email.get("id"),
        "contactIdentity.email": contact.get("email"),
    }
    return Event(
        type=type_,
        identity=Identity(EVENT, fields) if webhook_id else Identity(WHOLE, body),
        provider_event_id=webhook_id,
        message_id=reading.text_of(email.get("id"), 400) or "",
        recipient=reading.address_of(contact.get("email")),
        occurred_ms=reading.epoch_ms_of(body.get("eventTime")),
        bounce=BOUNCES.get(word),
        stream=_stream(type_, source),
        raw=body,
    )


def _stream(type_: EventType, source: Source) -> str:
    """Say which mail an unsubscribe holds for.

    People leave "marketing email or a mailing list", and the event does not say which. All mail is
    the safe reading; an account that also sends receipts names the other stream in the options.
    """
    if type_ not in {EventType.UNSUBSCRIBED, EventType.SUBSCRIBED}:
        return ""
    return reading.text_of(source.options.get("stream"), 200) or ""


PROVIDER = Provider(
    name="loops",
    title="Loops",
    docs="https://loops.so/docs/webhooks",
    verify=standard_webhooks.verify,
    parse=parse,
    recipes=(EVENT,),
    event_id="webhook-id",
    check=standard_webhooks.fault_of,
    needs=("secrets",),
    freshness_s=standard_webhooks.FRESHNESS_S,
    # Loops does not say how long it tries; this is what the specification proposes.
    retry_horizon_s=76 * 3600,
    codes=Codes(full=429),
    reads_headers=standard_webhooks.HEADERS,
    types=frozenset(TYPES.values()) | {EventType.OTHER},
    options={
        **standard_webhooks.OPTIONS,
        "stream": "the stream that an unsubscribe is for; default: all mail",
    },
)
