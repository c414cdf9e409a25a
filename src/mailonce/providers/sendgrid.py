"""SendGrid: https://www.twilio.com/docs/sendgrid/for-developers/tracking-events/event.

The signed event webhook has ECDSA P-256 over the timestamp header's text and the raw body, whose
CRLFs count. The body is an array; an event carries the sender's custom arguments beside SendGrid's
own fields, where they may even shadow them. A form in parts is mail (`inbound/sendgrid.py`).
"""

import re
from base64 import b64decode
from collections.abc import Mapping
from functools import lru_cache
from typing import Any

from cryptography.exceptions import InvalidSignature, UnsupportedAlgorithm
from cryptography.hazmat.primitives.asymmetric import ec
from cryptography.hazmat.primitives.hashes import SHA256
from cryptography.hazmat.primitives.serialization import load_der_public_key, load_pem_public_key

from mailonce.core import json_text
from mailonce.core.arrivals.arrival import Arrival
from mailonce.core.arrivals.provider import Parsed, Provider, Refused, Verdict, Verified
from mailonce.core.arrivals.source import Source
from mailonce.core.events.event import OTHER, Bounce, Event, EventType, Reject
from mailonce.core.events.key import WHOLE, Alias, Identity, Recipe
from mailonce.core.reading import form
from mailonce.core.reading import values as reading
from mailonce.core.reading.inbound_event import inbound_event, mail_recipe
from mailonce.core.signatures import hmac_signature
from mailonce.providers.inbound import sendgrid as inbound

TYPES = {
    "processed": EventType.ACCEPTED,
    "deferred": EventType.DEFERRED,
    "delivered": EventType.DELIVERED,
    "bounce": EventType.BOUNCED,
    "dropped": EventType.REJECTED,
    "open": EventType.OPENED,
    "click": EventType.CLICKED,
    "spamreport": EventType.COMPLAINED,
    "unsubscribe": EventType.UNSUBSCRIBED,
    "group_unsubscribe": EventType.UNSUBSCRIBED,
    "group_resubscribe": EventType.SUBSCRIBED,
    "account_status_change": EventType.OTHER,
}
BOUNCES = {
    "bounce": Bounce.HARD,
    # Temporary, or about the sender: SendGrid does not suppress the address either.
    "blocked": Bounce.BLOCKED,
    "expired": Bounce.SOFT,
}
REJECTS = {
    "bounced address": Reject.SUPPRESSED,
    "spam reporting address": Reject.SUPPRESSED,
    "unsubscribed address": Reject.UNSUBSCRIBED,
    "invalid": Reject.INVALID,
    "spam content": Reject.POLICY,
    "recipient list over package quota": Reject.QUOTA,
}
# These are limited to one group of mail; a plain unsubscribe is from all of it.
GROUP_WORDS = frozenset({"group_unsubscribe", "group_resubscribe"})

# Everything else at the top level is the sender's own.
KNOWN_FIELDS = frozenset(
    """
    asm_group_id attempt bounce_classification category cert_err email event ip
    marketing_campaign_id marketing_campaign_name newsletter nlvx_campaign_id
    nlvx_campaign_split_id nlvx_user_id pool post_type reason response send_at sg_content_type
    sg_event_id sg_machine_open sg_message_id sg_template_id sg_template_name singlesend_id
    singlesend_name smtp-id status template_id timestamp tls type url url_offset useragent
    """.split()  # noqa: SIM905
)

# Copies have been seen with another sg_event_id and otherwise equal (sendgrid-nodejs#1435), so the
# content is the key and the id an alias. An attempt, a status or an answer tells two events of one
# message apart; volatile are the tags, whose type flips, and whatever enrichment adds.
EVENT = Recipe(
    name="sendgrid.event",
    version=1,
    identity=(
        "sg_message_id",
        "event",
        "@email",
        "timestamp",
        "attempt",
        "status",
        "reason",
        "response",
        "url",
        "url_offset",
        "ip",
        "useragent",
        "asm_group_id",
    ),
    content=("type", "smtp-id"),
)
# Two opens within a second behind one proxy are equal in all but their id.
ENGAGEMENT = Recipe(
    name="sendgrid.engagement",
    version=1,
    identity=("sg_event_id",),
    content=(
        "event",
        "sg_message_id",
        "@email",
        "timestamp",
        "url",
        "url_offset",
        "ip",
        "useragent",
    ),
)

