"""Resend's receiving: https://resend.com/docs/webhooks/emails/received.

The event says only that a mail is there. It is fetched in two steps: the API's answer has a signed
URL, good for some time, under which the mail itself lies. Where there is none, what the API read
from the mail is taken, and its attachments are only named.
"""

import re
from collections.abc import Iterator, Mapping
from typing import Any

from mailonce.core import json_text
from mailonce.core.arrivals.mail_fetch import (
    NO_KEY,
    FetchFlow,
    FetchProblem,
    FetchRequest,
    MailFetch,
    kept_fields,
    known_fields,
    status_problem,
    with_credential,
)
from mailonce.core.arrivals.provider import InboundHook
from mailonce.core.arrivals.source import Source
from mailonce.core.mail.incoming import (
    AddressField,
    ContentFormat,
    FetchContent,
    FieldAttachment,
    FieldsContent,
    IncomingMail,
    MailEnvelope,
    MimeContent,
)
from mailonce.core.reading import mail_fields, values
from mailonce.errors import ParseError

TYPE = "email.received"
WHAT = "resend.email"
EMAIL_URL = "https://api.resend.com/emails/receiving/"

_EMAIL_ID = re.compile(r"[A-Za-z0-9_-]{1,100}")
_RAW_URL = re.compile(r"https://inbound-cdn\.resend\.com/[!-~]{1,4000}")


def parse_mail(
    body: Mapping[str, Any], source: Source, *, delivery_id: str | None
) -> IncomingMail | None:
    """Read where the mail of an event is; None where it is about another event.

    Raises: ParseError where it has no id to fetch it by.
    """
    if body.get("type") != TYPE:
        return None
    data = values.mapping_of(body.get("data"))
    email_id = values.word_of(data.get("email_id"))
    if not _EMAIL_ID.fullmatch(email_id):
        raise ParseError("a mail from Resend has a text 'email_id'")
    known = _fields_content(data)
    arguments = {"email_id": email_id, "fields": kept_fields(known)}
    return IncomingMail(
        envelope=_envelope(data, known, source),
        content=FetchContent(what=WHAT, arguments=arguments),
        delivery_id=delivery_id,
        is_signed=source.is_signed,
    )


def _envelope(data: Mapping[str, Any], known: FieldsContent, source: Source) -> MailEnvelope:
    """Take the addresses of ours that the mail came in for; the headers only if told to."""
    matched = data.get("received_for")
    if isinstance(matched, list) and mail_fields.recipients_of(matched):
        return mail_fields.envelope_of(None, matched)
    people = (*known.to, *known.cc, *_people(data.get("bcc")))
    return mail_fields.envelope_by_headers(source, None, people)


def _people(given: Any) -> tuple[AddressField, ...]:
    return mail_fields.mailboxes_of(given)


def _fields_content(data: Mapping[str, Any]) -> FieldsContent:
    headers = mail_fields.header_pairs(data.get("headers"), name="name", value="value")
    return FieldsContent(
        headers=headers,
        message_id=values.text_of(data.get("message_id"), 1_000),
        from_=_people(data.get("from")),
        to=_people(data.get("to")),
        cc=_people(data.get("cc")),
        reply_to=_people(data.get("reply_to")),
        subject=mail_fields.text_of(data.get("subject")),
        date=mail_fields.header_of(headers, "date"),
        text=mail_fields.text_of(data.get("text")),
        html=mail_fields.text_of(data.get("html")),
        attachments=tuple(_attachments(data.get("attachments"))),
    )


def _attachments(given: Any) -> Iterator[FieldAttachment]:
    for one in mail_fields.files_of(given):
        yield FieldAttachment(
            name=values.text_of(one.get("filename")),
            type=mail_fields.type_of(one.get("content_type")),
            content=b"",
            content_id=mail_fields.content_id_of(one.get("content_id")),
            is_inline=one.get("content_disposition") == "inline",
            is_missing=True,
        )


def fetch_email(arguments: Mapping[str, Any], source: Source) -> FetchFlow:
    """Fetch a mail: where it lies, then the mail itself."""
    del source
    email_id = values.word_of(arguments.get("email_id"))
    if not _EMAIL_ID.fullmatch(email_id):
        return FetchProblem(reason="the mail's id is not one of Resend's", is_final=True)
    # Inline images stay what they are in the mail, references.
    answer = yield FetchRequest(url=f"{EMAIL_URL}{email_id}?html_format=cid")
    problem = status_problem(answer)
    if problem is not None:
        return problem
    try:
        email = values.mapping_of(json_text.read(answer.body))
    except ParseError:
        return FetchProblem(reason="Resend's answer is not JSON")
    url = values.word_of(values.mapping_of(email.get("raw")).get("download_url"))
    if not url:
        return _fields_content(email)
    if not _RAW_URL.fullmatch(url):
        return FetchProblem(reason="the mail lies at a host that is not Resend's", is_final=True)
    raw = yield FetchRequest(url=url, needs_credentials=False)
    # A signed URL that has expired meanwhile is refused as if the key were wrong.
    problem = status_problem(raw)
    return MimeContent(raw.body) if problem is None else problem


def authorize(request: FetchRequest, source: Source, now_ms: int) -> FetchRequest | FetchProblem:
    """Show the account's API key."""
    del now_ms
    if not source.api_keys:
        return NO_KEY
    return with_credential(request, "Authorization", f"Bearer {source.api_keys[0]}")


INBOUND = InboundHook(
    docs="https://resend.com/docs/dashboard/receiving/introduction",
    content=(ContentFormat.FETCH,),
    envelope="`received_for`; without the sender",
    signs_mail=True,
    delivery_id="svix-id",
    retry_horizon_s=28 * 3600,
    differences=("The event is signed, the mail that is fetched is not.",),
    flags={
        mail_fields.HEADERS_DECIDE: "take `to`, `cc` and `bcc` for the recipients of a mail that "
        "has no `received_for`; anybody can write them",
    },
    fetches=(MailFetch(what=WHAT, begin=fetch_email, authorize=authorize, fallback=known_fields),),
)
