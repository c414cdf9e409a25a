"""Mailtrap: https://docs.mailtrap.io/developers/email-sending.

There is no idempotency key. Custom variables come back in events and in the email logs. These can
be searched by recipient; a filter that they do not know is ignored.
"""

from typing import Any
from urllib.parse import quote

from mailonce.core.moment import moment
from mailonce.core.reading import values as reading
from mailonce.core.sends import answers, calls, correlate, header_text
from mailonce.core.sends.outgoing_mail import OutgoingAttachment, OutgoingMail
from mailonce.core.sends.sender import Sender
from mailonce.core.sends.sending import (
    ID_NAME,
    Accepted,
    Correlation,
    HttpRequest,
    LookupOutcome,
    NotSent,
    ProviderAnswer,
    SendFacts,
    Sending,
    SendOutcome,
)

HOST = "https://send.api.mailtrap.io"
BULK_HOST = "https://bulk.api.mailtrap.io"
LOG_HOST = "https://mailtrap.io"
MARGIN_MS = 600_000


def build(mail: OutgoingMail, correlation: Correlation, sender: Sender) -> HttpRequest:
    body = {
        "from": calls.email_and_name(mail.from_),
        "to": [calls.email_and_name(mail.to)],
        "reply_to": calls.email_and_name(mail.reply_to[0]) if mail.reply_to else None,
        "subject": mail.subject,
        "text": mail.text,
        "html": mail.html,
        "category": mail.tags[0] if mail.tags else None,
        "custom_variables": {ID_NAME: correlation.uuid, **mail.metadata},
        "headers": calls.headers_of(mail, correlation),
        "attachments": [_attachment(one) for one in mail.attachments],
    }
    host = BULK_HOST if sender.options.get("bulk") is True else HOST
    return calls.json_post(f"{calls.base(sender, host)}/api/send", calls.clean(body))


def read_answer(answer: ProviderAnswer) -> SendOutcome:
    body = answers.object_of(answer)
    words = answers.says((body or {}).get("errors"))
    if not answers.is_success(answer):
        return answers.refusal(answer, words or answers.says(body))
    if body is None or not isinstance(body.get("success"), bool):
        return answers.unreadable(answer)
    if not body["success"]:
        return NotSent(reason=answers.reason_of(answer.status, words))
    ids = reading.texts_of(body.get("message_ids"))
    return Accepted(message_id=ids[0] if ids else None, evidence="success")


def lookup(correlation: Correlation, sender: Sender, facts: SendFacts) -> HttpRequest:
    del correlation
    account = reading.text_of(sender.options.get("account_id"), 50)
    path = f"/api/accounts/{quote(account, safe='')}" if account is not None else "/api"
    query: dict[str, str | int] = {
        "filters[sent_after]": moment(facts.first_call_ms - MARGIN_MS),
        "filters[to][operator]": "ci_equal",
        "filters[to][value]": header_text.ascii_domain(facts.recipient),
    }
    return calls.get(f"{calls.base(sender, LOG_HOST)}{path}/email_logs", query)


def read_lookup(
    answer: ProviderAnswer, correlation: Correlation, facts: SendFacts
) -> LookupOutcome:
    del facts
    return answers.read_lookup(
        answer,
        "messages",
        is_ours=lambda item: correlate.is_in(item.get("custom_variables"), correlation),
        message_id=lambda item: item.get("message_id"),
    )


def check(sender: Sender) -> str | None:
    if not isinstance(sender.options.get("bulk", False), bool):
        return "option `bulk` must be true or false"
    return None


def _attachment(attachment: OutgoingAttachment) -> dict[str, Any]:
    file = {
        "content": calls.content(attachment),
        "type": attachment.type,
        "filename": attachment.name,
        "disposition": "attachment" if attachment.content_id is None else "inline",
    }
    return file if attachment.content_id is None else {**file, "content_id": attachment.content_id}


SENDING = Sending(
    name="mailtrap",
    title="Mailtrap",
    docs="https://docs.mailtrap.io/developers/email-sending",
    build=build,
    authorize=calls.bearer,
    read_answer=read_answer,
    lookup=lookup,
    read_lookup=read_lookup,
    correlation_of=correlate.uuid_of,
    check=check,
    needs=("secrets",),
    settings={
        "secret": "an API token of the domain",
    },
    options={
        "account_id": "Mailtrap's id of the account, where its token needs one for lookups",
        "bulk": "true to send by the bulk stream",
    },
    bytes_max=10 << 20,
    promise=(
        "It has no idempotency key, but its email logs show the send's id: a send whose answer was "
        "lost is found there or by one of its events; absence proves nothing."
    ),
)
