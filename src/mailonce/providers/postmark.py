"""Postmark: https://postmarkapp.com/developer/webhooks/webhooks-overview.

Postmark signs nothing: a source proves it by basic auth, a header or a token of its own. One body
is one record, whose kind `RecordType` names; inbound mail may come without that word.
"""

from typing import Any

from mailonce.core import json_text
from mailonce.core.arrivals.arrival import Arrival
from mailonce.core.arrivals.provider import Codes, Parsed, Provider
from mailonce.core.arrivals.source import Source
from mailonce.core.events.event import Bounce, Classification, Event, EventType, Reject
from mailonce.core.events.key import WHOLE, Identity, Recipe
from mailonce.core.reading import values as reading
from mailonce.errors import ParseError
from mailonce.providers.inbound import postmark as inbound

TRACE_HEADER = "x-pm-webhook-trace-id"

# https://postmarkapp.com/developer/api/bounce-api#bounce-types. Mail that a person's mailbox sent
# back by itself says nothing against the address.
BOUNCE_TYPES: dict[str, Classification] = {
    "HardBounce": (EventType.BOUNCED, Bounce.HARD, None),
    "SoftBounce": (EventType.BOUNCED, Bounce.SOFT, None),
    "Blocked": (EventType.BOUNCED, Bounce.BLOCKED, None),
    "SpamNotification": (EventType.BOUNCED, Bounce.BLOCKED, None),
    "VirusNotification": (EventType.BOUNCED, Bounce.BLOCKED, None),
    "Unknown": (EventType.BOUNCED, Bounce.UNDETERMINED, None),
    "Transient": (EventType.DEFERRED, None, None),
    "DnsError": (EventType.DEFERRED, None, None),
    "BadEmailAddress": (EventType.REJECTED, None, Reject.INVALID),
    "ManuallyDeactivated": (EventType.REJECTED, None, Reject.SUPPRESSED),
    "SMTPApiError": (EventType.REJECTED, None, Reject.SUPPRESSED),
    "DMARCPolicy": (EventType.REJECTED, None, Reject.POLICY),
    "TemplateRenderingFailed": (EventType.REJECTED, None, Reject.RENDER),
    "Unconfirmed": (EventType.REJECTED, None, Reject.OTHER),
    "SpamComplaint": (EventType.COMPLAINED, None, None),
    "Unsubscribe": (EventType.UNSUBSCRIBED, None, None),
    "Subscribe": (EventType.SUBSCRIBED, None, None),
    "AutoResponder": (EventType.OTHER, None, None),
    "AddressChange": (EventType.OTHER, None, None),
    "ChallengeVerification": (EventType.OTHER, None, None),
    "OpenRelayTest": (EventType.OTHER, None, None),
    "InboundError": (EventType.OTHER, None, None),
}
TYPES = {
    "Delivery": EventType.DELIVERED,
    "Open": EventType.OPENED,
    "Click": EventType.CLICKED,
    "SpamComplaint": EventType.COMPLAINED,
    "Inbound": EventType.INBOUND,
}

# The trace id is that of a delivery: two webhooks on one stream would count an event twice by it.
# Bounces and complaints share one number range; the other records are told apart by what they say.
BOUNCE = Recipe(
    name="postmark.bounce",
    version=1,
    identity=("ID",),
    content=("Type", "MessageID", "@Email", "BouncedAt"),
)
DELIVERY = Recipe(
    name="postmark.delivery",
    version=1,
    identity=("MessageID", "@Recipient", "DeliveredAt"),
    content=("Details", "MessageStream", "Tag", "Metadata"),
)
OPEN = Recipe(
    name="postmark.open",
    version=1,
    identity=("MessageID", "@Recipient", "ReceivedAt", "UserAgent", "Geo.IP"),
    content=("MessageStream", "Tag", "Metadata"),
)
CLICK = Recipe(
    name="postmark.click",
    version=1,
    identity=(*OPEN.identity, "OriginalLink", "ClickLocation"),
    content=OPEN.content,
)
# A change made by hand concerns no message: its MessageID is null.
SUBSCRIPTION = Recipe(
    name="postmark.subscription",
    version=1,
    identity=(
        "@Recipient",
        "MessageStream",
        "ChangedAt",
        "SuppressSending",
        "SuppressionReason",
        "Origin",
    ),
    content=("MessageID",),
)
INBOUND = Recipe(
    name="postmark.inbound",
    version=1,
    identity=("MessageID",),
    content=("@OriginalRecipient", "@From", "Subject", "Date", "TextBody", "HtmlBody"),
)
# By kind of record, its recipe and one field without which the recipe says nothing.
RECIPES = {
    "Bounce": (BOUNCE, "ID"),
    "SpamComplaint": (BOUNCE, "ID"),
    "Delivery": (DELIVERY, "MessageID"),
    "Open": (OPEN, "MessageID"),
    "Click": (CLICK, "MessageID"),
    "SubscriptionChange": (SUBSCRIPTION, "Recipient"),
    "Inbound": (INBOUND, "MessageID"),
}


