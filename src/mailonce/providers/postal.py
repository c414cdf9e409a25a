"""Postal: https://docs.postalserver.io/developer/webhooks.

An installation signs with the RSA key of its own that also signs DKIM. Version 3 sends PKCS#1 v1.5
with SHA-256 in `X-Postal-Signature-256`; older ones only SHA-1 in `X-Postal-Signature`, which a
source takes when its option `signature` says "sha1". A body is one event in an envelope, which the
documentation does not show (app/services/webhook_delivery_service.rb does), or one mail.
"""

import json
from base64 import b64decode, urlsafe_b64decode
from binascii import Error as Base64Error
from collections.abc import Iterator, Mapping
from functools import lru_cache
from typing import Any

from cryptography.exceptions import InvalidSignature, UnsupportedAlgorithm
from cryptography.hazmat.primitives.asymmetric.padding import PKCS1v15
from cryptography.hazmat.primitives.asymmetric.rsa import RSAPublicKey, RSAPublicNumbers
from cryptography.hazmat.primitives.hashes import SHA1, SHA256, HashAlgorithm
from cryptography.hazmat.primitives.serialization import load_der_public_key, load_pem_public_key
from msgspec.structs import replace

from mailonce.core import json_text
from mailonce.core.arrivals.arrival import Arrival
from mailonce.core.arrivals.provider import Parsed, Provider, Refused, Verdict, Verified
from mailonce.core.arrivals.source import Source
from mailonce.core.events.event import Bounce, Event, EventType
from mailonce.core.events.key import WHOLE, Identity, Recipe
from mailonce.core.mail.incoming import IncomingMail
from mailonce.core.reading import form, held_mail
from mailonce.core.reading import values as reading
from mailonce.core.reading.inbound_event import inbound_event
from mailonce.core.signatures import hmac_signature
from mailonce.errors import ParseError
from mailonce.providers.inbound import postal as inbound

TYPES = {
    "MessageSent": EventType.DELIVERED,
    "MessageDelayed": EventType.DEFERRED,
    "MessageDeliveryFailed": EventType.BOUNCED,
    "MessageBounced": EventType.BOUNCED,
    "MessageLinkClicked": EventType.CLICKED,
    "MessageLoaded": EventType.OPENED,
}
# Why it is held stands in a sentence for people only, so it never suppresses. Option `held`.
HELD_WORD = "MessageHeld"
# What the details of a HardFail say when Postal gave up on a server that kept refusing for now.
GAVE_UP = "maximum number of delivery attempts"

# By option, the header that must hold the signature, and its hash.
SIGNATURES: dict[str, tuple[str, HashAlgorithm]] = {
    "sha256": ("x-postal-signature-256", SHA256()),
    "sha1": ("x-postal-signature", SHA1()),  # noqa: S303 - all that Postal 2 has
}

# The uuid is that of one request to one webhook: two webhooks would count an event twice by it.
EVENT = Recipe(
    name="postal.event",
    version=1,
    identity=(
        "event",
        "message.id",
        "message.token",
        "time",
        "status",
        "url",
        "ip_address",
    ),
    content=("@message.to", "details", "output"),
)
# A bounce has no time of its own, but is a message itself.
BOUNCE = Recipe(
    name="postal.bounce",
    version=1,
    identity=("event", "message.id", "message.token", "bounce.id", "bounce.token"),
    content=("@message.to",),
)
# A mail has one number in its server, whichever endpoints it is posted to.
MAIL = Recipe(
    name="postal.mail", version=1, identity=("id", "@rcpt_to"), content=("mail_from", "content")
)

UNUSABLE_KEY = Refused("no usable public key")


def verify(arrival: Arrival, source: Source, keys: Mapping[str, bytes]) -> Verdict:
    """Check the signature that the source is set to; never fall back to the weaker one."""
    del keys
    header, hash_ = SIGNATURES.get(_signature_option(source), SIGNATURES["sha256"])
    signature = arrival.headers.get(header)
    if signature is None:
        return hmac_signature.MISSING
    public_keys = [key for text in source.public_keys for key in _load_keys(text)]
    if not public_keys:
        return UNUSABLE_KEY
    try:
        given = b64decode(signature, validate=True)
    except (Base64Error, ValueError):
        return hmac_signature.WRONG
    if any(_matches(key, given, arrival.body, hash_) for key in public_keys):
        return Verified()
    return hmac_signature.WRONG


def parse(arrival: Arrival, source: Source) -> Parsed:
    """Read one event, or one mail; events of incoming mail are ignored."""
    body = _read_body(arrival)
    if inbound.is_mail(body):
        mail = inbound.parse_mail(body, source)
        return Parsed(events=(_mail_event(mail, body),), mails=(mail,))
    if not isinstance(body.get("event"), str):
        raise ParseError("a Postal body is a JSON object with a text 'event', or a mail")
    delivery_id = reading.text_of(body.get("uuid"), 200)
    content = reading.mapping_of(body.get("payload"))
    message = reading.mapping_of(content.get("original_message") or content.get("message"))
    if message.get("direction") == "incoming":
        return Parsed(delivery_id=delivery_id)
    return Parsed(events=(_read_event(body, content, message, source),), delivery_id=delivery_id)


def check(source: Source) -> str | None:
    """Name the key or option that could never work."""
    if _signature_option(source) not in SIGNATURES:
        return f"option 'signature' must be one of {', '.join(SIGNATURES)}"
    hold_fault = held_mail.fault_of(source, "held")
    if hold_fault is not None:
        return hold_fault
    if not all(_load_keys(text) for text in source.public_keys):
        return (
            "'public_key' must be RSA: PEM, what /.well-known/jwks.json of your Postal says, or "
            "the p= value of `postal default-dkim-record`"
        )
    return None


