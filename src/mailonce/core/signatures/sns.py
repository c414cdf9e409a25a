"""The envelope of SNS, and of services that copy it: what it says, and whether its key signed it.

https://docs.aws.amazon.com/sns/latest/dg/sns-verify-signature-of-message.html. Which hosts may
speak for a topic, and whose certificates count, is for each provider to say.
"""

import re
from base64 import b64decode
from binascii import Error as Base64Error
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from functools import lru_cache
from typing import Any
from urllib.parse import parse_qs

from cryptography.exceptions import InvalidSignature, UnsupportedAlgorithm
from cryptography.hazmat.primitives.asymmetric.padding import PKCS1v15
from cryptography.hazmat.primitives.asymmetric.rsa import RSAPublicKey
from cryptography.hazmat.primitives.hashes import SHA1, SHA256
from cryptography.hazmat.primitives.serialization import load_pem_public_key
from cryptography.x509 import Certificate, load_pem_x509_certificate

from mailonce.core import json_text
from mailonce.core.arrivals.arrival import Arrival
from mailonce.core.arrivals.provider import Refused, Verdict, Verified
from mailonce.core.arrivals.source import Source
from mailonce.core.events.event import Event, EventType
from mailonce.core.events.key import Identity, Recipe
from mailonce.core.reading import values
from mailonce.core.signatures import hmac_signature
from mailonce.errors import ParseError

# The timestamp is that of publishing, and each attempt repeats it.
FRESHNESS_S = 8 * 3600
OPTIONS: Mapping[str, str] = {
    "signature_versions": "list of the SNS signature versions that count, such as "
    '`["2"]`; default: both'
}

NOT_SNS = Refused("body is not an SNS message")
MISMATCH = Refused("headers contradict the body")
WRONG_TOPIC = Refused("topic is not allowed")
WRONG_VERSION = Refused("signature version is not allowed")
BROKEN_KEY = Refused("certificate is broken")
EXPIRED_KEY = Refused("certificate is not valid at this time")

# SHA-1 is what SNS uses unless the topic says otherwise, so it cannot be refused by default.
HASHES = {"1": SHA1, "2": SHA256}

# The fields that are signed, in the order in which they are.
NOTIFICATION = "Notification"
SUBSCRIPTION = "SubscriptionConfirmation"
UNSUBSCRIPTION = "UnsubscribeConfirmation"
_HANDSHAKE = ("Message", "MessageId", "SubscribeURL", "Timestamp", "Token", "TopicArn", "Type")
SIGNED = {
    NOTIFICATION: ("Message", "MessageId", "Subject", "Timestamp", "TopicArn", "Type"),
    SUBSCRIPTION: _HANDSHAKE,
    UNSUBSCRIPTION: _HANDSHAKE,
}

# All that proving looks at.
_FIELDS = (
    "Message", "MessageId", "Signature", "SignatureVersion", "SigningCertURL", "SigningCertUrl",
    "Subject", "SubscribeURL", "SubscribeUrl", "Timestamp", "Token", "TopicArn", "Type",
)  # fmt: skip

_QUERY = re.compile(r"[A-Za-z0-9%&=._~:+/-]{1,2000}")


@dataclass(frozen=True, slots=True)
class Envelope:
    """One SNS message. `fields` has every field as it came, under SNS's own spelling."""

    type: str
    message_id: str
    topic_arn: str
    message: str
    fields: Mapping[str, Any]


def read_envelope(body: bytes) -> Envelope:
    """Read the envelope, whatever its Content-Type said.

    Raises: ParseError where it is none.
    """
    value = json_text.read(body)
    if not isinstance(value, dict):
        raise ParseError("an SNS message is a JSON object")
    return _envelope_of(value)


def _envelope_of(value: dict[str, Any]) -> Envelope:
    # Forwarders that go through Lambda spell two fields their way; a body with both spellings
    # could mean one thing to the signature and another to us.
    for ours, theirs in (("SigningCertURL", "SigningCertUrl"), ("SubscribeURL", "SubscribeUrl")):
        if theirs in value:
            if ours in value:
                raise ParseError(f"an SNS message has either {ours} or {theirs}")
            value = {**value, ours: value[theirs]}
    type_ = value.get("Type")
    if not isinstance(type_, str) or type_ not in SIGNED:
        raise ParseError(f"an SNS message has a Type of {', '.join(SIGNED)}")
    for name in SIGNED[type_]:
        given = value.get(name)
        if not isinstance(given, str) and not (name == "Subject" and given is None):
            raise ParseError(f"an SNS {type_} has a text {name!r}")
    return Envelope(type_, value["MessageId"], value["TopicArn"], value["Message"], value)


def admit(arrival: Arrival, source: Source) -> Envelope | Refused:
    """Check everything that costs nothing, before a certificate is fetched.

    A valid signature alone says only "some topic of somebody": anyone may subscribe a topic of
    theirs to our URL. So the topic must be on the source's list.
    """
    try:
        envelope = _envelope_of(json_text.read_fields(arrival.body, _FIELDS))
    except ParseError:
        return NOT_SNS
    if not _headers_agree(arrival, envelope):
        return MISMATCH
    if envelope.topic_arn not in source.topic_arns:
        return WRONG_TOPIC
    version = envelope.fields.get("SignatureVersion")
    if not isinstance(version, str) or version not in HASHES.keys() & allowed_versions(source):
        return WRONG_VERSION
    sent_ms = values.iso_ms_of(envelope.fields["Timestamp"])
    window_s = FRESHNESS_S if source.freshness_s is None else source.freshness_s
    if sent_ms is None or not hmac_signature.is_fresh(
        sent_ms / 1000, now_ms=arrival.now_ms, window_s=window_s
    ):
        return hmac_signature.STALE
    return envelope


