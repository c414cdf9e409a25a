"""Scaleway Transactional Email: https://www.scaleway.com/en/docs/transactional-email/reference-content/webhook-events-payloads/.

Events come through Scaleway's Topics and Events, which speaks as SNS does but signs with a PKI of
its own: the certificate at `SigningCertURL` changes each year, and counts only if the CA that the
operator has pinned in `public_keys` issued it.
https://www.scaleway.com/en/docs/topics-and-events/reference-content/verifying-webhooks/
"""

import re
from collections.abc import Iterable, Mapping, Sequence
from functools import lru_cache
from typing import Any

from cryptography.exceptions import InvalidSignature, UnsupportedAlgorithm
from cryptography.x509 import (
    BasicConstraints,
    Certificate,
    DuplicateExtension,
    ExtensionNotFound,
    load_der_x509_certificate,
    load_pem_x509_certificates,
)

from mailonce.core import json_text
from mailonce.core.arrivals.arrival import Arrival
from mailonce.core.arrivals.provider import Codes, NeedKey, Parsed, Provider, Refused, Verdict
from mailonce.core.arrivals.source import Source
from mailonce.core.events.event import Bounce, Event, EventType, Reject
from mailonce.core.events.key import WHOLE, Identity, Recipe
from mailonce.core.reading import values as reading
from mailonce.core.signatures import sns
from mailonce.errors import ParseError

TYPES = {
    "email_queued": EventType.ACCEPTED,
    "email_delivered": EventType.DELIVERED,
    "email_deferred": EventType.DEFERRED,
    "email_dropped": EventType.BOUNCED,
    "email_mailbox_not_found": EventType.BOUNCED,
    # Flagged by Scaleway, by the receiving server or by the recipient; which of them it was, it
    # does not say. So it is no complaint, and suppresses nobody.
    "email_spam": EventType.BOUNCED,
    "email_blocklisted": EventType.REJECTED,
    "blocklist_created": EventType.OTHER,
    "unknown_type": EventType.OTHER,
}
BOUNCES = {
    "email_dropped": Bounce.HARD,
    "email_mailbox_not_found": Bounce.HARD,
    "email_spam": Bounce.BLOCKED,
}

EVENT = Recipe(
    name="scaleway.event",
    version=1,
    identity=("id",),
    content=("type", "email_id", "@email_to", "created_at", "email_response_code"),
)
ENDED = Recipe(name="scaleway.topic", version=1, identity=("Type", "TopicArn", "Token"))

WRONG_URL = Refused("certificate URL is not Scaleway's")
NO_AUTHORITY = Refused("no usable CA certificate")
UNTRUSTED_KEY = Refused("certificate is not issued by the pinned CA")

# How many issuers may stand between the certificate and a pinned one, itself counted.
CHAIN_MAX = 4

_TOPIC_ARN = re.compile(r"arn:scw:sns:(fr-par|nl-ams):[A-Za-z0-9-]{1,64}:[A-Za-z0-9_.-]{1,256}")
_CERTIFICATE_NAME = re.compile(r"sns_certificate_[A-Za-z0-9_-]{1,128}\.(?:crt|pem)")


def verify(arrival: Arrival, source: Source, keys: Mapping[str, bytes]) -> Verdict:
    """Verify that a topic on the source's list sent this, by a certificate of the pinned CA."""
    envelope = sns.admit(arrival, source)
    if isinstance(envelope, Refused):
        return envelope
    pinned = [certificate for text in source.public_keys for certificate in _pinned(text)]
    if not pinned:
        return NO_AUTHORITY
    url = envelope.fields.get("SigningCertURL")
    if not isinstance(url, str) or not is_certificate_url(url, envelope.topic_arn):
        return WRONG_URL
    fetched = keys.get(url)
    if fetched is None:
        return NeedKey(url)
    certificates = _certificates(fetched)
    if not certificates:
        return sns.BROKEN_KEY
    if not _chains_to(certificates, pinned, now_ms=arrival.now_ms):
        return UNTRUSTED_KEY
    return sns.verify_with([sns.key_of(certificates[0])], envelope, now_ms=arrival.now_ms)


def parse(arrival: Arrival, source: Source) -> Parsed:
    """Read an event, or a message of the topic itself."""
    del source
    envelope = sns.read_envelope(arrival.body)
    delivery_id = reading.text_of(envelope.message_id, 200)
    if envelope.type == sns.SUBSCRIPTION:
        return Parsed(confirm_url=_confirm_url(envelope), delivery_id=delivery_id)
    if envelope.type == sns.UNSUBSCRIPTION:
        return Parsed(events=(sns.read_end(envelope, ENDED),), delivery_id=delivery_id)
    message = json_text.read_object(
        envelope.message.encode("utf-8", "surrogatepass"), "a Scaleway event", "type"
    )
    return Parsed(events=(_read_event(message),), delivery_id=delivery_id)


def check(source: Source) -> str | None:
    """Name the setting without which nothing from Scaleway could be trusted."""
    if not source.topic_arns:
        return "Scaleway needs 'topic_arns': list the ARN of each topic that may write here"
    for arn in source.topic_arns:
        if _region_of(arn) is None:
            return f"'topic_arns' has {arn!r}; a topic is arn:scw:sns:REGION:project-ID:NAME"
    if source.is_signed and not (source.public_keys and all(map(_pinned, source.public_keys))):
        return (
            "Scaleway needs its CA in 'public_key', which mailonce does not ship: download "
            "https://messaging.s3.fr-par.scw.cloud/REGION/sns/sns-trust-chain.pem yourself and "
            "set the text of that file (CA certificates in PEM)"
        )
    return sns.fault_of_versions(source)


