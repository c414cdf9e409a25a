"""MailerSend: https://developers.mailersend.com/api/v1/email.html.

The id of a mail is a header of the answer, whose body is empty, or has warnings: a recipient that
was suppressed is one, in a 202. There is no idempotency key and no metadata; a tag carries our id.
"""

from collections.abc import Mapping
from typing import Any
from urllib.parse import quote

from mailonce.core.reading import values as reading
from mailonce.core.sends import answers, calls, correlate
from mailonce.core.sends.outgoing_mail import OutgoingAttachment, OutgoingMail
from mailonce.core.sends.sender import Sender
from mailonce.core.sends.sending import (
    Accepted,
    Correlation,
    HttpRequest,
    LookupOutcome,
    NotSent,
    ProviderAnswer,
    SendFacts,
    Sending,
    SendOutcome,
    TryAgain,
)

HOST = "https://api.mailersend.com"
TAGS_MAX = 5
MAINTENANCE_STATUS = 421
ALL_SUPPRESSED = "ALL_SUPPRESSED"
MARGIN_S = 600


def build(mail: OutgoingMail, correlation: Correlation, sender: Sender) -> HttpRequest:
    # Smaller plans refuse a mail with headers of its own, so ours is none by default.
    headers = dict(mail.headers)
    if sender.options.get("custom_headers") is True:
        headers = calls.headers_of(mail, correlation)
    body = {
        "from": calls.email_and_name(mail.from_),
        "to": [calls.email_and_name(mail.to)],
        "reply_to": calls.email_and_name(mail.reply_to[0]) if mail.reply_to else None,
        "subject": mail.subject,
        "text": mail.text,
        "html": mail.html,
        "tags": [correlate.tag_of(correlation), *mail.tags][:TAGS_MAX],
        "headers": [{"name": name, "value": value} for name, value in headers.items()],
        "attachments": [_attachment(one) for one in mail.attachments],
    }
    return calls.json_post(f"{calls.base(sender, HOST)}/v1/email", calls.clean(body))


def read_answer(answer: ProviderAnswer) -> SendOutcome:
    body = answers.object_of(answer) or {}
    if not answers.is_success(answer):
        words = answers.says(body)
        if answer.status == MAINTENANCE_STATUS:
            reason = answers.reason_of(answer.status, words)
            return TryAgain(reason=reason, retry_after_ms=answers.wait_ms(answer))
        return answers.refusal(answer, words)
    warnings = map(reading.mapping_of, reading.list_of(body.get("warnings")))
    message_id = reading.text_of(answer.headers.get("x-message-id"), 400)
    if message_id is None:
        if any(warning.get("type") == ALL_SUPPRESSED for warning in warnings):
            return NotSent(reason=answers.reason_of(answer.status, "the recipient is suppressed"))
        return answers.unreadable(answer)
    return Accepted(message_id=message_id, evidence=f"answered {answer.status}")


def lookup(correlation: Correlation, sender: Sender, facts: SendFacts) -> HttpRequest | None:
    """List the domain's activity of that time, which has no filter for recipients or tags."""
    del correlation
    domain = reading.text_of(sender.options.get("domain_id"), 100)
    if domain is None:
        return None
    query: dict[str, str | int] = {
        "date_from": facts.first_call_ms // 1000 - MARGIN_S,
        "date_to": min(facts.now_ms // 1000, facts.first_call_ms // 1000 + MARGIN_S),
        "limit": 100,
    }
    return calls.get(f"{calls.base(sender, HOST)}/v1/activity/{quote(domain, safe='')}", query)


def read_lookup(
    answer: ProviderAnswer, correlation: Correlation, facts: SendFacts
) -> LookupOutcome:
    del facts
    return answers.read_lookup(
        answer,
        "data",
        is_ours=lambda item: correlate.is_tagged(_email(item).get("tags"), correlation),
        message_id=lambda item: reading.mapping_of(_email(item).get("message")).get("id"),
    )


def _email(item: Mapping[str, Any]) -> Mapping[str, Any]:
    return reading.mapping_of(item.get("email"))


def check(sender: Sender) -> str | None:
    if not isinstance(sender.options.get("custom_headers", False), bool):
        return "option `custom_headers` must be true or false"
    return None


def _attachment(attachment: OutgoingAttachment) -> dict[str, Any]:
    file = {
        "filename": attachment.name,
        "content": calls.content(attachment),
        "disposition": "attachment" if attachment.content_id is None else "inline",
    }
    return file if attachment.content_id is None else {**file, "id": attachment.content_id}


SENDING = Sending(
    name="mailersend",
    title="MailerSend",
    docs="https://developers.mailersend.com/api/v1/email.html",
    build=build,
    authorize=calls.bearer,
    read_answer=read_answer,
    lookup=lookup,
    read_lookup=read_lookup,
    correlation_of=correlate.uuid_of,
    check=check,
    needs=("secrets",),
    settings={
        "secret": "an API token",
    },
    set_up=("Set the option `domain_id`: without it nothing is asked."),
    options={
        "domain_id": "MailerSend's id of the domain, for lookups in its activity",
        "custom_headers": "true where the plan takes headers, for our id among them",
    },
    bytes_max=25 << 20,
    promise=(
        "It has no idempotency key: a send whose answer was lost stays unknown until one of its "
        "events comes, or the domain's activity shows its tag where `domain_id` is set; else a "
        "person decides."
    ),
)
