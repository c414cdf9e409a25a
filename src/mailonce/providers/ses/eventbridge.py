"""Amazon SES through EventBridge: https://docs.aws.amazon.com/ses/latest/dg/monitoring-eventbridge.html.

An API destination posts what the rule matched, without a signature: the source's own proofs are
all there is. The envelope wraps the very event that SNS would carry, so one that comes both ways
has one key; the envelope's id only names the delivery.
"""

from typing import Any

from mailonce.core import json_text
from mailonce.core.arrivals.arrival import Arrival
from mailonce.core.arrivals.provider import Parsed, Provider
from mailonce.core.arrivals.source import Source
from mailonce.core.events.event import Event, EventType
from mailonce.core.events.key import WHOLE, Identity, Recipe
from mailonce.core.reading import values
from mailonce.providers.ses.events import RECIPES, TYPES, read_events

SOURCE = "aws.ses"

# What is said of the account, not of a mail ("Sending Status Disabled"), has no id but this one.
NOTICE = Recipe(
    name="eventbridge.notice",
    version=1,
    identity=("id",),
    content=("source", "detail-type", "time", "detail"),
)


def parse(arrival: Arrival, source: Source) -> Parsed:
    """Read an SES event from its envelope, or bare, as forwarders send it."""
    del source
    body = json_text.read_object(arrival.body, "an EventBridge event")
    if "detail-type" not in body:
        return Parsed(events=read_events(body))
    return Parsed(events=_read(body), delivery_id=values.text_of(body.get("id"), 200))


def _read(envelope: dict[str, Any]) -> tuple[Event, ...]:
    detail = envelope.get("detail")
    if envelope.get("source") == SOURCE and "eventType" in values.mapping_of(detail):
        return read_events(detail, published_at=envelope.get("time"))
    known = bool(values.text_of(envelope.get("id")))
    notice = Event(
        type=EventType.OTHER,
        identity=Identity(NOTICE, envelope) if known else Identity(WHOLE, envelope),
        provider_event_id=values.text_of(envelope.get("id"), 200),
        occurred_ms=values.iso_ms_of(envelope.get("time")),
        reason=values.text_of(envelope.get("detail-type")),
        raw=envelope,
    )
    return (notice,)


PROVIDER = Provider(
    name="eventbridge",
    title="Amazon EventBridge (SES)",
    docs="https://docs.aws.amazon.com/ses/latest/dg/monitoring-eventbridge.html",
    parse=parse,
    recipes=(*RECIPES, NOTICE),
    event_id="feedbackId",
    family="ses",
    signs_body=False,
    # 185 attempts within a day, unless the rule's retry policy says less.
    retry_horizon_s=86_400,
    # Mail that SES receives is not reported to EventBridge.
    types=TYPES - {EventType.INBOUND},
)
