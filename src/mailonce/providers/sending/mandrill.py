"""Mandrill (Mailchimp Transactional): https://mailchimp.com/developer/transactional/api/messages/.

The API key stands in the body, so it is added to the frozen bytes just before they are sent. Each
recipient has a status of its own, in a 200. Errors are mostly answered 500, and told apart by name.
"""

from typing import Any

import orjson
from msgspec.structs import replace

from mailonce.core.moment import moment
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
)

HOST = "https://mandrillapp.com"
TAKEN = frozenset({"sent", "queued", "scheduled"})
REFUSED = frozenset({"rejected", "invalid"})
# By name, errors for which nothing was taken, and whom they blame.
ERRORS = {
    "ValidationError": Fault.MESSAGE,
    "Invalid_Key": Fault.SENDER,
    "PaymentRequired": Fault.SENDER,
    "Unknown_Subaccount": Fault.SENDER,
    "Invalid_Template": Fault.SENDER,
    "Unknown_Template": Fault.SENDER,
}
REJECTS_OF_THE_SENDER = frozenset({"invalid-sender", "unsigned", "test-mode-limit", "rule"})
DAY_MS = 86_400_000


def build(mail: OutgoingMail, correlation: Correlation, sender: Sender) -> HttpRequest:
    files, inline = calls.files_and_inline(mail)
    headers = calls.headers_of(mail, correlation)
    if mail.reply_to:
        headers["Reply-To"] = ", ".join(map(header_text.with_name, mail.reply_to))
    message = {
        "from_email": header_text.ascii_domain(mail.from_.address),
        "from_name": mail.from_.name,
        "to": [
            {
                "email": header_text.ascii_domain(mail.to.address),
                **({"name": mail.to.name} if mail.to.name else {}),
                "type": "to",
            }
        ],
        "subject": mail.subject,
        "text": mail.text,
        "html": mail.html,
        "headers": headers,
        # Those that begin with an underscore are Mandrill's own.
        "tags": [tag.lstrip("_")[:50] for tag in mail.tags],
        "metadata": {ID_NAME: correlation.uuid, **mail.metadata},
        "attachments": [_file(one, one.name) for one in files],
        "images": [_file(one, one.content_id or "") for one in inline],
        "subaccount": sender.options.get("subaccount"),
    }
    # Not in the background: the answer then has the recipient's final status.
    body = {"message": calls.clean(message), "async": False}
    return calls.json_post(f"{calls.base(sender, HOST)}/api/1.0/messages/send.json", body)


def authorize(request: HttpRequest, sender: Sender, now_ms: int) -> HttpRequest:
    del now_ms
    assert request.body.startswith(b"{"), "the body of a call is an object"
    key = b'{"key":' + orjson.dumps(calls.secret(sender)) + b","
    return replace(request, body=key + request.body[1:])


def read_answer(answer: ProviderAnswer) -> SendOutcome:
    body = answers.json_of(answer)
    if not answers.is_success(answer):
        fault = ERRORS.get(reading.word_of(reading.mapping_of(body).get("name")))
        if fault is None:
            return answers.refusal(answer, answers.says(body))
        return NotSent(reason=answers.reason_of(answer.status, answers.says(body)), fault=fault)
    result = reading.mapping_of(body[0]) if isinstance(body, list) and len(body) == 1 else {}
    status = reading.word_of(result.get("status"))
    reject = reading.word_of(result.get("reject_reason"))
    if status in TAKEN:
        message_id = reading.text_of(result.get("_id"), 400)
        return Accepted(message_id=message_id, evidence=f"status {status}")
    if status in REFUSED:
        fault = Fault.SENDER if reject in REJECTS_OF_THE_SENDER else Fault.MESSAGE
        return NotSent(reason=answers.reason_of(answer.status, f"{status} {reject}"), fault=fault)
    return answers.unreadable(answer)


def lookup(correlation: Correlation, sender: Sender, facts: SendFacts) -> HttpRequest:
    """Search by recipient and day: metadata are searched only where the account indexes them."""
    del correlation
    body = {
        "query": f"email:{facts.recipient}",
        "date_from": moment(facts.first_call_ms - DAY_MS)[:10],
        "date_to": moment(facts.now_ms + DAY_MS)[:10],
        "limit": 100,
    }
    return calls.json_post(f"{calls.base(sender, HOST)}/api/1.0/messages/search.json", body)


def read_lookup(
    answer: ProviderAnswer, correlation: Correlation, facts: SendFacts
) -> LookupOutcome:
    del facts
    return answers.read_lookup(
        answer,
        is_ours=lambda item: correlate.is_in(item.get("metadata"), correlation),
        message_id=lambda item: item.get("_id"),
    )


def _file(attachment: OutgoingAttachment, name: str) -> dict[str, Any]:
    return {"type": attachment.type, "name": name, "content": calls.content(attachment)}


SENDING = Sending(
    name="mandrill",
    title="Mandrill",
    docs="https://mailchimp.com/developer/transactional/api/messages/send-new-message/",
    build=build,
    authorize=authorize,
    read_answer=read_answer,
    lookup=lookup,
    read_lookup=read_lookup,
    correlation_of=correlate.uuid_of,
    needs=("secrets",),
    settings={
        "secret": "an API key",
    },
    options={"subaccount": "the subaccount that mail is counted for"},
    bytes_max=25 << 20,
    promise=(
        "It has no idempotency key: a send whose answer was lost is found by one of its events or "
        "among the recipient's last hundred mails; absence proves nothing, and a person decides."
    ),
)
