"""Postmark: https://postmarkapp.com/developer/api/email-api.

There is no idempotency key, but outbound messages can be searched by our own metadata. An error has
a code of Postmark's own beside the status. A 500 mostly means that the mail was lost, not always.
"""

from collections.abc import Mapping
from typing import Any

from mailonce.core.reading import values as reading
from mailonce.core.sends import answers, calls, correlate, header_text
from mailonce.core.sends.outgoing_mail import OutgoingAttachment, OutgoingMail
from mailonce.core.sends.sender import Sender
from mailonce.core.sends.sending import (
    ID_NAME,
    Accepted,
    Correlation,
    Fault,
    HttpRequest,
    LookupOutcome,
    NotSent,
    ProviderAnswer,
    SendFacts,
    Sending,
    SendOutcome,
    TryAgain,
)

HOST = "https://api.postmarkapp.com"
# https://postmarkapp.com/developer/api/overview#error-codes
MAINTENANCE = 100
# Token, signature, approval, credits, stream: the next mail would be refused as well.
METADATA_MAX = 10
METADATA_NAME_CHARS_MAX = 20
METADATA_VALUE_CHARS_MAX = 80
OF_THE_SENDER = frozenset({10, 400, 401, 402, 405, 412, 413, 1226, 1235})


def build(mail: OutgoingMail, correlation: Correlation, sender: Sender) -> HttpRequest:
    # Without the second header Postmark replaces the first.
    headers = {"Message-ID": mail.message_id, "X-PM-KeepID": "true"}
    headers |= calls.headers_of(mail, correlation)
    body = {
        "From": header_text.with_name(mail.from_),
        "To": header_text.with_name(mail.to),
        "ReplyTo": ", ".join(map(header_text.with_name, mail.reply_to)),
        "Subject": mail.subject,
        "TextBody": mail.text,
        "HtmlBody": mail.html,
        "Tag": mail.tags[0] if mail.tags else None,
        "Metadata": {ID_NAME: correlation.uuid, **mail.metadata},
        "MessageStream": sender.options.get("message_stream"),
        "Headers": [{"Name": name, "Value": value} for name, value in headers.items()],
        "Attachments": [_attachment(one) for one in mail.attachments],
    }
    accept = ("Accept", "application/json")
    return calls.json_post(f"{calls.base(sender, HOST)}/email", calls.clean(body), accept)


def authorize(request: HttpRequest, sender: Sender, now_ms: int) -> HttpRequest:
    del now_ms
    return calls.with_headers(request, ("X-Postmark-Server-Token", calls.secret(sender)))


def read_answer(answer: ProviderAnswer) -> SendOutcome:
    body = answers.object_of(answer)
    given = (body or {}).get("ErrorCode")
    code = given if isinstance(given, int) else None
    if answers.is_success(answer):
        if body is None or code is None:
            return answers.unreadable(answer)
        if code == 0:
            message_id = reading.text_of(body.get("MessageID"), 400)
            return Accepted(message_id=message_id, evidence="ErrorCode 0")
    words = answers.says(body)
    reason = answers.reason_of(answer.status, words)
    if code == MAINTENANCE:
        return TryAgain(reason=reason, retry_after_ms=answers.wait_ms(answer))
    if not answers.is_success(answer) and answer.status != 422:
        return answers.refusal(answer, words)
    return NotSent(reason=reason, fault=Fault.SENDER if code in OF_THE_SENDER else Fault.MESSAGE)


def check_metadata(metadata: Mapping[str, str]) -> str | None:
    """https://postmarkapp.com/support/article/1125-custom-metadata-faq; one field is our id."""
    if len(metadata) >= METADATA_MAX:
        return (
            f"`metadata` has {len(metadata)} fields, and Postmark takes {METADATA_MAX - 1} beside "
            "the send's id; take some away"
        )
    seen: set[str] = set()
    for name, value in metadata.items():
        if name.lower() in seen:
            return f"`metadata` has {name!r} twice for Postmark, which ignores case; rename one"
        seen.add(name.lower())
        if len(name) > METADATA_NAME_CHARS_MAX:
            return (
                f"`metadata` has the name {name!r} of {len(name)} characters, and Postmark takes "
                f"{METADATA_NAME_CHARS_MAX}; shorten it"
            )
        if len(value) > METADATA_VALUE_CHARS_MAX:
            return (
                f"`metadata` has a value of {len(value)} characters for {name!r}, and Postmark "
                f"takes {METADATA_VALUE_CHARS_MAX}; shorten it"
            )
    return None


def lookup(correlation: Correlation, sender: Sender, facts: SendFacts) -> HttpRequest:
    del facts
    query: dict[str, str | int] = {"count": 10, "offset": 0}
    query[f"metadata_{ID_NAME}"] = correlation.uuid
    request = calls.get(f"{calls.base(sender, HOST)}/messages/outbound", query)
    return calls.with_headers(request, ("Accept", "application/json"))


def read_lookup(
    answer: ProviderAnswer, correlation: Correlation, facts: SendFacts
) -> LookupOutcome:
    """Compare what was found: a filter that Postmark does not know would find everything."""
    del facts
    return answers.read_lookup(
        answer,
        "Messages",
        is_ours=lambda item: correlate.is_in(item.get("Metadata"), correlation),
        message_id=lambda item: item.get("MessageID"),
    )


def _attachment(attachment: OutgoingAttachment) -> dict[str, Any]:
    file: dict[str, Any] = {
        "Name": attachment.name,
        "Content": calls.content(attachment),
        "ContentType": attachment.type,
    }
    if attachment.content_id is not None:
        file["ContentID"] = f"cid:{attachment.content_id}"
    return file


SENDING = Sending(
    name="postmark",
    title="Postmark",
    docs="https://postmarkapp.com/developer/api/email-api",
    build=build,
    authorize=authorize,
    read_answer=read_answer,
    lookup=lookup,
    read_lookup=read_lookup,
    correlation_of=correlate.uuid_of,
    check_metadata=check_metadata,
    needs=("secrets",),
    settings={
        "secret": "the server's API token",
    },
    options={"message_stream": "the stream of Postmark's that mail goes out by"},
    bytes_max=10 << 20,
    promise=(
        "It has no idempotency key, but its messages can be searched by the send's id: a send "
        "whose answer was lost is found there or by one of its events; absence proves nothing."
    ),
)
