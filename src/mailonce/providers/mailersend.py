"""MailerSend: https://developers.mailersend.com/api/v1/webhooks.html.

The signature is hex HMAC-SHA256 over the raw body, whose slashes are escaped. One body is one
event, in one of two versions that an account may get side by side: in the first `data.email` is an
object around message and recipient, in the second `data` is flat.
"""

from collections.abc import Mapping
from functools import partial
from typing import Any

from mailonce.core import json_text
from mailonce.core.arrivals.arrival import Arrival
from mailonce.core.arrivals.provider import Codes, Parsed, Probe, Provider, Verdict
from mailonce.core.arrivals.source import Source, fault_of_flag
from mailonce.core.events.event import Bounce, Event, EventType, Reject
from mailonce.core.events.key import WHOLE, Identity, Recipe
from mailonce.core.reading import values as reading
from mailonce.core.signatures import hmac_signature
from mailonce.errors import ParseError
from mailonce.providers.inbound import mailersend as inbound

SIGNATURE_HEADER = "signature"
TEST_TYPE = "webhook.test"
# MailerSend's documentation publishes it: it signs nothing but pings.
TEST_SECRET = b"test_Am3L1GuOIc4blLUuHqAPxxwkZaJyEk8G"
TEST_BYTES_MAX = 2_000

TYPES = {
    "activity.sent": EventType.SENT,
    "activity.delivered": EventType.DELIVERED,
    "activity.deferred": EventType.DEFERRED,
    "activity.soft_bounced": EventType.BOUNCED,
    "activity.hard_bounced": EventType.BOUNCED,
    "activity.suppressed": EventType.REJECTED,
    "activity.opened": EventType.OPENED,
    "activity.clicked": EventType.CLICKED,
    "activity.unsubscribed": EventType.UNSUBSCRIBED,
    "activity.spam_complaint": EventType.COMPLAINED,
    "inbound.message": EventType.INBOUND,
}
BOUNCES = {
    "activity.soft_bounced": Bounce.SOFT,
    "activity.hard_bounced": Bounce.HARD,
}
# One action may be reported twice, by one of these and by the plain word. Where only these are
# subscribed to, the option `count_first` makes opens and clicks of them.
FIRSTS = {
    "activity.opened_unique": EventType.OPENED,
    "activity.clicked_unique": EventType.CLICKED,
}

# Whether an action that is reported twice has one id or two is not known. The time is volatile: the
# two versions of one event stand for different moments.
ACTIVITY = Recipe(
    name="mailersend.activity",
    version=1,
    identity=("id", "type"),
    content=("message_id", "@recipient"),
)


def probe(arrival: Arrival, source: Source) -> Probe | None:
    """Recognise the ping on saving a webhook, which is signed by a secret that everybody knows."""
    del source
    body = arrival.body
    if arrival.method != "POST" or len(body) > TEST_BYTES_MAX or TEST_TYPE.encode() not in body:
        return None
    signature = arrival.headers.get(SIGNATURE_HEADER, "")
    if not hmac_signature.hmac_hex_matches(TEST_SECRET, body, signature):
        return None
    try:
        return Probe() if _is_test(json_text.read(body)) else None
    except ParseError:
        return None


def verify(arrival: Arrival, source: Source, keys: Mapping[str, bytes]) -> Verdict:
    """Check the signature over the raw body against each secret."""
    del keys
    signature = arrival.headers.get(SIGNATURE_HEADER)
    if signature is None:
        return hmac_signature.MISSING
    return hmac_signature.verify_hex(source, arrival.body, signature)


def parse(arrival: Arrival, source: Source) -> Parsed:
    """Read one event of either version; a ping says nothing."""
    body = json_text.read_object(arrival.body, "a MailerSend body", "type")
    if _is_test(body):
        return Parsed()
    mail = inbound.parse_mail(body, source)
    return Parsed(events=(_read_event(body, source),), mails=() if mail is None else (mail,))


def _is_test(body: Any) -> bool:
    return isinstance(body, dict) and body.get("type") == TEST_TYPE and "data" not in body


def _read_event(body: dict[str, Any], source: Source) -> Event:
    # It goes by the outer type: the inner one is spelt differently at times.
    word, data = body["type"], reading.mapping_of(body.get("data"))
    email = reading.mapping_of(data.get("email"))
    detail = reading.mapping_of(data.get("meta") or data.get("morph"))
    message_id = _message_id(word, data, email)
    recipient, certain = _recipient(data, email)
    event_id = reading.text_of(data.get("id"))
    fields = {"id": event_id, "type": word, "message_id": message_id, "recipient": recipient}
    return Event(
        type=_type(word, source),
        identity=Identity(ACTIVITY, fields) if event_id is not None else Identity(WHOLE, body),
        provider_event_id=event_id,
        message_id=message_id,
        recipient=recipient,
        occurred_ms=reading.iso_ms_of(data.get("created_at") or body.get("created_at")),
        bounce=BOUNCES.get(word),
        reject=Reject.SUPPRESSED if word == "activity.suppressed" else None,
        reason=_reason(detail),
        tags=reading.texts_of(data.get("tags") or email.get("tags")),
        url=reading.text_of(detail.get("url")),
        user_agent=reading.text_of(detail.get("user_agent")),
        ip=reading.text_of(detail.get("ip"), 60),
        certain=certain,
        raw=body,
    )


def _type(word: str, source: Source) -> EventType:
    if source.options.get("count_first") is True and word in FIRSTS:
        return FIRSTS[word]
    return TYPES.get(word, EventType.OTHER)


def _message_id(word: str, data: Mapping[str, Any], email: Mapping[str, Any]) -> str:
    """Give what the send API has returned as X-Message-Id, or the id of inbound mail."""
    first = reading.mapping_of(email.get("message")).get("id")
    own = data.get("id") if word == "inbound.message" else None
    return reading.text_of(data.get("message_id") or first or own, 400) or ""


def _recipient(data: Mapping[str, Any], email: Mapping[str, Any]) -> tuple[str, bool]:
    """Read the address where either version, or inbound mail, has it.

    The second version has `recipient` in what arrives and `email` in the documentation.
    """
    inbound = reading.list_of(reading.mapping_of(data.get("recipients")).get("rcptTo"))
    if inbound:
        return reading.recipient_of([reading.mapping_of(one).get("email") for one in inbound])
    given = data.get("recipient") or email.get("recipient") or data.get("email")
    return reading.address_of(reading.mapping_of(given).get("email") or given), True


def _reason(detail: Mapping[str, Any]) -> str | None:
    return reading.first_text_of(
        detail.get("bounce_reason"),
        detail.get("suppression_reason"),
        detail.get("unsubscribe_reason"),
        detail.get("readable_reason"),
        detail.get("reason"),
    )


PROVIDER = Provider(
    name="mailersend",
    title="MailerSend",
    docs="https://developers.mailersend.com/api/v1/webhooks.html",
    verify=verify,
    parse=parse,
    recipes=(ACTIVITY,),
    event_id="data.id",
    check=partial(fault_of_flag, option="count_first"),
    probe=probe,
    needs=("secrets",),
    # Two quick retries by one page, about three days of them by a newer one.
    retry_horizon_s=3 * 86_400,
    codes=Codes(full=429),
    inbound=inbound.INBOUND,
    types=frozenset({*TYPES.values(), EventType.OTHER}),
    options={"count_first": "`true`: first opens and clicks count as opens and clicks, too"},
)
