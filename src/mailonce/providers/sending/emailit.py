"""Emailit: https://emailit.com/docs/api-reference/emails/.

The Idempotency-Key holds for 24 hours after the first success. The body is not compared: others
under a known key would get the old answer, and silently not be sent; a send's bytes are frozen.
"""

from typing import Any

from mailonce.core.reading import values as reading
from mailonce.core.sends import answers, calls, correlate, header_text
from mailonce.core.sends.outgoing_mail import OutgoingAttachment, OutgoingMail
from mailonce.core.sends.sender import Sender
from mailonce.core.sends.sending import (
    ID_NAME,
    Correlation,
    HttpRequest,
    NativeKey,
    ProviderAnswer,
    Sending,
    SendOutcome,
    Unknown,
)

HOST = "https://api.emailit.com"
CONCURRENT_WAIT_MS = 2_000


def build(mail: OutgoingMail, correlation: Correlation, sender: Sender) -> HttpRequest:
    body = {
        "from": header_text.with_name(mail.from_),
        "to": header_text.with_name(mail.to),
        "reply_to": [header_text.with_name(one) for one in mail.reply_to],
        "subject": mail.subject,
        "text": mail.text,
        "html": mail.html,
        "headers": calls.headers_of(mail, correlation),
        "meta": {ID_NAME: correlation.uuid, **mail.metadata},
        "attachments": [_attachment(one) for one in mail.attachments],
    }
    key = ("Idempotency-Key", correlation.uuid)
    return calls.json_post(f"{calls.base(sender, HOST)}/v2/emails", calls.clean(body), key)


def read_answer(answer: ProviderAnswer) -> SendOutcome:
    body = answers.object_of(answer)
    if answers.is_success(answer):
        ids = list(reading.mapping_of((body or {}).get("ids")).values())
        message_id = reading.text_of((body or {}).get("id") or (ids[0] if ids else None), 400)
        return answers.taken(answer, message_id)
    words = answers.says(body)
    if answer.status == 409:
        # The first call with this key is still running.
        reason = answers.reason_of(answer.status, words)
        return Unknown(reason=reason, retry_after_ms=CONCURRENT_WAIT_MS)
    return answers.refusal(answer, words)


def _attachment(attachment: OutgoingAttachment) -> dict[str, Any]:
    file = {
        "filename": attachment.name,
        "content": calls.content(attachment),
        "content_type": attachment.type,
        "content_id": attachment.content_id,
    }
    return {name: value for name, value in file.items() if value is not None}


SENDING = Sending(
    name="emailit",
    title="Emailit",
    docs="https://emailit.com/docs/api-reference/emails/",
    build=build,
    authorize=calls.bearer,
    read_answer=read_answer,
    native=NativeKey(window_s=24 * 3600, safe_s=19 * 3600),
    correlation_of=correlate.uuid_of,
    needs=("secrets",),
    settings={
        "secret": "an API key",
    },
    bytes_max=40 << 20,
    promise=(
        "Its own idempotency key holds for 24 hours: within 19 of them an unknown send is repeated "
        "with the same bytes and cannot be doubled; later, one of its events or a person decides."
    ),
)