def _read_body(arrival: Arrival) -> dict[str, Any]:
    """Read JSON, or a form, which an endpoint for mail may be set to."""
    if form.is_form(arrival.headers):
        return dict(form.read(arrival.headers, arrival.body))
    return json_text.read_object(arrival.body, "a Postal body")


def _mail_event(mail: IncomingMail, body: dict[str, Any]) -> Event:
    event = inbound_event(mail, MAIL, raw=body)
    number = reading.text_of(body.get("id"), 200)
    if number is None:
        return replace(event, identity=Identity(WHOLE, body))
    fields = {**event.identity.fields, "id": number, "rcpt_to": body.get("rcpt_to")}
    return replace(event, identity=Identity(MAIL, fields), provider_event_id=number)


def _signature_option(source: Source) -> str:
    return reading.word_of(source.options.get("signature", "sha256"))


@lru_cache(maxsize=256)
def _load_keys(text: str) -> tuple[RSAPublicKey, ...]:
    """Load PEM, a JWK or a set of them, a DKIM record or its `p=` alone; RSA counts, else none."""
    try:
        if "-----BEGIN" in text:
            keys = [load_pem_public_key(text.strip().encode())]
        elif text.lstrip().startswith("{"):
            keys = list(_from_jwks(json.loads(text)))
        else:
            record = "".join(text.replace('"', "").split())
            tags = dict(tag.partition("=")[::2] for tag in record.split(";") if "=" in tag)
            keys = [load_der_public_key(b64decode(tags.get("p", record), validate=True))]
    except (ValueError, TypeError, UnsupportedAlgorithm, RecursionError):
        return ()
    return tuple(key for key in keys if isinstance(key, RSAPublicKey))


def _from_jwks(value: Any) -> Iterator[Any]:
    for one in map(reading.mapping_of, reading.list_of(value.get("keys", [value]))):
        if one.get("kty") == "RSA":
            e, n = (_from_base64url(reading.word_of(one.get(name))) for name in ("e", "n"))
            yield RSAPublicNumbers(e, n).public_key()


def _from_base64url(text: str) -> int:
    return int.from_bytes(urlsafe_b64decode(text + "=" * (-len(text) % 4)))


def _matches(key: RSAPublicKey, signature: bytes, signed: bytes, hash_: HashAlgorithm) -> bool:
    try:
        key.verify(signature, signed, PKCS1v15(), hash_)
    except (InvalidSignature, UnsupportedAlgorithm):
        return False
    return True


def _read_event(
    body: dict[str, Any], content: Mapping[str, Any], message: Mapping[str, Any], source: Source
) -> Event:
    word = body["event"]
    type_, reject = _type(word, source)
    return Event(
        type=type_,
        identity=_identity(body, content, message),
        provider_event_id=reading.text_of(body.get("uuid"), 200),
        message_id=reading.text_of(message.get("id"), 400) or "",
        recipient=reading.address_of(message.get("to")),
        occurred_ms=reading.epoch_ms_of(body.get("timestamp")),
        bounce=_bounce(word, content) if type_ is EventType.BOUNCED else None,
        reject=reject,
        reason=reading.text_of(content.get("output")) or reading.text_of(content.get("details")),
        tags=reading.texts_of(message.get("tag")),
        url=reading.text_of(content.get("url")),
        user_agent=reading.text_of(content.get("user_agent")),
        ip=reading.text_of(content.get("ip_address"), 60),
        # It came back as a mail, from a server that had taken the message.
        late=word == "MessageBounced",
        raw=body,
    )


def _type(word: str, source: Source) -> held_mail.Hold:
    if word == HELD_WORD:
        return held_mail.hold_of(source, "held")
    return (TYPES.get(word, EventType.OTHER), None)


def _identity(
    body: dict[str, Any], content: Mapping[str, Any], message: Mapping[str, Any]
) -> Identity:
    if not message.get("id"):
        return Identity(WHOLE, body)
    bounce = reading.mapping_of(content.get("bounce"))
    fields = {
        "event": body["event"],
        **{f"message.{name}": message.get(name) for name in ("id", "token", "to")},
    }
    if bounce.get("id"):
        bounce_fields = {f"bounce.{name}": bounce.get(name) for name in ("id", "token")}
        return Identity(BOUNCE, {**fields, **bounce_fields})
    # A delivery has a time, equal for every webhook; a load or a click has the envelope's only.
    fields["time"] = content.get("timestamp") or body.get("timestamp")
    names = ("status", "url", "ip_address", "details", "output")
    return Identity(EVENT, {**fields, **{name: content.get(name) for name in names}})


def _bounce(word: str, content: Mapping[str, Any]) -> Bounce:
    details = reading.word_of(content.get("details")).lower()
    if word == "MessageDeliveryFailed" and GAVE_UP in details:
        return Bounce.SOFT
    return Bounce.HARD


PROVIDER = Provider(
    name="postal",
    title="Postal",
    docs="https://docs.postalserver.io/developer/webhooks",
    verify=verify,
    parse=parse,
    recipes=(EVENT, BOUNCE, MAIL),
    event_id="uuid",
    check=check,
    needs=("public_keys",),
    # Six attempts in 36 minutes.
    retry_horizon_s=3600,
    inbound=inbound.INBOUND,
    types=frozenset({*TYPES.values(), EventType.REJECTED, EventType.INBOUND, EventType.OTHER}),
    options={
        "signature": "`sha256` (default), or `sha1` for Postal 2",
        "held": held_mail.WHAT_IT_COUNTS_AS,
    },
)
