"""Amazon SES receiving: https://docs.aws.amazon.com/ses/latest/dg/receiving-email-notifications-contents.html.

A receipt rule's SNS action publishes the mail itself (up to 150 KB, choose Base64: UTF-8 loses
bytes); its S3 action stores the mail (up to 40 MB) and publishes where. One notification may be for
several recipients, those that the rule matched.
"""

import hmac
import re
from collections.abc import Mapping
from hashlib import sha256
from typing import Any
from urllib.parse import quote, urlsplit

from mailonce.core.arrivals.mail_fetch import (
    NO_KEY,
    FetchFlow,
    FetchProblem,
    FetchRequest,
    MailFetch,
    status_problem,
    with_credential,
)
from mailonce.core.arrivals.provider import InboundHook
from mailonce.core.arrivals.source import Source
from mailonce.core.mail.incoming import (
    Authentication,
    AuthenticationCheck,
    ContentFormat,
    FetchContent,
    IncomingMail,
    MailContent,
    MimeContent,
    SpamVerdict,
)
from mailonce.core.moment import moment
from mailonce.core.reading import mail_fields, values
from mailonce.core.text import UNSTORABLE
from mailonce.errors import ParseError

WHAT = "ses.object"
RECEIVED = "Received"
VERDICTS = {"PASS": "pass", "FAIL": "fail"}
# Any other verdict (GRAY, PROCESSING_FAILED, DISABLED) leaves it open.
IS_BAD = {"PASS": False, "FAIL": True}

# https://docs.aws.amazon.com/AmazonS3/latest/API/sig-v4-header-based-auth.html
_ALGORITHM = "AWS4-HMAC-SHA256"
_NO_BODY = sha256().hexdigest()
_COMPACT = str.maketrans("", "", "-:")

_BUCKET = re.compile(r"[a-z0-9][a-z0-9.-]{1,61}[a-z0-9]")
_REGION = re.compile(r"[a-z]{2}(?:-[a-z]+)+-[0-9]{1,2}")
_TOPIC_REGION = re.compile(r"arn:aws[a-z-]*:sns:([a-z0-9-]{1,30}):")


def parse_mail(
    message: Mapping[str, Any], source: Source, *, topic_arn: str
) -> IncomingMail | None:
    """Read the mail of a notification; None where it is about none, or brings nothing of it.

    Raises: ParseError where its content is not in the encoding that it claims.
    """
    if message.get("notificationType") != RECEIVED:
        return None
    mail, receipt = (values.mapping_of(message.get(name)) for name in ("mail", "receipt"))
    content = _content(message, values.mapping_of(receipt.get("action")), source, topic_arn)
    if content is None:
        return None
    return IncomingMail(
        envelope=mail_fields.envelope_of(mail.get("source"), receipt.get("recipients")),
        content=content,
        delivery_id=values.text_of(mail.get("messageId"), 200),
        authentication=_authentication(receipt),
        spam=_spam(receipt),
        is_signed=source.is_signed,
    )


def _content(
    message: Mapping[str, Any], action: Mapping[str, Any], source: Source, topic_arn: str
) -> MailContent | None:
    text = message.get("content")
    if isinstance(text, str) and text:
        encoding = values.word_of(action.get("encoding")).upper()
        # Older rules do not name it. A mail has a colon in its first line; Base64 has none at all.
        is_base64 = encoding == "BASE64" or (not encoding and ":" not in text)
        return mail_fields.mime_in_base64(text) if is_base64 else mail_fields.mime_of(text)
    bucket, key = (values.word_of(action.get(name)) for name in ("bucketName", "objectKey"))
    if action.get("type") != "S3" or not bucket:
        return None
    region = values.word_of(source.options.get("s3_region")) or _region_of(topic_arn, source)
    if not _BUCKET.fullmatch(bucket) or not _is_key(key):
        raise ParseError("the notification names no object in S3")
    arguments = {"bucket": bucket, "key": key, "region": region}
    return FetchContent(what=WHAT, arguments=arguments)


def _region_of(topic_arn: str, source: Source) -> str:
    """Give the topic's region, where SES stores mail unless the option `s3_region` says else."""
    arns = (topic_arn, *source.topic_arns)
    regions = (one[1] for one in map(_TOPIC_REGION.match, arns) if one is not None)
    return next(regions, "")


def _authentication(receipt: Mapping[str, Any]) -> Authentication | None:
    spf, dkim = _check(receipt, "spfVerdict"), _check(receipt, "dkimVerdict")
    policy = values.text_of(receipt.get("dmarcPolicy"), 60)
    dmarc = _check(receipt, "dmarcVerdict", detail=None if policy is None else f"policy {policy}")
    if spf is None and dkim is None and dmarc is None:
        return None
    return Authentication(spf=spf, dkim=() if dkim is None else (dkim,), dmarc=dmarc)


