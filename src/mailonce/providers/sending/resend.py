"""Resend: https://resend.com/docs/api-reference/emails/send-email.

The Idempotency-Key is a header of HTTP: the `headers` of the body are those of the mail. It is kept
for 24 hours, and the body is compared with it, byte for byte as far as anybody knows.
"""

import re
from typing import Any

from mailonce.core.reading import values as reading
from mailonce.core.sends import answers, calls, correlate, header_text
from mailonce.core.sends.outgoing_mail import OutgoingAttachment, OutgoingMail
from mailonce.core.sends.sender import Sender
from mailonce.core.sends.sending import (
    ID_NAME,
    Correlation,
    Fault,
    HttpRequest,
    NativeKey,
    NotSent,
    ProviderAnswer,
    Sending,
    SendOutcome,
    TryAgain,
    Unknown,
)

HOST = "https://api.resend.com"
# The first call with this key is still running.
CONCURRENT = "concurrent_idempotent_requests"
CONCURRENT_WAIT_MS = 2_000
QUOTAS = frozenset({"daily_quota_exceeded", "monthly_quota_exceeded"})
QUOTA_WAIT_MS = 3_600_000
# A revoked key is told as a `validation_error`, with a status that its documents do not name.
_API_KEY = "api key"
_OUTSIDE_TAGS = re.compile(r"[^A-Za-z0-9_-]")


def build(mail: OutgoingMail, correlation: Correlation, sender: Sender) -> HttpRequest:
    tags = {ID_NAME: correlation.uuid}
    tags |= {f"tag{n}": tag for n, tag in enumerate(mail.tags, 1)} | dict(mail.metadata)
    body = {
        "from": header_text.with_name(mail.from_),
        "to": [header_text.with_name(mail.to)],
        "reply_to": [header_text.with_name(one) for one in mail.reply_to],
        "subject": mail.subject,
        "text": mail.text,
        "html": mail.html,
        "headers": calls.headers_of(mail, correlation),
        "tags": [
            {"name": name, "value": _OUTSIDE_TAGS.sub("_", value)[:256]}
            for name, value in tags.items()
            if value
        ],
        "attachments": [_attachment(one) for one in mail.attachments],
    }
    key = ("Idempotency-Key", correlation.uuid)
    return calls.json_post(f"{calls.base(sender, HOST)}/emails", calls.clean(body), key)


def read_answer(answer: ProviderAnswer) -> SendOutcome:
    body = answers.object_of(answer)
    if answers.is_success(answer):
        message_id = None if body is None else reading.text_of(body.get("id"), 400)
        return answers.taken(answer, message_id)
    name = reading.word_of((body or {}).get("name"))
    reason = answers.reason_of(answer.status, answers.says(body))
    if name == CONCURRENT:
        return Unknown(reason=reason, retry_after_ms=CONCURRENT_WAIT_MS)
    if name in QUOTAS:
        return TryAgain(reason=reason, retry_after_ms=QUOTA_WAIT_MS)
    if 400 <= answer.status < 500 and _API_KEY in answers.says(body).lower():
        return NotSent(reason=reason, fault=Fault.SENDER)
    # Any other 409 says that the key stands for other bytes: the first call may have sent its mail.
    return answers.refusal(answer, answers.says(body))


def _attachment(attachment: OutgoingAttachment) -> dict[str, Any]:
    file = {
        "filename": attachment.name,
        "content": calls.content(attachment),
        "content_type": attachment.type,
        "content_id": attachment.content_id,
    }
    return {name: value for name, value in file.items() if value is not None}


SENDING = Sending(
    name="resend",
    title="Resend",
    docs="https://resend.com/docs/api-reference/emails/send-email",
    build=build,
    authorize=calls.bearer,
    read_answer=read_answer,
    native=NativeKey(window_s=24 * 3600, safe_s=19 * 3600),
    correlation_of=correlate.uuid_of,
    needs=("secrets",),
    settings={
        "secret": "an API key",
    },
    bytes_max=40_000_000,
    promise=(
        "Its own idempotency key holds for 24 hours: within 19 of them an unknown send is repeated "
        "with the same bytes and cannot be doubled; later, one of its events or a person decides."
    ),
)
