"""SESMetric: https://sesmetric.com/docs/receiving-webhooks.

Two forms are in use. The signed form has `X-SESMetric-Timestamp` and `X-SESMetric-Signature`, hex
HMAC-SHA256 over `{timestamp}.` and the raw body, and a flat body with `id` and `type`. The older
form has `X-SM-Signature: sha256=…` over the body alone and an envelope with `event_type`; it has
no timestamp, so a source takes it only when its option `form` says "body".
"""

from collections.abc import Mapping
from typing import Any

from mailonce.core import json_text
from mailonce.core.arrivals.arrival import Arrival
from mailonce.core.arrivals.provider import VERIFIED, Parsed, Provider, Verdict
from mailonce.core.arrivals.source import Source
from mailonce.core.events.event import BOUNCED, OTHER, Bounce, Event, EventType
from mailonce.core.events.key import WHOLE, Alias, Identity, Recipe
from mailonce.core.reading import values as reading
from mailonce.core.signatures import hmac_signature
from mailonce.errors import ParseError

TYPES = {
    "accepted": EventType.ACCEPTED,
    "send": EventType.SENT,
    "sent": EventType.SENT,
    "delivery": EventType.DELIVERED,
    "delivered": EventType.DELIVERED,
    "deferred": EventType.DEFERRED,
    "delivery_delay": EventType.DEFERRED,
    "bounce": EventType.BOUNCED,
    "bounced": EventType.BOUNCED,
    "reject": EventType.REJECTED,
    "rejected": EventType.REJECTED,
    "complaint": EventType.COMPLAINED,
    "complained": EventType.COMPLAINED,
    "open": EventType.OPENED,
    "opened": EventType.OPENED,
    "click": EventType.CLICKED,
    "clicked": EventType.CLICKED,
    "unsubscribe": EventType.UNSUBSCRIBED,
    "unsubscribed": EventType.UNSUBSCRIBED,
    "subscribe": EventType.SUBSCRIBED,
    "subscribed": EventType.SUBSCRIBED,
}
BOUNCES = {
    "hard": Bounce.HARD,
    "permanent": Bounce.HARD,
    "soft": Bounce.SOFT,
    "transient": Bounce.SOFT,
    "blocked": Bounce.BLOCKED,
}

# The signed form has an id of its own; everything else may be enriched between attempts.
EVENT = Recipe(
    name="sesmetric.event",
    version=1,
    identity=("id",),
    content=("type", "message_id", "@recipient", "timestamp", "bounce_type"),
)
# The older form has none, and one body speaks of several recipients.
ENVELOPE = Recipe(
    name="sesmetric.envelope",
    version=1,
    identity=("event_type", "sm_mail_id", "messageId", "@rcpt", "eventTimestamp", "link"),
    content=("smtpResponse",),
)


def verify(arrival: Arrival, source: Source, keys: Mapping[str, bytes]) -> Verdict:
    """Check the form that the source is set to; never fall back to the weaker one."""
    del keys
    if source.options.get("form") == "body":
        return _verify_body(arrival, source)
    timestamp = arrival.headers.get("x-sesmetric-timestamp")
    signature = arrival.headers.get("x-sesmetric-signature")
    if timestamp is None or signature is None:
        return hmac_signature.MISSING
    fault = hmac_signature.time_fault(timestamp, arrival, source, PROVIDER.freshness_s)
    if fault is not None:
        return fault
    signed = timestamp.encode() + b"." + arrival.body
    for secret in source.secrets:
        if hmac_signature.hmac_hex_matches(secret.encode(), signed, signature):
            return VERIFIED
    return hmac_signature.WRONG


def parse(arrival: Arrival, source: Source) -> Parsed:
    """Read either form; which one it is, the body says."""
    del source
    body = json_text.read(arrival.body)
    if not isinstance(body, dict):
        raise ParseError("a SESMetric body is a JSON object")
    if "event_type" in body and "type" not in body:
        return Parsed(events=_read_envelope(body))
    event_id, word = body.get("id"), body.get("type")
    if not isinstance(event_id, str) or not event_id or not isinstance(word, str):
        raise ParseError("a SESMetric event has a text 'id' and a text 'type'")
    event = _read_event(body, word)
    return Parsed(events=(event,), delivery_id=event.provider_event_id)


def _verify_body(arrival: Arrival, source: Source) -> Verdict:
    signature = arrival.headers.get("x-sm-signature")
    if signature is None:
        return hmac_signature.MISSING
    digest = signature.removeprefix("sha256=")
    for secret in source.secrets:
        if hmac_signature.hmac_hex_matches(secret.encode(), arrival.body, digest):
            return VERIFIED
    return hmac_signature.WRONG


def _read_event(body: dict[str, Any], word: str) -> Event:
    type_ = TYPES.get(word, OTHER)
    return Event(
        type=type_,
        identity=Identity(EVENT, body),
        provider_event_id=reading.text_of(body.get("id"), 200),
        message_id=reading.text_of(body.get("message_id"), 400) or "",
        recipient=reading.address_of(body.get("recipient")),
        occurred_ms=reading.epoch_ms_of(body.get("timestamp")),
        bounce=_bounce(body.get("bounce_type")) if type_ is BOUNCED else None,
        reason=reading.text_of(body.get("reason")),
        tags=reading.texts_of(body.get("tags")),
        metadata=reading.metadata_of(body.get("metadata")),
        url=reading.text_of(body.get("url")),
        user_agent=reading.text_of(body.get("user_agent")),
        ip=reading.text_of(body.get("ip"), 60),
        raw=body,
    )


def _read_envelope(body: dict[str, Any]) -> tuple[Event, ...]:
    word = reading.word_of(body.get("event_type"))
    detail = reading.mapping_of(body.get("payload"))
    type_ = TYPES.get(word, OTHER)
    recipients = [reading.address_of(item) for item in reading.list_of(detail.get("recipients"))]
    if not detail:
        return (Event(type=type_, identity=Identity(WHOLE, body), raw=body),)
    return tuple(
        Event(
            type=type_,
            identity=Identity(
                ENVELOPE,
                {**detail, "event_type": word, "rcpt": recipient},
                _mail_alias(detail, word, recipient),
            ),
            provider_event_id=reading.text_of(detail.get("eventId"), 200),
            message_id=reading.text_of(detail.get("messageId"), 400) or "",
            recipient=recipient,
            occurred_ms=reading.iso_ms_of(detail.get("eventTimestamp")),
            bounce=_bounce(detail.get("bounceType")) if type_ is BOUNCED else None,
            reason=reading.text_of(detail.get("smtpResponse")),
            url=reading.text_of(detail.get("link")),
            raw=body,
        )
        for recipient in recipients or [""]
    )


def _mail_alias(detail: Mapping[str, Any], word: str, recipient: str) -> tuple[Alias, ...]:
    """A body that does carry an event id is known by it, too."""
    event_id = detail.get("eventId")
    return (Alias("eventId", [event_id, word, recipient]),) if isinstance(event_id, str) else ()


def _bounce(word: Any) -> Bounce:
    return BOUNCES.get(reading.word_of(word).lower(), Bounce.UNDETERMINED)


PROVIDER = Provider(
    name="sesmetric",
    title="SESMetric",
    docs="https://sesmetric.com/docs/receiving-webhooks",
    verify=verify,
    parse=parse,
    recipes=(EVENT, ENVELOPE),
    event_id="id",
    needs=("secrets",),
    freshness_s=300,
    retry_horizon_s=72 * 3600,
    types=frozenset(TYPES.values()),
    options={"form": "`body` where only the body is signed (`X-SM-Signature`)"},
)