MAIL = mail_recipe("sendgrid")

UNUSABLE_KEY = Refused("no usable public key")

_ENGAGEMENTS = frozenset({EventType.OPENED, EventType.CLICKED})
_BY_RECIPIENT = _ENGAGEMENTS | {EventType.UNSUBSCRIBED, EventType.SUBSCRIBED}

# Behind the id that the send API returned stands the machine that took the mail. The id itself may
# have dots; today it is 16 bytes in base64, which no machine's name is taken for.
_MACHINES = ("filter", "recvd")
_ID_OF_TODAY = re.compile(r"([A-Za-z0-9_-]{22})\.")
# A mail that was dropped has a machine alone for an id. The server that took it has written the id
# into the Message-ID header, unless the sender brought one.
_ID_IN_SMTP_ID = re.compile(r"<([A-Za-z0-9_-]{22})@(?:geopod-)?ismtpd")


def verify(arrival: Arrival, source: Source, keys: Mapping[str, bytes]) -> Verdict:
    """Check the signature over the timestamp's text and the raw body against each public key."""
    del keys
    timestamp = arrival.headers.get("x-twilio-email-event-webhook-timestamp")
    signature = arrival.headers.get("x-twilio-email-event-webhook-signature")
    if timestamp is None or signature is None:
        return hmac_signature.MISSING
    is_mail = form.is_multipart(arrival.headers)
    window_s = inbound.FRESHNESS_S if is_mail else PROVIDER.freshness_s
    fault = hmac_signature.time_fault(timestamp, arrival, source, window_s)
    if fault is not None:
        return fault
    public_keys = [key for key in map(_load_key, source.public_keys) if key is not None]
    if not public_keys:
        return UNUSABLE_KEY
    try:
        given = b64decode(signature, validate=True)
    except ValueError:
        return hmac_signature.WRONG
    signed = timestamp.encode() + arrival.body
    if any(_matches(key, given, signed) for key in public_keys):
        return Verified()
    return hmac_signature.WRONG


def parse(arrival: Arrival, source: Source) -> Parsed:
    """Read an array of events; an element that is none is set aside, and costs no other."""
    if form.is_multipart(arrival.headers):
        parts = form.read_parts(arrival.headers, arrival.body)
        mail = inbound.parse_mail(parts, source)
        event = inbound_event(mail, MAIL, raw=form.shown_fields(parts))
        return Parsed(events=(event,), mails=(mail,))
    elements, unreadable = json_text.read_objects(arrival.body)
    return Parsed(events=tuple(map(_read_event, elements)), unreadable=tuple(unreadable))


@lru_cache(maxsize=256)
def _load_key(text: str) -> ec.EllipticCurvePublicKey | None:
    """Load base64 of DER, as SendGrid shows it, or PEM; None where it is no such key."""
    try:
        if "-----BEGIN" in text:
            key = load_pem_public_key(text.strip().encode())
        else:
            key = load_der_public_key(b64decode("".join(text.split()), validate=True))
    except (ValueError, UnsupportedAlgorithm):
        return None
    if isinstance(key, ec.EllipticCurvePublicKey) and isinstance(key.curve, ec.SECP256R1):
        return key
    return None


def _matches(key: ec.EllipticCurvePublicKey, signature: bytes, signed: bytes) -> bool:
    try:
        key.verify(signature, signed, ec.ECDSA(SHA256()))
    except InvalidSignature:
        return False
    return True


