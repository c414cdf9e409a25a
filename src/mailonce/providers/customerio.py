"""Customer.io's reporting webhooks: https://docs.customer.io/journeys/webhooks/.

`X-CIO-Signature` is the hex HMAC-SHA256 over `v0:{X-CIO-Timestamp}:` and the raw body. One feed
reports on every channel; all that is not email, and not a person's wish for no email, is `other`.
"""

from collections.abc import Mapping
from typing import Any

from mailonce.core import json_text
from mailonce.core.arrivals.arrival import Arrival
from mailonce.core.arrivals.provider import Parsed, Provider, Verdict
from mailonce.core.arrivals.source import Source
from mailonce.core.events.event import Event, EventType, Reject
from mailonce.core.events.key import WHOLE, Identity, Recipe
from mailonce.core.reading import smtp_reply
from mailonce.core.reading import values as reading
from mailonce.core.signatures import hmac_signature

TYPES = {
    ("email", "attempted"): EventType.DEFERRED,
    ("email", "sent"): EventType.SENT,
    ("email", "delivered"): EventType.DELIVERED,
    ("email", "opened"): EventType.OPENED,
    ("email", "clicked"): EventType.CLICKED,
    ("email", "bounced"): EventType.BOUNCED,
    ("email", "dropped"): EventType.REJECTED,
    ("email", "suppressed"): EventType.REJECTED,
    ("email", "failed"): EventType.REJECTED,
    ("email", "undeliverable"): EventType.REJECTED,
    ("email", "spammed"): EventType.COMPLAINED,
    ("email", "unsubscribed"): EventType.UNSUBSCRIBED,
    # A person who left or came back without clicking in a mail; only here is coming back reported.
    ("customer", "unsubscribed"): EventType.UNSUBSCRIBED,
    ("customer", "subscribed"): EventType.SUBSCRIBED,
}
REJECTS = {
    "dropped": Reject.SUPPRESSED,
    "suppressed": Reject.SUPPRESSED,
    "failed": Reject.OTHER,
    "undeliverable": Reject.OTHER,
}
# Other channels have phone numbers and device tokens where an address would be.
CHANNELS_WITH_ADDRESS = frozenset({"email", "customer"})

EVENT = Recipe(
    name="customerio.event",
    version=1,
    identity=("event_id",),
    content=(
        "object_type",
        "metric",
        "timestamp",
        "delivery_id",
        "@recipient",
        "href",
        # The class of a bounce is read from it.
        "failure_message",
    ),
)


def verify(arrival: Arrival, source: Source, keys: Mapping[str, bytes]) -> Verdict:
    """Check the signature against each of the source's signing keys."""
    del keys
    timestamp = arrival.headers.get("x-cio-timestamp")
    signature = arrival.headers.get("x-cio-signature")
    if timestamp is None or signature is None:
        return hmac_signature.MISSING
    fault = hmac_signature.time_fault(timestamp, arrival, source, PROVIDER.freshness_s)
    if fault is not None:
        return fault
    signed = f"v0:{timestamp}:".encode() + arrival.body
    return hmac_signature.verify_hex(source, signed, signature)


def parse(arrival: Arrival, source: Source) -> Parsed:
    del source
    body = json_text.read_object(arrival.body, "a Customer.io event", "metric")
    event_id = reading.text_of(body.get("event_id"), 200)
    return Parsed(events=(_read(body, event_id),), delivery_id=event_id)


def _read(body: dict[str, Any], event_id: str | None) -> Event:
    channel, metric = reading.word_of(body.get("object_type")), body["metric"]
    data = reading.mapping_of(body.get("data"))
    type_ = TYPES.get((channel, metric), EventType.OTHER)
    recipient = _recipient(data) if channel in CHANNELS_WITH_ADDRESS else ""
    reason = reading.text_of(data.get("failure_message"))
    fields = {
        **{name: body.get(name) for name in ("event_id", "object_type", "metric", "timestamp")},
        **{name: data.get(name) for name in ("delivery_id", "href", "failure_message")},
        "recipient": recipient,
    }
    return Event(
        type=type_,
        identity=Identity(EVENT, fields) if event_id else Identity(WHOLE, body),
        provider_event_id=event_id,
        message_id=reading.text_of(data.get("delivery_id"), 400) or "",
        recipient=recipient,
        occurred_ms=reading.epoch_ms_of(body.get("timestamp")),
        # It has no class of bounces; the receiving server's answer is all there is.
        bounce=smtp_reply.bounce_of(reason or "") if type_ is EventType.BOUNCED else None,
        reject=REJECTS.get(metric) if type_ is EventType.REJECTED else None,
        reason=reason,
        url=reading.text_of(data.get("href")),
        raw=body,
    )


def _recipient(data: Mapping[str, Any]) -> str:
    identifiers = reading.mapping_of(data.get("identifiers"))
    given = (data.get("recipient"), data.get("email_address"), identifiers.get("email"))
    return next(filter(None, map(reading.address_of, given)), "")


PROVIDER = Provider(
    name="customerio",
    title="Customer.io",
    docs="https://docs.customer.io/journeys/webhooks/",
    verify=verify,
    parse=parse,
    recipes=(EVENT,),
    event_id="event_id",
    needs=("secrets",),
    # Whether a repeated attempt is signed anew is not said, and one window too short would lose
    # it: so as long as Customer.io tries.
    freshness_s=7 * 86_400,
    retry_horizon_s=7 * 86_400,
    # An attempt that failed holds back all later ones. After a 429 they would wait for an hour,
    # after a 503 for the next try: so `full` stays 503.
    types=frozenset(TYPES.values()) | {EventType.OTHER},
)
