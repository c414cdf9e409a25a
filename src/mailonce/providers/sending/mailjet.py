"""Mailjet: https://dev.mailjet.com/email/guides/send-api-v31/.

There is no idempotency key, but `CustomID` carries our id: it comes back in every event, and a
message is found by it. Each message of a call has a status of its own, in a 200 or in a 400.
"""

from typing import Any

import orjson

from mailonce.core.events.event import Event
from mailonce.core.reading import values as reading
from mailonce.core.sends import answers, calls, correlate, header_text
from mailonce.core.sends.outgoing_mail import Mailbox, OutgoingAttachment, OutgoingMail
from mailonce.core.sends.sender import Sender
from mailonce.core.sends.sending import (
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
)

HOSTS = {"": "https://api.mailjet.com", "us": "https://api.us.mailjet.com"}
OF_THE_SENDER = frozenset({"401", "402", "403"})


def build(mail: OutgoingMail, correlation: Correlation, sender: Sender) -> HttpRequest:
    files, inline = calls.files_and_inline(mail)
    message = {
        "From": _mailbox(mail.from_),
        "To": [_mailbox(mail.to)],
        "ReplyTo": _mailbox(mail.reply_to[0]) if mail.reply_to else None,
        "Subject": mail.subject,
        "TextPart": mail.text,
        "HTMLPart": mail.html,
        "CustomID": correlation.uuid,
        "EventPayload": orjson.dumps(dict(mail.metadata)).decode() if mail.metadata else None,
        "CustomCampaign": mail.tags[0] if mail.tags else None,
        "Headers": calls.headers_of(mail, correlation),
        "Attachments": [_file(one) for one in files],
        "InlinedAttachments": [_file(one) for one in inline],
    }
    return calls.json_post(f"{_base(sender)}/v3.1/send", {"Messages": [calls.clean(message)]})


def authorize(request: HttpRequest, sender: Sender, now_ms: int) -> HttpRequest:
    del now_ms
    return calls.basic(request, sender.username, sender.password)


def read_answer(answer: ProviderAnswer) -> SendOutcome:
    body = answers.object_of(answer) or {}
    messages = reading.list_of(body.get("Messages"))
    message = reading.mapping_of(messages[0] if len(messages) == 1 else None)
    errors = reading.list_of(message.get("Errors"))
    if message.get("Status") == "success" and answers.is_success(answer):
        to = reading.list_of(message.get("To"))
        first = reading.mapping_of(to[0] if to else None)
        # A number of 64 bits: as a text it survives every reader of JSON.
        message_id = reading.text_of(first.get("MessageID"), 400)
        return Accepted(message_id=message_id, evidence="status success")
    if message.get("Status") == "error" and answer.status < 500:
        code = reading.text_of(reading.mapping_of(errors[0] if errors else None).get("StatusCode"))
        fault = Fault.SENDER if code in OF_THE_SENDER else Fault.MESSAGE
        reason = answers.reason_of(answer.status, answers.says(list(errors)))
        return NotSent(reason=reason, fault=fault)
    # Of several messages the status is that of the worst.
    is_partial = any(reading.mapping_of(one).get("Status") == "success" for one in messages)
    if answers.is_success(answer) or is_partial:
        return answers.unreadable(answer)
    return answers.refusal(answer, answers.says(body))


def lookup(correlation: Correlation, sender: Sender, facts: SendFacts) -> HttpRequest:
    del facts
    query: dict[str, str | int] = {
        "CustomID": correlation.uuid,
        "Limit": 10,
        "ShowCustomID": "true",
    }
    return calls.get(f"{_base(sender)}/v3/REST/message", query)


def read_lookup(
    answer: ProviderAnswer, correlation: Correlation, facts: SendFacts
) -> LookupOutcome:
    """Compare what was found: a filter that Mailjet does not know would find everything."""
    del facts
    return answers.read_lookup(
        answer,
        "Data",
        is_ours=lambda item: correlate.as_uuid(item.get("CustomID")) == correlation.uuid,
        message_id=lambda item: item.get("ID"),
    )


def correlation_of(event: Event) -> str | None:
    return correlate.as_uuid(event.metadata.get("CustomID")) or correlate.uuid_of(event)


def check(sender: Sender) -> str | None:
    return None if sender.region in HOSTS else "`region` must be us, or left out"


def _base(sender: Sender) -> str:
    return calls.base(sender, HOSTS.get(sender.region, HOSTS[""]))


def _mailbox(mailbox: Mailbox) -> dict[str, str]:
    address = {"Email": header_text.ascii_domain(mailbox.address)}
    return {**address, "Name": mailbox.name} if mailbox.name else address


def _file(attachment: OutgoingAttachment) -> dict[str, Any]:
    file = {
        "ContentType": attachment.type,
        "Filename": attachment.name,
        "Base64Content": calls.content(attachment),
    }
    return file if attachment.content_id is None else {**file, "ContentID": attachment.content_id}


SENDING = Sending(
    name="mailjet",
    title="Mailjet",
    docs="https://dev.mailjet.com/email/guides/send-api-v31/",
    build=build,
    authorize=authorize,
    read_answer=read_answer,
    lookup=lookup,
    read_lookup=read_lookup,
    correlation_of=correlation_of,
    check=check,
    needs=("username", "password"),
    settings={
        "username": "the API key",
        "password": "the secret key",
        "region": "us for an account there; default: all others",
    },
    bytes_max=15 << 20,
    promise=(
        "It has no idempotency key, but messages are found by the send's id: a send whose answer "
        "was lost is found there or by one of its events; absence proves nothing."
    ),
)