def is_certificate_url(url: str, topic_arn: str) -> bool:
    """Say whether Scaleway itself answers at `url`, for the topic's region.

    The text is compared, not its parts: a parser's idea of user, port or escapes cannot differ
    from the client's. The files of both regions have been documented on the first one's host.
    """
    region = _region_of(topic_arn)
    if region is None:
        return False
    prefixes = (
        f"https://messaging.s3.{host}.scw.cloud/{region}/sns/" for host in (region, "fr-par")
    )
    return any(
        url.startswith(prefix) and _CERTIFICATE_NAME.fullmatch(url, len(prefix)) is not None
        for prefix in prefixes
    )


def _region_of(topic_arn: str) -> str | None:
    match = _TOPIC_ARN.fullmatch(topic_arn)
    return match.group(1) if match is not None else None


def _confirm_url(envelope: sns.Envelope) -> str:
    url: str = envelope.fields["SubscribeURL"]
    host = f"sns.mnq.{_region_of(envelope.topic_arn)}.scaleway.com"
    if not sns.is_confirmation_url(url, envelope.topic_arn, host=host):
        raise ParseError("the SubscribeURL does not confirm this topic at Scaleway")
    return url


def _pinned(text: str) -> tuple[Certificate, ...]:
    """Give the CA certificates of a bundle; anything else in it may issue nothing."""
    return tuple(filter(_is_authority, _certificates(text.encode("utf-8", "replace"))))


@lru_cache(maxsize=128)
def _certificates(file: bytes) -> tuple[Certificate, ...]:
    """Read PEM, whose first certificate is the file's own, or DER; nothing where it is neither."""
    try:
        if b"-----BEGIN" in file:
            return tuple(load_pem_x509_certificates(file))
        return (load_der_x509_certificate(file),)
    except (ValueError, TypeError, UnsupportedAlgorithm):
        return ()


def _chains_to(
    certificates: Sequence[Certificate], pinned: Iterable[Certificate], *, now_ms: int
) -> bool:
    """Follow the issuers of the first certificate, through those sent with it, to a pinned one."""
    anchors = [one for one in pinned if _is_valid_at(one, now_ms)]
    between = [one for one in certificates[1 : 1 + CHAIN_MAX] if _is_valid_at(one, now_ms)]
    current = certificates[0]
    for _ in range(CHAIN_MAX):
        if any(_issued(current, by=anchor) for anchor in anchors):
            return True
        issuers = [one for one in between if _issued(current, by=one)]
        if not issuers:
            return False
        current = issuers[0]
    return False


def _issued(certificate: Certificate, *, by: Certificate) -> bool:
    if not _is_authority(by):
        return False
    try:
        certificate.verify_directly_issued_by(by)
    except (ValueError, TypeError, InvalidSignature, UnsupportedAlgorithm):
        return False
    return True


def _is_authority(certificate: Certificate) -> bool:
    try:
        constraints = certificate.extensions.get_extension_for_class(BasicConstraints)
    except (ValueError, DuplicateExtension, ExtensionNotFound):
        return False
    return constraints.value.ca


def _is_valid_at(certificate: Certificate, now_ms: int) -> bool:
    since, until = certificate.not_valid_before_utc, certificate.not_valid_after_utc
    return since.timestamp() <= now_ms / 1000 <= until.timestamp()


def _read_event(message: dict[str, Any]) -> Event:
    word = message["type"]
    type_ = TYPES.get(word, EventType.OTHER)
    is_known = isinstance(message.get("id"), str) and message["id"] != ""
    return Event(
        type=type_,
        identity=Identity(EVENT if is_known else WHOLE, message),
        provider_event_id=reading.text_of(message.get("id"), 200),
        message_id=reading.text_of(message.get("email_id"), 400) or "",
        recipient=reading.address_of(message.get("email_to")),
        occurred_ms=reading.iso_ms_of(message.get("created_at")),
        bounce=BOUNCES.get(word),
        reject=Reject.SUPPRESSED if type_ is EventType.REJECTED else None,
        reason=reading.first_text_of(
            message.get("email_response_message"),
            message.get("email_error"),
            message.get("blocklist_reason"),
        ),
        metadata=reading.metadata_of(_headers(message)),
        raw=message,
    )


def _headers(message: dict[str, Any]) -> dict[str, Any]:
    """Give the mail's own headers; of a repeated one the last counts."""
    pairs = (reading.mapping_of(item) for item in reading.list_of(message.get("email_headers")))
    return {name: pair.get("value") for pair in pairs if (name := reading.text_of(pair.get("key")))}


PROVIDER = Provider(
    name="scaleway",
    title="Scaleway Transactional Email",
    docs="https://www.scaleway.com/en/docs/transactional-email/reference-content/webhook-events-payloads/",
    verify=verify,
    verify_unsigned=sns.verify_topic,
    parse=parse,
    recipes=(EVENT, ENDED),
    event_id="id",
    check=check,
    # And the CA: `check` says where to get it.
    needs=("topic_arns",),
    freshness_s=sns.FRESHNESS_S,
    # How long it tries is not documented.
    retry_horizon_s=24 * 3600,
    # A service that copies SNS may take any 4xx for an answer, as SNS does.
    codes=Codes(refused=403, refused_is_final=True),
    sends_password_when_asked=True,
    types=frozenset(TYPES.values()),
    options=sns.OPTIONS,
)
