"""Brevo: https://developers.brevo.com/reference/sendtransacemail.

Its idempotency key stands among the `headers` of the body. It holds for 30 minutes by its guide,
for 15 by its changelog. A key that was used is answered with the error `duplicate_parameter`: the
first call was seen, and whether it was taken is not said.
"""

import orjson

from mailonce.core.moment import moment
from mailonce.core.reading import values as reading
from mailonce.core.sends import answers, calls, correlate, header_text
from mailonce.core.sends.outgoing_mail import OutgoingMail
from mailonce.core.sends.sender import Sender
from mailonce.core.sends.sending import (
    ID_NAME,
    Correlation,
    HttpRequest,
    LookupOutcome,
    NativeKey,
    NotFound,
    ProviderAnswer,
    SendFacts,
    Sending,
    SendOutcome,
    Unknown,
)

HOST = "https://api.brevo.com"
KEY_HEADER = "idempotencyKey"
USED_KEY = "duplicate_parameter"
DAY_MS = 86_400_000


def build(mail: OutgoingMail, correlation: Correlation, sender: Sender) -> HttpRequest:
    custom = orjson.dumps({ID_NAME: correlation.uuid, **mail.metadata}).decode()
    headers = calls.headers_of(mail, correlation) | {KEY_HEADER: correlation.uuid}
    # It is sent as it is, so what is not ASCII would be raw bytes in a header.
    if custom.isascii():
        headers["X-Mailin-custom"] = custom
    body = {
        "sender": calls.email_and_name(mail.from_),
        "to": [calls.email_and_name(mail.to)],
        "replyTo": calls.email_and_name(mail.reply_to[0]) if mail.reply_to else None,
        "subject": mail.subject,
        "textContent": mail.text,
        "htmlContent": mail.html,
        "headers": headers,
        "tags": [correlate.tag_of(correlation), *mail.tags],
        "attachment": [
            {"name": one.name, "content": calls.content(one)} for one in mail.attachments
        ],
    }
    return calls.json_post(f"{calls.base(sender, HOST)}/v3/smtp/email", calls.clean(body))


def authorize(request: HttpRequest, sender: Sender, now_ms: int) -> HttpRequest:
    del now_ms
    return calls.with_headers(request, ("api-key", calls.secret(sender)))


def read_answer(answer: ProviderAnswer) -> SendOutcome:
    body = answers.object_of(answer) or {}
    if answers.is_success(answer):
        ids = reading.list_of(body.get("messageIds"))
        id_ = reading.text_of(body.get("messageId") or (ids[0] if ids else None), 400)
        return answers.taken(answer, id_)
    words = answers.says(body)
    if body.get("code") == USED_KEY:
        return Unknown(reason=answers.reason_of(answer.status, words))
    return answers.refusal(answer, words)


def lookup(correlation: Correlation, sender: Sender, facts: SendFacts) -> HttpRequest:
    del correlation
    query: dict[str, str | int] = {
        "email": header_text.ascii_domain(facts.recipient),
        "startDate": moment(facts.first_call_ms - DAY_MS)[:10],
        "endDate": moment(facts.now_ms)[:10],
        "sort": "desc",
        "limit": 500,
    }
    return calls.get(f"{calls.base(sender, HOST)}/v3/smtp/emails", query)


def read_lookup(
    answer: ProviderAnswer, correlation: Correlation, facts: SendFacts
) -> LookupOutcome:
    del facts
    # Without mail there is no list either.
    if answers.is_success(answer) and (answers.object_of(answer) or {}).get("count") == 0:
        return NotFound()
    return answers.read_lookup(
        answer,
        "transactionalEmails",
        is_ours=lambda item: correlate.is_tagged(item.get("tags"), correlation),
        message_id=lambda item: item.get("messageId"),
    )


SENDING = Sending(
    name="brevo",
    title="Brevo",
    docs="https://developers.brevo.com/reference/sendtransacemail",
    build=build,
    authorize=authorize,
    read_answer=read_answer,
    native=NativeKey(window_s=15 * 60, safe_s=10 * 60),
    lookup=lookup,
    read_lookup=read_lookup,
    correlation_of=correlate.uuid_of,
    needs=("secrets",),
    settings={
        "secret": "an API key (not an SMTP key)",
    },
    bytes_max=20 << 20,
    promise=(
        "Its own idempotency key holds for 15 to 30 minutes: for ten an unknown send is repeated "
        "and cannot be doubled; its events or a search by recipient find it then and later, or a "
        "person decides."
    ),
)