def _spam(receipt: Mapping[str, Any]) -> SpamVerdict | None:
    is_spam, has_virus = (
        IS_BAD.get(_status(receipt, name)) for name in ("spamVerdict", "virusVerdict")
    )
    if is_spam is None and has_virus is None:
        return None
    return SpamVerdict(is_spam=is_spam, has_virus=has_virus, engine="Amazon SES")


def _check(
    receipt: Mapping[str, Any], name: str, *, detail: str | None = None
) -> AuthenticationCheck | None:
    status = _status(receipt, name)
    if not status:
        return None
    result = mail_fields.result_of(VERDICTS.get(status, "unknown"))
    return AuthenticationCheck(result=result, detail=detail)


def _status(receipt: Mapping[str, Any], name: str) -> str:
    return values.word_of(values.mapping_of(receipt.get(name)).get("status")).upper()


def fetch_object(arguments: Mapping[str, Any], source: Source) -> FetchFlow:
    """Fetch a mail from S3."""
    del source
    bucket, key, region = (
        values.word_of(arguments.get(name)) for name in ("bucket", "key", "region")
    )
    if not _BUCKET.fullmatch(bucket) or not _is_key(key) or not _REGION.fullmatch(region):
        return FetchProblem(
            reason="the object's bucket, key or region is none; set the option `s3_region`",
            is_final=True,
        )
    # The bucket stands in the path: as part of the host its name would choose whom we ask.
    answer = yield FetchRequest(url=f"https://{_host(region)}/{bucket}/{quote(key, safe='/~')}")
    problem = status_problem(answer)
    return MimeContent(answer.body) if problem is None else problem


def authorize(request: FetchRequest, source: Source, now_ms: int) -> FetchRequest | FetchProblem:
    """Sign a request to S3; `api_key` is "ID:secret", or "ID:secret:token" of temporary keys."""
    if not source.api_keys:
        return NO_KEY
    access, _, rest = source.api_keys[0].partition(":")
    secret, _, token = rest.partition(":")
    if not access or not secret:
        return FetchProblem(reason="the source's `api_key` must be an access key as 'ID:secret'")
    parts = urlsplit(request.url)
    at = moment(now_ms // 1000 * 1000).translate(_COMPACT).replace(".000", "")
    headers = {"host": parts.netloc, "x-amz-content-sha256": _NO_BODY, "x-amz-date": at}
    headers |= {"x-amz-security-token": token} if token else {}
    names = ";".join(headers)
    lines = [f"{name}:{value}" for name, value in headers.items()]
    canonical = "\n".join(["GET", parts.path, "", *lines, "", names, _NO_BODY])
    scope = f"{at[:8]}/{parts.netloc.split('.')[1]}/s3/aws4_request"
    signed = "\n".join([_ALGORITHM, at, scope, sha256(canonical.encode()).hexdigest()])
    key = f"AWS4{secret}".encode()
    for part in scope.split("/"):
        key = hmac.digest(key, part.encode(), "sha256")
    signature = hmac.digest(key, signed.encode(), "sha256").hex()
    proof = f"Credential={access}/{scope}, SignedHeaders={names}, Signature={signature}"
    sent = tuple((name, value) for name, value in headers.items() if name != "host")
    signed_request = FetchRequest(url=request.url, headers=(*request.headers, *sent))
    return with_credential(signed_request, "authorization", f"{_ALGORITHM} {proof}")


def _is_key(key: str) -> bool:
    """Say whether a key leads to an object, and no part of it can lead elsewhere."""
    is_storable = UNSTORABLE.search(key) is None
    return is_storable and 0 < len(key.encode()) <= 1024 and {".", ".."}.isdisjoint(key.split("/"))


def _host(region: str) -> str:
    return f"s3.{region}.amazonaws.com" + (".cn" if region.startswith("cn-") else "")


INBOUND = InboundHook(
    docs="https://docs.aws.amazon.com/ses/latest/dg/receiving-email-notifications-contents.html",
    content=(ContentFormat.MIME, ContentFormat.FETCH),
    envelope="`mail.source`, `receipt.recipients`",
    signs_mail=True,
    delivery_id="mail.messageId",
    retry_horizon_s=3600,
    differences=(
        "An SNS action with the encoding UTF-8 loses bytes that are none; choose Base64.",
        "Of a mail in S3 the notification is signed, the object is not.",
    ),
    fetches=(MailFetch(what=WHAT, begin=fetch_object, authorize=authorize),),
)
