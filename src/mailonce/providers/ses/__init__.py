"""Amazon SES through SNS: https://docs.aws.amazon.com/ses/latest/dg/event-publishing-retrieving-sns.html.

Event publishing (configuration sets) and the older feedback notifications of an identity are both
read, and both may be on at once: one event then comes twice, under two SNS message ids, so keys
are made of what SES says and never of the SNS message id.

Rule: Both are one family: copies of one event by either way collapse.
Imports: `core`, `errors`, `providers.inbound.ses`.
"""

from collections.abc import Mapping
from typing import Any

from mailonce.core import json_text
from mailonce.core.arrivals.arrival import Arrival
from mailonce.core.arrivals.provider import Codes, Parsed, Provider, Refused, Verdict, Verified
from mailonce.core.arrivals.source import Source
from mailonce.core.events.key import Recipe
from mailonce.core.mail.incoming import IncomingMail
from mailonce.core.reading import values
from mailonce.core.signatures import sns
from mailonce.errors import ParseError
from mailonce.providers.inbound import ses as inbound
from mailonce.providers.ses import amazon
from mailonce.providers.ses.events import RECIPES, TYPES, read_events

RAW = Refused("raw delivery is not signed")
RAW_HEADER = "x-amz-sns-rawdelivery"
ID_HEADER = "x-amz-sns-message-id"
TOPIC_HEADER = "x-amz-sns-topic-arn"

# What SNS sends after an event destination was attached: a sentence where an event would be.
VALIDATED = "Successfully validated SNS topic"

ENDED = Recipe(name="ses.topic", version=1, identity=("Type", "TopicArn", "Token"))


def verify(arrival: Arrival, source: Source, keys: Mapping[str, bytes]) -> Verdict:
    """Check the SNS signature; without one, only what the source's other proofs vouch for."""
    if not _is_raw(arrival):
        return amazon.verify(arrival, source, keys)
    if source.options.get("raw_delivery") is not True or not _has_other_proof(source):
        return RAW
    return verify_unsigned(arrival, source, keys)


def verify_unsigned(arrival: Arrival, source: Source, keys: Mapping[str, bytes]) -> Verdict:
    """Check only that the topic is on the source's list; raw delivery names it in a header."""
    if not _is_raw(arrival):
        return sns.verify_topic(arrival, source, keys)
    if arrival.headers.get(TOPIC_HEADER) not in source.topic_arns:
        return sns.WRONG_TOPIC
    return Verified()


def parse(arrival: Arrival, source: Source) -> Parsed:
    """Read an SES event, or a message of SNS itself."""
    if _is_raw(arrival):
        delivery_id = values.text_of(arrival.headers.get(ID_HEADER), 200)
        topic_arn = arrival.headers.get(TOPIC_HEADER, "")
        message = json_text.read(arrival.body)
        mails = _mails(message, source, topic_arn)
        return Parsed(events=read_events(message), mails=mails, delivery_id=delivery_id)
    envelope = sns.read_envelope(arrival.body)
    delivery_id = values.text_of(envelope.message_id, 200)
    if envelope.type == sns.SUBSCRIPTION:
        return Parsed(confirm_url=_confirm_url(envelope), delivery_id=delivery_id)
    if envelope.type == sns.UNSUBSCRIPTION:
        return Parsed(events=(sns.read_end(envelope, ENDED),), delivery_id=delivery_id)
    if envelope.message.startswith(VALIDATED):
        return Parsed(delivery_id=delivery_id)
    message = json_text.read(envelope.message.encode("utf-8", "surrogatepass"))
    events = read_events(message, published_at=envelope.fields["Timestamp"])
    mails = _mails(message, source, envelope.topic_arn)
    return Parsed(events=events, mails=mails, delivery_id=delivery_id)


def check(source: Source) -> str | None:
    """Name the setting without which nothing from SES could be trusted."""
    if not source.topic_arns:
        return "SES needs 'topic_arns': list the ARN of each SNS topic that may write here"
    for arn in source.topic_arns:
        if amazon.host_of(arn) is None:
            return f"'topic_arns' has {arn!r}; an SNS topic is arn:aws:sns:REGION:ACCOUNT:NAME"
    versions_fault = sns.fault_of_versions(source)
    if versions_fault is not None:
        return versions_fault
    if any(sns.signing_key(pem.encode("utf-8", "replace")) is None for pem in source.public_keys):
        return "'public_keys' must be RSA certificates or public keys in PEM; leave it out to fetch"
    if source.options.get("raw_delivery") and not _has_other_proof(source):
        return "option 'raw_delivery' has no signature; set 'basic', 'token' or 'allow_ips' as well"
    return None


def _mails(message: Any, source: Source, topic_arn: str) -> tuple[IncomingMail, ...]:
    mail = inbound.parse_mail(values.mapping_of(message), source, topic_arn=topic_arn)
    return () if mail is None else (mail,)


def _is_raw(arrival: Arrival) -> bool:
    return arrival.headers.get(RAW_HEADER, "").lower() == "true"


def _has_other_proof(source: Source) -> bool:
    return bool(source.basic or source.tokens or source.headers or source.allow_ips)


def _confirm_url(envelope: sns.Envelope) -> str:
    url: str = envelope.fields["SubscribeURL"]
    if not amazon.is_confirmation_url(url, envelope.topic_arn):
        raise ParseError("the SubscribeURL does not confirm this topic at Amazon")
    return url


PROVIDER = Provider(
    name="ses",
    title="Amazon SES",
    docs="https://docs.aws.amazon.com/ses/latest/dg/event-publishing-retrieving-sns.html",
    verify=verify,
    verify_unsigned=verify_unsigned,
    parse=parse,
    recipes=(*RECIPES, ENDED),
    event_id="feedbackId",
    check=check,
    needs=("topic_arns",),
    freshness_s=sns.FRESHNESS_S,
    retry_horizon_s=3600,
    # SNS takes any 4xx for an answer and never asks again; only what is proven wrong gets one.
    codes=Codes(refused=403, refused_is_final=True),
    sends_password_when_asked=True,
    reads_headers=(RAW_HEADER, ID_HEADER, TOPIC_HEADER),
    inbound=inbound.INBOUND,
    types=TYPES,
    options={
        **sns.OPTIONS,
        "raw_delivery": "`true`: take raw message delivery, which SNS does not sign; "
        "needs `basic`, `token`, `header` or `allow_ips`",
        "s3_region": "region of the bucket, where it is not that of the topic",
    },
)