def verify_topic(arrival: Arrival, source: Source, keys: Mapping[str, bytes]) -> Verdict:
    """Check only that the topic is on the source's list: nothing is signed."""
    del keys
    try:
        envelope = read_envelope(arrival.body)
    except ParseError:
        return NOT_SNS
    return Verified() if envelope.topic_arn in source.topic_arns else WRONG_TOPIC


def allowed_versions(source: Source) -> frozenset[str]:
    """Give the signature versions that the source takes: both, unless it limits them."""
    wanted = source.options.get("signature_versions")
    if wanted is None:
        return frozenset(HASHES)
    return frozenset(values.texts_of(list(wanted) if isinstance(wanted, tuple) else wanted))


def fault_of_versions(source: Source) -> str | None:
    """Say in one sentence what is wrong with the source's list of signature versions, or None."""
    versions = allowed_versions(source)
    if versions and versions <= HASHES.keys():
        return None
    return 'option \'signature_versions\' must be a list of "1" and "2"; leave it out for both'


def is_confirmation_url(url: str, topic_arn: str, *, host: str) -> bool:
    """Say whether fetching `url` confirms the subscription of that topic and nothing else."""
    prefix = f"https://{host}/?"
    if not url.startswith(prefix) or not _QUERY.fullmatch(url, len(prefix)):
        return False
    query = parse_qs(url[len(prefix) :])
    return query.get("Action") == ["ConfirmSubscription"] and query.get("TopicArn") in (
        None,
        [topic_arn],
    )


def canonical_string(envelope: Envelope) -> bytes:
    """Write what SNS signed: name and value of each signed field, a line each."""
    fields = envelope.fields
    lines = [
        f"{name}\n{fields[name]}\n"
        for name in SIGNED[envelope.type]
        if fields.get(name) is not None
    ]
    return "".join(lines).encode("utf-8", "surrogatepass")


@dataclass(frozen=True, slots=True)
class SigningKey:
    """A public key and, where it came in a certificate, the time during which it counts."""

    key: RSAPublicKey
    since_ms: float | None = None
    until_ms: float | None = None

    def is_valid_at(self, now_ms: int) -> bool:
        if self.since_ms is None or self.until_ms is None:
            return True
        return self.since_ms <= now_ms <= self.until_ms


def key_of(certificate: Certificate) -> SigningKey | None:
    """Take the key out of a certificate; None where it is not RSA."""
    try:
        key = certificate.public_key()
    except (ValueError, TypeError, UnsupportedAlgorithm):
        return None
    since_ms = certificate.not_valid_before_utc.timestamp() * 1000
    until_ms = certificate.not_valid_after_utc.timestamp() * 1000
    return SigningKey(key, since_ms, until_ms) if isinstance(key, RSAPublicKey) else None


@lru_cache(maxsize=128)
def signing_key(pem: bytes) -> SigningKey | None:
    """Read a PEM certificate or public key; None where it is neither, or is not RSA."""
    try:
        if b"BEGIN CERTIFICATE" in pem:
            return key_of(load_pem_x509_certificate(pem))
        key = load_pem_public_key(pem)
    except (ValueError, TypeError, UnsupportedAlgorithm):
        return None
    return SigningKey(key) if isinstance(key, RSAPublicKey) else None


def verify_with(keys: Iterable[SigningKey | None], envelope: Envelope, *, now_ms: int) -> Verdict:
    """Try each key; of several failures, report the one that got furthest."""
    try:
        signature = b64decode(str(envelope.fields.get("Signature") or ""), validate=True)
    except (Base64Error, ValueError):
        return hmac_signature.WRONG
    if not signature:
        return hmac_signature.MISSING
    signed = canonical_string(envelope)
    verdict: Verdict = BROKEN_KEY
    for key in keys:
        if key is None:
            continue
        if not key.is_valid_at(now_ms):
            verdict = EXPIRED_KEY if verdict is BROKEN_KEY else verdict
            continue
        try:
            hash_ = HASHES[envelope.fields["SignatureVersion"]]()
            key.key.verify(signature, signed, PKCS1v15(), hash_)
        except (InvalidSignature, UnsupportedAlgorithm):
            verdict = hmac_signature.WRONG
        else:
            return Verified()
    return verdict


def read_end(envelope: Envelope, recipe: Recipe) -> Event:
    """Somebody ended the subscription: worth seeing, and not for us to undo."""
    # The token, which could renew the subscription, stays out of what users see.
    shown = ("Type", "TopicArn", "Message", "Timestamp")
    return Event(
        type=EventType.OTHER,
        identity=Identity(recipe, envelope.fields),
        occurred_ms=values.iso_ms_of(envelope.fields["Timestamp"]),
        reason=values.text_of(envelope.message),
        raw={name: envelope.fields[name] for name in shown},
    )


def _headers_agree(arrival: Arrival, envelope: Envelope) -> bool:
    """SNS repeats three fields as headers; a proxy may drop them, nobody honest changes them."""
    repeated = {
        "x-amz-sns-message-type": envelope.type,
        "x-amz-sns-message-id": envelope.message_id,
        "x-amz-sns-topic-arn": envelope.topic_arn,
    }
    return all(arrival.headers.get(name, value) == value for name, value in repeated.items())
