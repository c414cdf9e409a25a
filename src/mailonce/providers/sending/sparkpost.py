"""SparkPost: https://developers.sparkpost.com/api/transmissions/.

There is no idempotency key. A recipient's metadata come back in every event, and events can be
searched by recipient; `campaign_id` is left to the sender.
"""

from typing import Any

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
    TryAgain,
)

HOSTS = {"": "https://api.sparkpost.com", "eu": "https://api.eu.sparkpost.com"}
# The account may send no more today, or this hour.
LIMIT_STATUS = 420
TAGS_MAX = 10
# Its clock and ours, and the minute by which its events lag.
MARGIN_MS = 600_000


def build(mail: OutgoingMail, correlation: Correlation, sender: Sender) -> HttpRequest:
    files, inline = calls.files_and_inline(mail)
    recipient = {
        "address": calls.email_and_name(mail.to),
        "metadata": {ID_NAME: correlation.uuid, **mail.metadata},
        "tags": list(mail.tags[:TAGS_MAX]),
    }
    content = {
        "from": calls.email_and_name(mail.from_),
        "reply_to": ", ".join(map(header_text.with_name, mail.reply_to)),
        "subject": mail.subject,
        "text": mail.text,
        "html": mail.html,
        "headers": calls.headers_of(mail, correlation),
        "attachments": [_file(one, one.name) for one in files],
        "inline_images": [_file(one, one.content_id or "") for one in inline],
    }
    body = {
        "options": {"transactional": sender.options.get("transactional", True)},
        "recipients": [calls.clean(recipient)],
        "content": calls.clean(content),
    }
    return calls.json_post(f"{_base(sender)}/api/v1/transmissions", body)


def authorize(request: HttpRequest, sender: Sender, now_ms: int) -> HttpRequest:
    del now_ms
    return calls.with_headers(request, ("Authorization", calls.secret(sender)))


def read_answer(answer: ProviderAnswer) -> SendOutcome:
    body = answers.object_of(answer) or {}
    results = reading.mapping_of(body.get("results"))
    words = answers.says(body.get("errors")) or answers.says(body)
    if answer.status == LIMIT_STATUS:
        return TryAgain(
            reason=answers.reason_of(answer.status, words), retry_after_ms=answers.wait_ms(answer)
        )
    if not answers.is_success(answer):
        return answers.refusal(answer, words)
    taken = results.get("total_accepted_recipients")
    if taken == 0:
        return NotSent(reason=answers.reason_of(answer.status, words or "recipient rejected"))
    if taken != 1:
        return answers.unreadable(answer)
    return Accepted(message_id=reading.text_of(results.get("id"), 400), evidence="one accepted")


def lookup(correlation: Correlation, sender: Sender, facts: SendFacts) -> HttpRequest:
    del correlation
    query: dict[str, str | int] = {
        "recipients": header_text.ascii_domain(facts.recipient),
        "from": moment(facts.first_call_ms - MARGIN_MS)[:19] + "Z",
        "per_page": 1000,
    }
    return calls.get(f"{_base(sender)}/api/v1/events/message", query)


def read_lookup(
    answer: ProviderAnswer, correlation: Correlation, facts: SendFacts
) -> LookupOutcome:
    del facts
    return answers.read_lookup(
        answer,
        "results",
        is_ours=lambda item: correlate.is_in(item.get("rcpt_meta"), correlation),
        message_id=lambda item: item.get("transmission_id"),
    )


def check(sender: Sender) -> str | None:
    if sender.region not in HOSTS:
        return "`region` must be eu, or left out"
    if not isinstance(sender.options.get("transactional", True), bool):
        return "option `transactional` must be true or false"
    return None


def _base(sender: Sender) -> str:
    return calls.base(sender, HOSTS.get(sender.region, HOSTS[""]))


def _file(attachment: OutgoingAttachment, name: str) -> dict[str, Any]:
    return {"name": name, "type": attachment.type, "data": calls.content(attachment)}


SENDING = Sending(
    name="sparkpost",
    title="SparkPost",
    docs="https://developers.sparkpost.com/api/transmissions/",
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
        "region": "eu for an account in Europe; default: the United States",
    },
    options={"transactional": "false for mail that people can unsubscribe from"},
    bytes_max=20 << 20,
    promise=(
        "It has no idempotency key, but events can be searched by recipient for ten days: a send "
        "whose answer was lost is found there or by a webhook; absence proves nothing."
    ),
)
