"""Amazon SES v2: https://docs.aws.amazon.com/ses/latest/APIReference-V2/API_SendEmail.html.

The whole message is given as MIME. SES replaces its Message-ID. No operation takes an idempotency
key, and none finds a mail by our id: the tag comes back in events of a configuration set, the
header in notifications that include headers.
"""

import re
from base64 import b64encode

from mailonce.core.events.event import Event
from mailonce.core.reading import values as reading
from mailonce.core.sends import answers, calls, correlate, header_text, sigv4
from mailonce.core.sends.mime import mime_of
from mailonce.core.sends.outgoing_mail import OutgoingMail
from mailonce.core.sends.sender import Sender
from mailonce.core.sends.sending import (
    ID_NAME,
    Correlation,
    Fault,
    HttpRequest,
    NotSent,
    ProviderAnswer,
    Sending,
    SendOutcome,
    TryAgain,
)

# The mail was not taken, and may be later: AWS itself repeats these.
THROTTLED = frozenset(
    {"TooManyRequestsException", "ThrottlingException", "Throttling", "RequestLimitExceeded"}
)
# Account, quota, identity or signature: the next mail would be refused as well.
OF_THE_SENDER = frozenset(
    """
    AccessDeniedException AccountSuspendedException ExpiredTokenException
    IncompleteSignature InvalidClientTokenId InvalidSignatureException LimitExceededException
    MailFromDomainNotVerifiedException MissingAuthenticationToken NotFoundException
    SendingPausedException SignatureDoesNotMatch UnrecognizedClientException
    """.split()  # noqa: SIM905
)
_OUTSIDE_TAGS = re.compile(r"[^A-Za-z0-9_-]")
_REGION = re.compile(r"[a-z]{2}(?:-[a-z]+)+-\d")


def build(mail: OutgoingMail, correlation: Correlation, sender: Sender) -> HttpRequest:
    tags = {ID_NAME: correlation.uuid}
    tags |= {f"tag{n}": tag for n, tag in enumerate(mail.tags, 1)} | dict(mail.metadata)
    body = {
        "Destination": {"ToAddresses": [header_text.ascii_domain(mail.to.address)]},
        "Content": {"Raw": {"Data": b64encode(mime_of(mail, correlation)).decode()}},
        "EmailTags": [
            {"Name": name, "Value": _OUTSIDE_TAGS.sub("_", value)[:256]}
            for name, value in tags.items()
            if value
        ],
        "ConfigurationSetName": sender.options.get("configuration_set"),
    }
    base = calls.base(sender, f"https://email.{sender.region}.amazonaws.com")
    return calls.json_post(f"{base}/v2/email/outbound-emails", calls.clean(body))


def authorize(request: HttpRequest, sender: Sender, now_ms: int) -> HttpRequest:
    """Sign for this minute: a signature of Amazon's is good for five."""
    return sigv4.signed(
        request,
        access_key=sender.username,
        secret_key=sender.password,
        token=calls.secret(sender),
        region=sender.region,
        service="ses",
        now_ms=now_ms,
    )


def read_answer(answer: ProviderAnswer) -> SendOutcome:
    body = answers.object_of(answer) or {}
    if answers.is_success(answer):
        message_id = reading.text_of(body.get("MessageId"), 400)
        return answers.taken(answer, message_id)
    kind = reading.word_of(answer.headers.get("x-amzn-errortype")) or reading.word_of(
        body.get("__type")
    )
    kind = kind.partition(":")[0].rpartition("#")[2]
    reason = answers.reason_of(answer.status, f"{kind} {answers.says(body)}")
    if kind in THROTTLED:
        return TryAgain(reason=reason, retry_after_ms=answers.wait_ms(answer))
    if kind in OF_THE_SENDER:
        return NotSent(reason=reason, fault=Fault.SENDER)
    return answers.refusal(answer, f"{kind} {answers.says(body)}")


def correlation_of(event: Event) -> str | None:
    """Read our tag, or our header; EventBridge has its own envelope around the mail."""
    raw = reading.mapping_of(event.raw)
    mail = reading.mapping_of(raw.get("mail") or reading.mapping_of(raw.get("detail")).get("mail"))
    headers = map(reading.mapping_of, reading.list_of(mail.get("headers")))
    return correlate.uuid_of(event) or correlate.uuid_in_headers(headers)


def check(sender: Sender) -> str | None:
    if not _REGION.fullmatch(sender.region):
        return "`region` must be one of Amazon's, such as eu-west-1"
    return None


SENDING = Sending(
    name="ses",
    title="Amazon SES",
    docs="https://docs.aws.amazon.com/ses/latest/APIReference-V2/API_SendEmail.html",
    build=build,
    authorize=authorize,
    read_answer=read_answer,
    correlation_of=correlation_of,
    check=check,
    needs=("username", "password", "region"),
    settings={
        "username": "the id of an access key",
        "password": "its secret access key",
        "region": "where the identity is verified, such as eu-west-1",
        "secret": "the session token, where the access key is a temporary one",
    },
    set_up=(
        "Set the option `configuration_set`, and let that set publish the event type Send, with "
        "the others, to the topic or bus of a source: it brings the send's id back."
    ),
    options={"configuration_set": "the configuration set whose events bring the send's id back"},
    # 40 MB after encoding, by its documentation.
    bytes_max=40_000_000,
    promise=(
        "It has no idempotency key and no lookup: a send whose answer was lost stays unknown until "
        "its Send event comes (a configuration set must publish it), else a person decides."
    ),
)
