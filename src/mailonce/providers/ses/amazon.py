"""Amazon's hosts and certificates: which of them may sign for an SNS topic.

https://docs.aws.amazon.com/sns/latest/dg/sns-verify-signature-of-message.html
"""

import re
from collections.abc import Mapping

from mailonce.core.arrivals.arrival import Arrival
from mailonce.core.arrivals.provider import NeedKey, Refused, Verdict
from mailonce.core.arrivals.source import Source
from mailonce.core.signatures import sns

WRONG_URL = Refused("certificate URL is not Amazon's")

_TOPIC_ARN = re.compile(
    r"arn:(aws|aws-cn|aws-us-gov):sns:([a-z]{2}(?:-[a-z]+)+-[0-9]{1,2}):[0-9]{12}:[A-Za-z0-9_.-]{1,256}"
)
_CERTIFICATE_PATH = re.compile(r"/SimpleNotificationService(-[0-9a-f]{1,64})?\.pem")


def verify(arrival: Arrival, source: Source, keys: Mapping[str, bytes]) -> Verdict:
    """Verify that a topic on the source's list sent this."""
    envelope = sns.admit(arrival, source)
    if isinstance(envelope, Refused):
        return envelope
    if source.public_keys:
        pinned = [pem.encode("utf-8", "replace") for pem in source.public_keys]
        return sns.verify_with(map(sns.signing_key, pinned), envelope, now_ms=arrival.now_ms)
    url = envelope.fields.get("SigningCertURL")
    if not isinstance(url, str) or not is_certificate_url(url, envelope.topic_arn):
        return WRONG_URL
    pem = keys.get(url)
    if pem is None:
        return NeedKey(url)
    return sns.verify_with([sns.signing_key(pem)], envelope, now_ms=arrival.now_ms)


def host_of(topic_arn: str) -> str | None:
    """Give the one host that may sign for a topic, or None where that is no topic's ARN."""
    match = _TOPIC_ARN.fullmatch(topic_arn)
    if match is None:
        return None
    partition, region = match.groups()
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
    return host is not None and sns.is_confirmation_url(url, topic_arn, host=host)
