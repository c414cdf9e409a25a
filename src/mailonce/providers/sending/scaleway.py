"""Scaleway Transactional Email: https://www.scaleway.com/en/developers/api/transactional-email/emails.

There is no idempotency key, and the list of emails shows no headers, so nothing in it can be proven
to be ours. Headers come back in every event.
"""

import re
from urllib.parse import quote

from mailonce.core.reading import values as reading
from mailonce.core.sends import answers, calls, correlate, header_text
from mailonce.core.sends.outgoing_mail import OutgoingMail
from mailonce.core.sends.sender import Sender
from mailonce.core.sends.sending import (
    Correlation,
    HttpRequest,
    ProviderAnswer,
    Sending,
    SendOutcome,
)

HOST = "https://api.scaleway.com"
REGION = "fr-par"
_REGION = re.compile(r"[a-z]{2}-[a-z]{3}|")


def build(mail: OutgoingMail, correlation: Correlation, sender: Sender) -> HttpRequest:
    headers = calls.headers_of(mail, correlation)
    if mail.reply_to:
        headers["Reply-To"] = ", ".join(map(header_text.with_name, mail.reply_to))
    body = {
        "from": calls.email_and_name(mail.from_),
        "to": [calls.email_and_name(mail.to)],
        "subject": mail.subject,
        # Both are demanded, though one may be empty.
        "text": mail.text or "",
        "html": mail.html or "",
        "project_id": sender.options.get("project_id"),
        "additional_headers": [{"key": name, "value": value} for name, value in headers.items()],
        "attachments": [
            {"name": one.name, "type": one.type, "content": calls.content(one)}
            for one in mail.attachments
        ],
    }
    region = quote(sender.region or REGION, safe="")
    path = f"/transactional-email/v1alpha1/regions/{region}/emails"
    return calls.json_post(f"{calls.base(sender, HOST)}{path}", body)


def authorize(request: HttpRequest, sender: Sender, now_ms: int) -> HttpRequest:
    del now_ms
    return calls.with_headers(request, ("X-Auth-Token", calls.secret(sender)))


def read_answer(answer: ProviderAnswer) -> SendOutcome:
    body = answers.object_of(answer) or {}
    if not answers.is_success(answer):
        return answers.refusal(answer, answers.says(body))
    emails = reading.list_of(body.get("emails"))
    first = reading.mapping_of(emails[0] if emails else None)
    message_id = reading.text_of(first.get("id"), 400)
    return answers.taken(answer, message_id)


def check(sender: Sender) -> str | None:
    if not _REGION.fullmatch(sender.region):
        return "`region` must be one of Scaleway's, such as fr-par"
    if not isinstance(sender.options.get("project_id"), str):
        return "option `project_id` is needed: Scaleway's id of the project"
    return None


SENDING = Sending(
    name="scaleway",
    title="Scaleway",
    docs="https://www.scaleway.com/en/developers/api/transactional-email/emails",
    build=build,
    authorize=authorize,
    read_answer=read_answer,
    correlation_of=correlate.uuid_of,
    check=check,
    needs=("secrets",),
    settings={
        "secret": "the secret key of an API key",
        "region": "where the project sends from, such as fr-par",
    },
    options={"project_id": "Scaleway's id of the project, which it cannot do without"},
    bytes_max=2 << 20,
    promise=(
        "It has no idempotency key and no lookup that could prove anything: a send whose answer "
        "was lost stays unknown until one of its events comes, else a person decides."
    ),
)
