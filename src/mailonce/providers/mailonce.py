"""Another mailonce: its outgoing webhooks, so that one can stand behind another.

Standard Webhooks headers, and a body of the schema `mailonce.event/1`. The words are our own, so
they are taken over as they are; a word that a newer version has and this one does not is `other`.
"""

from enum import StrEnum
from typing import Any, TypeVar

from mailonce.core import json_text
from mailonce.core.arrivals.arrival import Arrival
from mailonce.core.arrivals.provider import Codes, Parsed, Provider
from mailonce.core.arrivals.source import Source
from mailonce.core.events.event import Bounce, Event, EventType, Reject
from mailonce.core.events.key import WHOLE, Alias, Identity, Recipe
from mailonce.core.reading import values as reading
from mailonce.core.signatures import standard_webhooks
from mailonce.errors import ParseError

SCHEMA = "mailonce.event/1"
# Says the same as the signed id, for receivers that know no other header.
KEY_HEADER = "x-idempotency-key"

# Made of the event and the route: equal on every attempt and on a redelivery.
DELIVERY = Recipe(
    name="mailonce.delivery",
    version=1,
    identity=("delivery",),
    content=("type", "bounce", "message_id", "@recipient", "occurred_at"),
)

Word = TypeVar("Word", bound=StrEnum)


def parse(arrival: Arrival, source: Source) -> Parsed:
    del source
    body = json_text.read_object(arrival.body, "a mailonce event", "type")
    if body.get("schema", SCHEMA) != SCHEMA:
        raise ParseError(f"this mailonce reads {SCHEMA}; the sender speaks another version")
    delivery = standard_webhooks.message_id_of(arrival) or reading.text_of(
        arrival.headers.get(KEY_HEADER), 256
    )
    return Parsed(events=(_read(body, delivery),), delivery_id=delivery)


def check(source: Source) -> str | None:
    """Name the key that could never verify anything."""
    if source.is_signed and not source.secrets and not source.public_keys:
        return "mailonce needs 'secret' (whsec_…) or 'public_key' (whpk_…) of the sender's route"
    return standard_webhooks.fault_of(source)


def _read(body: dict[str, Any], delivery: str | None) -> Event:
    type_ = _word(EventType, body.get("type")) or EventType.OTHER
    bounce = _word(Bounce, body.get("bounce")) or Bounce.UNDETERMINED
    machine = body.get("machine")
    return Event(
        type=type_,
        identity=_identity(body, delivery),
        # Of the mail service at the other end, so that an event stays the same on its way.
        provider_event_id=reading.text_of(body.get("provider_event_id"), 200),
        message_id=reading.text_of(body.get("message_id"), 400) or "",
        recipient=reading.address_of(body.get("recipient")),
        occurred_ms=reading.iso_ms_of(body.get("occurred_at")),
        bounce=bounce if type_ is EventType.BOUNCED else None,
        reject=_word(Reject, body.get("reject")) if type_ is EventType.REJECTED else None,
        reason=reading.text_of(body.get("reason")),
        stream=reading.text_of(body.get("stream"), 200) or "",
        tags=reading.texts_of(body.get("tags")),
        metadata=reading.metadata_of(body.get("metadata")),
        url=reading.text_of(body.get("url")),
        user_agent=reading.text_of(body.get("user_agent")),
        ip=reading.text_of(body.get("ip"), 60),
        machine=machine if isinstance(machine, bool) else None,
        late=body.get("late") is True,
        certain=body.get("certain") is not False,
        raw=body,
    )


def _identity(body: dict[str, Any], delivery: str | None) -> Identity:
    """Two routes of the sender that both lead here bring one event under two delivery keys."""
    identity = reading.text_of(body.get("identity"), 200)
    aliases = (Alias("identity", identity, DELIVERY.content),) if identity else ()
    if delivery is None:
        return Identity(WHOLE, body, aliases)
    return Identity(DELIVERY, {**body, "delivery": delivery}, aliases)


def _word(words: type[Word], value: Any) -> Word | None:
    return words(value) if value in words.__members__.values() else None


PROVIDER = Provider(
    name="mailonce",
    title="mailonce",
    docs="https://github.com/standard-webhooks/standard-webhooks/blob/main/spec/standard-webhooks.md",
    verify=standard_webhooks.verify,
    parse=parse,
    recipes=(DELIVERY,),
    event_id="provider_event_id",
    check=check,
    # Or public keys alone: `check` knows.
    needs=("secrets",),
    freshness_s=standard_webhooks.FRESHNESS_S,
    # Twelve attempts, with jitter.
    retry_horizon_s=4 * 86_400,
    codes=Codes(full=429),
    reads_headers=(*standard_webhooks.HEADERS, KEY_HEADER),
    types=frozenset(EventType),
    options=standard_webhooks.OPTIONS,
)