def parse(arrival: Arrival, source: Source) -> Parsed:
    body = json_text.read_object(arrival.body, "a Postmark body")
    kind = body.get("RecordType", "Inbound" if "FromFull" in body else None)
    if not isinstance(kind, str):
        raise ParseError("a Postmark body has a text 'RecordType', or is inbound mail")
    trace = reading.text_of(arrival.headers.get(TRACE_HEADER), 200)
    if kind != "Inbound":
        return Parsed(events=(_read_record(body, kind),), delivery_id=trace)
    mail = inbound.parse_mail(body, source)
    return Parsed(events=(_read_inbound(body),), mails=(mail,), delivery_id=trace)


def _read_record(body: dict[str, Any], kind: str) -> Event:
    type_, bounce, reject = _meaning(body, kind)
    concerns_stream = type_ in {EventType.UNSUBSCRIBED, EventType.SUBSCRIBED}
    return Event(
        type=type_,
        identity=_identity(body, kind),
        provider_event_id=reading.text_of(body.get("ID"), 200),
        message_id=reading.text_of(body.get("MessageID"), 400) or "",
        recipient=reading.address_of(body.get("Recipient") or body.get("Email")),
        occurred_ms=_occurred_ms(body),
        bounce=bounce,
        reject=reject,
        reason=_reason(body),
        stream=(reading.text_of(body.get("MessageStream"), 200) or "") if concerns_stream else "",
        tags=reading.texts_of(body.get("Tag")),
        metadata=reading.metadata_of(body.get("Metadata")),
        url=reading.text_of(body.get("OriginalLink")),
        user_agent=reading.text_of(body.get("UserAgent")),
        ip=reading.text_of(_ip(body), 60),
        raw=body,
    )


def _read_inbound(body: dict[str, Any]) -> Event:
    # Its `Date` is the claim of whoever wrote the mail, so the event has no time of its own.
    return Event(
        type=EventType.INBOUND,
        identity=_identity(body, "Inbound"),
        message_id=reading.text_of(body.get("MessageID"), 400) or "",
        recipient=reading.address_of(body.get("OriginalRecipient") or body.get("To")),
        tags=reading.texts_of(body.get("Tag")),
        raw=body,
    )


def _meaning(body: dict[str, Any], kind: str) -> Classification:
    match kind:
        case "Bounce":
            word = reading.word_of(body.get("Type"))
            return BOUNCE_TYPES.get(word, (EventType.OTHER, None, None))
        case "SubscriptionChange":
            return (_change(body), None, None)
        case _:
            return (TYPES.get(kind, EventType.OTHER), None, None)


def _change(body: dict[str, Any]) -> EventType:
    """Tell a recipient's wish from Postmark's own bookkeeping.

    A suppression after a bounce or a complaint repeats what a record of its own has said, and one
    by the customer is no wish of the recipient's: counting them would count twice.
    """
    match body.get("SuppressSending"), body.get("SuppressionReason"), body.get("Origin"):
        case False, _, _:
            return EventType.SUBSCRIBED
        case True, "ManualSuppression", "Recipient":
            return EventType.UNSUBSCRIBED
        case _:
            return EventType.OTHER


def _identity(body: dict[str, Any], kind: str) -> Identity:
    recipe, needed = RECIPES.get(kind, (WHOLE, ""))
    if recipe is WHOLE or not _is_id(body.get(needed)):
        return Identity(WHOLE, body)
    if recipe in {OPEN, CLICK}:
        return Identity(recipe, {**body, "Geo.IP": _ip(body)})
    return Identity(recipe, body)


def _is_id(value: Any) -> bool:
    return isinstance(value, int | str) and not isinstance(value, bool) and value not in {"", 0}


def _occurred_ms(body: dict[str, Any]) -> int | None:
    """Each kind of record has one time, with seven digits after the second."""
    names = ("DeliveredAt", "BouncedAt", "ReceivedAt", "ChangedAt")
    return next((reading.iso_ms_of(body[name]) for name in names if name in body), None)


def _reason(body: dict[str, Any]) -> str | None:
    names = ("Details", "Description", "SuppressionReason")
    return reading.first_text_of(*(body.get(name) for name in names))


def _ip(body: dict[str, Any]) -> Any:
    return reading.mapping_of(body.get("Geo")).get("IP")


PROVIDER = Provider(
    name="postmark",
    title="Postmark",
    docs="https://postmarkapp.com/developer/webhooks/webhooks-overview",
    parse=parse,
    recipes=(BOUNCE, DELIVERY, OPEN, CLICK, SUBSCRIPTION, INBOUND),
    event_id="ID",
    signs_body=False,
    # The longest of the three schedules that its pages have shown; inbound mail still has it.
    retry_horizon_s=10 * 3600 + 1800,
    # Any other 4xx makes it drop the event at once.
    codes=Codes(full=429, refused_is_final=True),
    reads_headers=(TRACE_HEADER,),
    inbound=inbound.INBOUND,
    types=frozenset(
        {*TYPES.values(), *(meaning[0] for meaning in BOUNCE_TYPES.values()), EventType.OTHER}
    ),
)