def _read_event(element: dict[str, Any]) -> Event:
    word = reading.word_of(element.get("event"))
    type_ = TYPES.get(word, OTHER)
    reason = element.get("reason")
    return Event(
        type=type_,
        identity=_identity(element, type_),
        provider_event_id=reading.text_of(element.get("sg_event_id"), 200),
        message_id=_message_id(element),
        recipient=reading.address_of(element.get("email")),
        occurred_ms=reading.epoch_ms_of(element.get("timestamp")),
        bounce=_bounce(element.get("type")) if word == "bounce" else None,
        reject=_reject(reason) if word == "dropped" else None,
        reason=reading.text_of(reason) or reading.text_of(element.get("response")),
        stream=_group(element) if word in GROUP_WORDS else "",
        tags=reading.texts_of(element.get("category")),
        metadata=_metadata(element),
        url=reading.text_of(element.get("url")),
        user_agent=reading.text_of(element.get("useragent")),
        # Of any other event it is the address of SendGrid's server.
        ip=reading.text_of(element.get("ip"), 60) if type_ in _BY_RECIPIENT else None,
        machine=_machine(element) if word == "open" else None,
        raw=element,
    )


def _message_id(element: dict[str, Any]) -> str:
    """Give the id that the send API returned; where it is nowhere to be found, all there is."""
    text = reading.text_of(element.get("sg_message_id"), 400) or ""
    today = _ID_OF_TODAY.match(text)
    if today is None and text.startswith(_MACHINES):
        today = _ID_IN_SMTP_ID.match(reading.word_of(element.get("smtp-id")))
    if today is not None:
        return today.group(1)
    return text.partition(".filter")[0].partition(".recvd")[0]


def _identity(element: dict[str, Any], type_: EventType) -> Identity:
    event_id = element.get("sg_event_id")
    has_id = isinstance(event_id, str) and event_id != ""
    if has_id and type_ in _ENGAGEMENTS:
        return Identity(ENGAGEMENT, element)
    aliases = (Alias("sg_event_id", event_id),) if has_id else ()
    # A change of the account's status, for one, concerns no message and no address.
    says_whose = element.get("sg_message_id") or element.get("email")
    return Identity(EVENT if says_whose and element.get("event") else WHOLE, element, aliases)


def _bounce(word: Any) -> Bounce:
    return BOUNCES.get(reading.word_of(word), Bounce.UNDETERMINED)


def _reject(reason: Any) -> Reject:
    return REJECTS.get(reading.word_of(reason).strip().casefold(), Reject.OTHER)


def _group(element: dict[str, Any]) -> str:
    return reading.text_of(element.get("asm_group_id"), 200) or ""


def _metadata(element: dict[str, Any]) -> Mapping[str, Any]:
    if KNOWN_FIELDS.issuperset(element):
        return {}
    return reading.metadata_of(
        {name: value for name, value in element.items() if name not in KNOWN_FIELDS}
    )


def _machine(element: dict[str, Any]) -> bool | None:
    value = element.get("sg_machine_open")
    return value if isinstance(value, bool) else None


def check(source: Source) -> str | None:
    """Name a key that could never verify a signature."""
    if any(_load_key(text) is None for text in source.public_keys):
        return (
            "'public_key' is not the verification key of SendGrid; copy it from Settings, Mail "
            "Settings, Event Webhooks, Security features: it begins with MFkw"
        )
    return None


PROVIDER = Provider(
    name="sendgrid",
    title="SendGrid",
    docs="https://www.twilio.com/docs/sendgrid/for-developers/tracking-events/event",
    verify=verify,
    parse=parse,
    recipes=(EVENT, ENGAGEMENT, MAIL),
    event_id="sg_event_id",
    check=check,
    needs=("public_keys",),
    # Nobody knows whether a retry is signed anew; it may come for 24 hours.
    freshness_s=24 * 3600 + 600,
    retry_horizon_s=24 * 3600,
    inbound=inbound.INBOUND,
    types=frozenset({*TYPES.values(), EventType.INBOUND}),
)
