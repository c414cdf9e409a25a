"""Postal (self-hosted): https://docs.postalserver.io/developer/api.

The whole message is given as MIME, so our Message-ID stays and comes back in webhooks. There is no
idempotency key and no search. The status of a call is in its body: every answer is a 200.
"""

from base64 import b64encode

from mailonce.core.events.event import Event
from mailonce.core.reading import values as reading
from mailonce.core.sends import answers, calls, correlate, header_text
from mailonce.core.sends.mime import mime_of
from mailonce.core.sends.outgoing_mail import OutgoingMail
from mailonce.core.sends.sender import Sender
from mailonce.core.sends.sending import (
    Accepted,
    Correlation,
    Fault,
    HttpRequest,
    NotSent,
    ProviderAnswer,
    Sending,
    SendOutcome,
)

TAG_HEADER = "X-Postal-Tag"
# What the status says where nothing was taken.
REFUSED = frozenset({"error", "parameter-error"})
OF_THE_SENDER = frozenset(
    {"AccessDenied", "InvalidServerAPIKey", "ServerSuspended", "UnauthenticatedFromAddress"}
)


def build(mail: OutgoingMail, correlation: Correlation, sender: Sender) -> HttpRequest:
    # There is one tag; the Message-ID brings our id back where it is the sender's own.
    tag = mail.tags[0] if mail.tags else correlate.tag_of(correlation)
    message = mime_of(mail, correlation, [(TAG_HEADER, tag)])
    body = {
        "mail_from": header_text.ascii_domain(mail.from_.address),
        "rcpt_to": [header_text.ascii_domain(mail.to.address)],
        "data": b64encode(message).decode(),
    }
    return calls.json_post(f"{calls.base(sender, '')}/api/v1/send/raw", body)


def authorize(request: HttpRequest, sender: Sender, now_ms: int) -> HttpRequest:
    del now_ms
    return calls.with_headers(request, ("X-Server-API-Key", calls.secret(sender)))


def read_answer(answer: ProviderAnswer) -> SendOutcome:
    if not answers.is_success(answer):
        return answers.refusal(answer)
    body = answers.object_of(answer) or {}
    data, status = reading.mapping_of(body.get("data")), reading.word_of(body.get("status"))
    if status == "success":
        messages = list(reading.mapping_of(data.get("messages")).values())
        first = reading.mapping_of(messages[0] if messages else None)
        message_id = reading.text_of(first.get("id"), 400)
        return Accepted(message_id=message_id, evidence="status success")
    if status in REFUSED:
        code = reading.word_of(data.get("code"))
        fault = Fault.SENDER if code in OF_THE_SENDER else Fault.MESSAGE
        return NotSent(reason=answers.reason_of(answer.status, answers.says(data)), fault=fault)
    return answers.unreadable(answer)


def correlation_of(event: Event) -> str | None:
    """Read our tag, or the part of our Message-ID before the @ where that is a send's id."""
    uuid = correlate.uuid_of(event)
    if uuid is not None:
        return uuid
    content = reading.mapping_of(reading.mapping_of(event.raw).get("payload"))
    message = reading.mapping_of(content.get("original_message") or content.get("message"))
    return correlate.as_uuid(reading.word_of(message.get("message_id")).strip("<>").split("@")[0])


SENDING = Sending(
    name="postal",
    title="Postal",
    docs="https://docs.postalserver.io/developer/api",
    build=build,
    authorize=authorize,
    read_answer=read_answer,
    correlation_of=correlation_of,
    needs=("secrets", "endpoint"),
    settings={
        "secret": "an API credential of the mail server",
        "endpoint": "the URL of your Postal, without a path",
    },
    bytes_max=14 << 20,
    promise=(
        "It has no idempotency key and no search: a send whose answer was lost stays unknown until "
        "one of its events comes, else a person decides."
    ),
)
