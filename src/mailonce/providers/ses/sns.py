"""The envelope of Amazon SNS: what it says, and the proof that a topic of ours said it.

https://docs.aws.amazon.com/sns/latest/dg/sns-verify-signature-of-message.html
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
from cryptography.x509 import load_pem_x509_certificate

from mailonce.core import json_text, reading, scheme
from mailonce.core.arrival import Arrival
from mailonce.core.provider import NeedKey, Refused, Verdict, Verified
from mailonce.core.source import Source
from mailonce.errors import ParseError

FRESHNESS_S = 8 * 3600

NOT_SNS = Refused("body is not an SNS message")
MISMATCH = Refused("headers contradict the body")
WRONG_TOPIC = Refused("topic is not allowed")
WRONG_VERSION = Refused("signature version is not allowed")
WRONG_URL = Refused("certificate URL is not Amazon's")
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

_TOPIC_ARN = re.compile(
    r"arn:(aws|aws-cn|aws-us-gov):sns:([a-z]{2}(?:-[a-z]+)+-[0-9]{1,2}):[0-9]{12}:[A-Za-z0-9_.-]{1,256}"
)
_CERTIFICATE_PATH = re.compile(r"/SimpleNotificationService(-[0-9a-f]{1,64})?\.pem")
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


def verify(arrival: Arrival, source: Source, keys: Mapping[str, bytes]) -> Verdict:
    """Prove that a topic on the source's list sent this.

    A valid signature alone says only "some topic of somebody": anyone may subscribe a topic of
    theirs to our URL. Everything that costs nothing is checked before a certificate is asked for.
    """
    try:
        envelope = read_envelope(arrival.body)
    except ParseError:
        return NOT_SNS
    if not _headers_agree(arrival, envelope):
        return MISMATCH
    if envelope.topic_arn not in source.topic_arns:
        return WRONG_TOPIC
    version = envelope.fields.get("SignatureVersion")
    if not isinstance(version, str) or version not in HASHES.keys() & allowed_versions(source):
        return WRONG_VERSION
    sent_ms = reading.iso_ms_of(envelope.fields["Timestamp"])
    window_s = FRESHNESS_S if source.freshness_s is None else source.freshness_s
    if sent_ms is None or not scheme.is_fresh(
        sent_ms / 1000, now_ms=arrival.now_ms, window_s=window_s
    ):
        return scheme.STALE
    if source.public_keys:
        pems = [pem.encode("utf-8", "replace") for pem in source.public_keys]
        return _verify_with(pems, envelope, arrival.now_ms)
    url = envelope.fields.get("SigningCertURL")
    if not isinstance(url, str) or not is_certificate_url(url, envelope.topic_arn):
        return WRONG_URL
    pem = keys.get(url)
    return NeedKey(url) if pem is None else _verify_with([pem], envelope, arrival.now_ms)


def allowed_versions(source: Source) -> frozenset[str]:
    """Give the signature versions that the source takes: both, unless it limits them."""
    wanted = source.options.get("signature_versions")
    if wanted is None:
        return frozenset(HASHES)
    return frozenset(reading.texts_of(list(wanted) if isinstance(wanted, tuple) else wanted))


def host_of(topic_arn: str) -> str | None:
    """Give the one host that may speak for a topic, or None where that is no topic's ARN."""
    found = _TOPIC_ARN.fullmatch(topic_arn)
    if found is None:
        return None
    partition, region = found.groups()
    return f"sns.{region}.amazonaws.com" + (".cn" if partition == "aws-cn" else "")


def is_certificate_url(url: str, topic_arn: str) -> bool:
    """Say whether Amazon itself answers at `url`.

    The text is compared, not its parts: a parser's idea of user, port or escapes cannot differ
    from the client's. "Ends in amazonaws.com" would let in whoever names a bucket `sns`.
    """
    host = host_of(topic_arn)
    prefix = f"https://{host}"
    return (
        host is not None
        and url.startswith(prefix)
        and _CERTIFICATE_PATH.fullmatch(url, len(prefix)) is not None
    )


def is_confirmation_url(url: str, topic_arn: str) -> bool:
    """Say whether fetching `url` confirms the subscription of that topic and nothing else."""
    host = host_of(topic_arn)
    prefix = f"https://{host}/?"
    if host is None or not url.startswith(prefix) or not _QUERY.fullmatch(url, len(prefix)):
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
        """Say whether the certificate's dates cover that moment."""
        if self.since_ms is None or self.until_ms is None:
            return True
        return self.since_ms <= now_ms <= self.until_ms


@lru_cache(maxsize=128)
def signing_key(pem: bytes) -> SigningKey | None:
    """Read a PEM certificate or public key; None where it is neither, or is not RSA."""
    try:
        if b"BEGIN CERTIFICATE" not in pem:
            key = load_pem_public_key(pem)
            return SigningKey(key) if isinstance(key, RSAPublicKey) else None
        certificate = load_pem_x509_certificate(pem)
        key = certificate.public_key()
        since_ms = certificate.not_valid_before_utc.timestamp() * 1000
        until_ms = certificate.not_valid_after_utc.timestamp() * 1000
    except (ValueError, TypeError, UnsupportedAlgorithm):
        return None
    return SigningKey(key, since_ms, until_ms) if isinstance(key, RSAPublicKey) else None


def _verify_with(pems: Iterable[bytes], envelope: Envelope, now_ms: int) -> Verdict:
    """Try each key; of several failures the one that came furthest is told."""
    try:
        signature = b64decode(str(envelope.fields.get("Signature") or ""), validate=True)
    except (Base64Error, ValueError):
        return scheme.WRONG
    if not signature:
        return scheme.MISSING
    signed = canonical_string(envelope)
    verdict: Verdict = BROKEN_KEY
    for pem in pems:
        key = signing_key(pem)
        if key is None:
            continue
        if not key.is_valid_at(now_ms):
            verdict = EXPIRED_KEY if verdict is BROKEN_KEY else verdict
            continue
        try:
            hash_ = HASHES[envelope.fields["SignatureVersion"]]()
            key.key.verify(signature, signed, PKCS1v15(), hash_)
        except (InvalidSignature, UnsupportedAlgorithm):
            verdict = scheme.WRONG
        else:
            return Verified()
    return verdict


def _headers_agree(arrival: Arrival, envelope: Envelope) -> bool:
    """SNS repeats three fields as headers; a proxy may drop them, nobody honest changes them."""
    said = {
        "x-amz-sns-message-type": envelope.type,
        "x-amz-sns-message-id": envelope.message_id,
        "x-amz-sns-topic-arn": envelope.topic_arn,
    }
    return all(arrival.headers.get(name, value) == value for name, value in said.items())
