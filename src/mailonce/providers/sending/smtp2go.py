"""SMTP2GO: https://developers.smtp2go.com/reference/send-standard-email.

There is no idempotency key. A failure may be inside a 200. A header carries our id: webhooks have
it where they are set up to, and a search of the account's activity can show it.
"""

from typing import Any

import orjson

from mailonce.core.moment import moment
from mailonce.core.reading import values as reading
from mailonce.core.sends import answers, calls, correlate, header_text
from mailonce.core.sends.outgoing_mail import OutgoingAttachment, OutgoingMail
from mailonce.core.sends.sender import Sender
from mailonce.core.sends.sending import (
    ID_HEADER,
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

HOSTS = {
    "": "https://api.smtp2go.com",
    "us": "https://us-api.smtp2go.com",
    "eu": "https://eu-api.smtp2go.com",
    "au": "https://au-api.smtp2go.com",
}
MARGIN_MS = 600_000
# The words of an error code that blame key, plan or domain.
OF_THE_SENDER = ("API_KEY", "APIKEY", "PERMISSION", "ACCOUNT", "AUTH", "SENDER", "QUOTA")


def build(mail: OutgoingMail, correlation: Correlation, sender: Sender) -> HttpRequest:
    files, inline = calls.files_and_inline(mail)
    headers = calls.headers_of(mail, correlation)
    if mail.reply_to:
        headers["Reply-To"] = ", ".join(map(header_text.with_name, mail.reply_to))
    body = {
        "sender": header_text.with_name(mail.from_),
        "to": [header_text.with_name(mail.to)],
        "subject": mail.subject,
        "text_body": mail.text,
        "html_body": mail.html,
        "custom_headers": [{"header": name, "value": value} for name, value in headers.items()],
        "attachments": [_file(one, one.name) for one in files],
        "inlines": [_file(one, one.content_id or "") for one in inline],
    }
    return calls.json_post(f"{_base(sender)}/email/send", calls.clean(body))


def authorize(request: HttpRequest, sender: Sender, now_ms: int) -> HttpRequest:
    del now_ms
    return calls.with_headers(request, ("X-Smtp2go-Api-Key", calls.secret(sender)))


def read_answer(answer: ProviderAnswer) -> SendOutcome:
    body = answers.object_of(answer)
    data = reading.mapping_of((body or {}).get("data"))
    words = answers.says(data) or answers.says(reading.list_of(data.get("failures")))
    if not answers.is_success(answer):
        return answers.refusal(answer, words)
    if "error" in data or "error_code" in data:
        code = reading.word_of(data.get("error_code")).upper()
        fault = Fault.SENDER if any(word in code for word in OF_THE_SENDER) else Fault.MESSAGE
        return NotSent(reason=answers.reason_of(answer.status, words), fault=fault)
    if data.get("succeeded") == 1:
        message_id = reading.text_of(data.get("email_id"), 400)
        return Accepted(message_id=message_id, evidence="one succeeded")
    if data.get("succeeded") == 0:
        words = answers.says(list(reading.list_of(data.get("failures"))))
        return NotSent(reason=answers.reason_of(answer.status, words))
    return answers.unreadable(answer)


def lookup(correlation: Correlation, sender: Sender, facts: SendFacts) -> HttpRequest:
    del correlation
    body = {
        "start_date": moment(facts.first_call_ms - MARGIN_MS),
        "end_date": moment(facts.now_ms),
        "search_recipient": header_text.ascii_domain(facts.recipient),
        "custom_headers": [ID_HEADER],
        "limit": 1000,
    }
    return calls.json_post(f"{_base(sender)}/activity/search", body)


def read_lookup(
    answer: ProviderAnswer, correlation: Correlation, facts: SendFacts
) -> LookupOutcome:
    """Look for our id anywhere in an event: where its headers stand is not documented."""
    del facts
    return answers.read_lookup(
        answer,
        "data",
        "events",
        is_ours=lambda item: correlation.uuid.encode() in orjson.dumps(item).lower(),
        message_id=lambda item: item.get("email_id"),
    )


def check(sender: Sender) -> str | None:
    return None if sender.region in HOSTS else "`region` must be us, eu or au, or left out"


def _base(sender: Sender) -> str:
    return f"{calls.base(sender, HOSTS.get(sender.region, HOSTS['']))}/v3"


def _file(attachment: OutgoingAttachment, name: str) -> dict[str, Any]:
    return {"filename": name, "fileblob": calls.content(attachment), "mimetype": attachment.type}


SENDING = Sending(
    name="smtp2go",
    title="SMTP2GO",
    docs="https://developers.smtp2go.com/reference/send-standard-email",
    build=build,
    authorize=authorize,
    read_answer=read_answer,
    lookup=lookup,
    read_lookup=read_lookup,
    correlation_of=correlate.uuid_of,
    check=check,
    needs=("secrets",),
    settings={
        "secret": "an API key",
        "region": "us, eu or au; default: its usual host",
    },
    set_up=("Let the webhook include the header X-Mailonce-Id."),
    bytes_max=50_000_000,
    promise=(
        "It has no idempotency key: a send whose answer was lost is found by its header, in the "
        "recipient's activity or in webhooks that are set up to include X-Mailonce-Id; absence "
        "proves nothing."
    ),
)
