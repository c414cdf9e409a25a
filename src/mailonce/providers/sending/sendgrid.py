"""SendGrid v3: https://www.twilio.com/docs/sendgrid/api-reference/mail-send/mail-send.

A call is answered 202 with an empty body; the id of the mail is a header. There is no idempotency
key. Custom arguments come back in every event. Lookups need an add-on, or a category of its own for
each mail, so they are options.
"""

from collections.abc import Mapping
from typing import Any
from urllib.parse import quote

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
    ProviderAnswer,
    SendFacts,
    Sending,
    SendOutcome,
    TryAgain,
)

HOSTS = {"": "https://api.sendgrid.com", "eu": "https://api.eu.sendgrid.com"}
LOOKUPS = ("activity", "category")
CATEGORIES_MAX = 10


def build(mail: OutgoingMail, correlation: Correlation, sender: Sender) -> HttpRequest:
    categories = list(mail.tags)
    if sender.options.get("lookup") == "category":
        categories = [correlate.tag_of(correlation), *categories]
    contents = (("text/plain", mail.text), ("text/html", mail.html))
    body = {
        "personalizations": [
            {
                "to": [calls.email_and_name(mail.to)],
                "custom_args": {ID_NAME: correlation.uuid, **mail.metadata},
            }
        ],
        "from": calls.email_and_name(mail.from_),
        "reply_to_list": [calls.email_and_name(one) for one in mail.reply_to],
        "subject": mail.subject,
        "content": [{"type": type_, "value": value} for type_, value in contents if value],
        "attachments": [_attachment(one) for one in mail.attachments],
        "categories": categories[:CATEGORIES_MAX],
        "headers": {"Message-ID": mail.message_id, **calls.headers_of(mail, correlation)},
    }
    return calls.json_post(f"{_base(sender)}/v3/mail/send", calls.clean(body))


def read_answer(answer: ProviderAnswer) -> SendOutcome:
    if answers.is_success(answer):
        message_id = reading.text_of(answer.headers.get("x-message-id"), 400)
        if message_id is None and answer.body:
            return answers.unreadable(answer)
        return Accepted(message_id=message_id, evidence=f"answered {answer.status}")
    outcome = answers.refusal(answer, answers.says(answers.json_of(answer)))
    if isinstance(outcome, TryAgain) and outcome.retry_after_ms is None:
        reset_ms = reading.epoch_ms_of(answer.headers.get("x-ratelimit-reset"))
        if reset_ms is not None:
            wait_ms = max(0, reset_ms - answer.received_ms)
            return TryAgain(reason=outcome.reason, retry_after_ms=wait_ms)
    return outcome


def lookup(correlation: Correlation, sender: Sender, facts: SendFacts) -> HttpRequest | None:
    """Ask what the account has: the activity feed by custom argument, or the logs by category."""
    del facts
    match sender.options.get("lookup"):
        case "activity":
            query = quote(f"unique_args['{ID_NAME}']=\"{correlation.uuid}\"", safe="")
            return calls.get(f"{_base(sender)}/v3/messages?limit=10&query={query}")
        case "category":
            query = f"categories IN ('{correlate.tag_of(correlation)}')"
            return calls.json_post(f"{_base(sender)}/v3/logs", {"query": query, "limit": 10})
        case _:
            return None


def read_lookup(
    answer: ProviderAnswer, correlation: Correlation, facts: SendFacts
) -> LookupOutcome:
    """Both filter exactly; an item of another recipient would not be ours."""
    del correlation
    recipient = header_text.ascii_domain(facts.recipient).casefold()
    return answers.read_lookup(
        answer,
        "messages",
        is_ours=lambda item: reading.address_of(item.get("to_email")) == recipient,
        message_id=_message_id,
    )


def _message_id(item: Mapping[str, Any]) -> str | None:
    """Cut off what SendGrid adds to the id that its send API has returned."""
    id_ = reading.text_of(item.get("msg_id") or item.get("sg_message_id"), 400)
    return None if id_ is None else id_.partition(".")[0]


def check(sender: Sender) -> str | None:
    if sender.region not in HOSTS:
        return "`region` must be eu, or left out"
    if sender.options.get("lookup") not in {None, *LOOKUPS}:
        return f"option `lookup` must be one of {', '.join(LOOKUPS)}, or left out"
    return None


def _base(sender: Sender) -> str:
    return calls.base(sender, HOSTS.get(sender.region, HOSTS[""]))


def _attachment(attachment: OutgoingAttachment) -> dict[str, str]:
    file = {
        "content": calls.content(attachment),
        "type": attachment.type,
        "filename": attachment.name,
        "disposition": "attachment" if attachment.content_id is None else "inline",
    }
    return file if attachment.content_id is None else {**file, "content_id": attachment.content_id}


SENDING = Sending(
    name="sendgrid",
    title="SendGrid",
    docs="https://www.twilio.com/docs/sendgrid/api-reference/mail-send/mail-send",
    build=build,
    authorize=calls.bearer,
    read_answer=read_answer,
    lookup=lookup,
    read_lookup=read_lookup,
    correlation_of=correlate.uuid_of,
    check=check,
    needs=("secrets",),
    settings={
        "secret": "an API key",
        "region": "eu for a subuser in Europe; default: all others",
    },
    set_up=(
        "Set the option `lookup`, or nothing is asked: activity needs the Email Activity add-on, "
        "category marks each mail with a category of its own."
    ),
    options={"lookup": "activity (with the Email Activity add-on) or category (one for each mail)"},
    bytes_max=30_000_000,
    promise=(
        "It has no idempotency key: a send whose answer was lost stays unknown until one of its "
        "events comes, or a lookup finds it where one is set up; else a person decides."
    ),
)
