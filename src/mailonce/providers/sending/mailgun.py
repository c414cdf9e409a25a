"""Mailgun: https://documentation.mailgun.com/docs/mailgun/api-reference/send/mailgun/messages.

The whole message is given as MIME, so our Message-ID stays, and events can be searched by it. Tags
are not used for that: a domain may have no more than some thousands. A wrong URL is answered 200.
"""

from collections.abc import Mapping
from typing import Any
from urllib.parse import quote

from mailonce.core.reading import values as reading
from mailonce.core.sends import answers, calls, correlate, header_text
from mailonce.core.sends.form_data import FormFile, form_data
from mailonce.core.sends.mime import mime_of
from mailonce.core.sends.outgoing_mail import OutgoingMail
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

HOSTS = {"": "https://api.mailgun.net", "eu": "https://api.eu.mailgun.net"}
TAGS_MAX = 3
# Its greeting at every path that does not exist.
WRONG_URL = b"Mailgun Magnificent API"


def build(mail: OutgoingMail, correlation: Correlation, sender: Sender) -> HttpRequest:
    fields = [("to", header_text.ascii_domain(mail.to.address))]
    variables = {ID_NAME: correlation.uuid, **mail.metadata}
    fields += [(f"v:{name}", value) for name, value in variables.items()]
    fields += [("o:tag", tag) for tag in mail.tags[:TAGS_MAX]]
    message = mime_of(mail, correlation)
    type_, body = form_data(fields, [FormFile("message", "message.eml", "message/rfc822", message)])
    url = f"{_base(sender)}/messages.mime"
    return HttpRequest(url=url, headers=(("Content-Type", type_),), body=body)


def authorize(request: HttpRequest, sender: Sender, now_ms: int) -> HttpRequest:
    del now_ms
    return calls.basic(request, "api", calls.secret(sender))


def read_answer(answer: ProviderAnswer) -> SendOutcome:
    if not answers.is_success(answer):
        body = answers.json_of(answer)
        words = answers.says(body) or answer.body[:200].decode("utf-8", "replace")
        return answers.refusal(answer, words)
    if WRONG_URL in answer.body:
        return NotSent(reason="it does not know this URL; correct `endpoint`", fault=Fault.SENDER)
    body = answers.object_of(answer)
    message_id = None if body is None else reading.text_of(body.get("id"), 400)
    if message_id is None:
        return answers.unreadable(answer)
    return Accepted(message_id=message_id.strip("<>"), evidence="queued")


def lookup(correlation: Correlation, sender: Sender, facts: SendFacts) -> HttpRequest:
    del correlation
    query: dict[str, str | int] = {"message-id": facts.message_id.strip("<>"), "limit": 10}
    return calls.get(f"{_base(sender)}/events", query)


def read_lookup(
    answer: ProviderAnswer, correlation: Correlation, facts: SendFacts
) -> LookupOutcome:
    """Our Message-ID is in every event, our variable in most."""
    own_id = facts.message_id.strip("<>")

    def is_ours(item: Mapping[str, Any]) -> bool:
        headers = reading.mapping_of(reading.mapping_of(item.get("message")).get("headers"))
        has_id = reading.word_of(headers.get("message-id")).strip("<>") == own_id
        return has_id or correlate.is_in(item.get("user-variables"), correlation)

    return answers.read_lookup(answer, "items", is_ours=is_ours, message_id=lambda _: own_id)


def check(sender: Sender) -> str | None:
    return None if sender.region in HOSTS else "`region` must be eu, or left out"


def _base(sender: Sender) -> str:
    host = calls.base(sender, HOSTS.get(sender.region, HOSTS[""]))
    return f"{host}/v3/{quote(sender.domain, safe='')}"


SENDING = Sending(
    name="mailgun",
    title="Mailgun",
    docs="https://documentation.mailgun.com/docs/mailgun/api-reference/send/mailgun/messages",
    build=build,
    authorize=authorize,
    read_answer=read_answer,
    lookup=lookup,
    read_lookup=read_lookup,
    correlation_of=correlate.uuid_of,
    check=check,
    needs=("secrets", "domain"),
    settings={
        "secret": "an API key of the account or of the domain",
        "domain": "the sending domain, as Mailgun names it",
        "region": "eu for a domain in Europe; default: the United States",
    },
    bytes_max=25 << 20,
    promise=(
        "It has no idempotency key, but its events can be searched by our Message-ID: a send whose "
        "answer was lost is found there or by a webhook, within some days; absence proves nothing."
    ),
)
