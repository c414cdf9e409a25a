"""Brevo's inbound parsing: https://developers.brevo.com/docs/inbound-parse-webhooks.

`items` are mails, as what Brevo read from them. Attachments are named by a token each: such a mail
is fetched, and what is known of it travels in the arguments of the fetch, so that it stands even
if the attachments cannot be had any more. Nothing is signed, and no envelope is told.
"""

import re
from collections.abc import Iterator, Mapping
from typing import Any
from urllib.parse import quote

from msgspec.structs import replace

from mailonce.core.arrivals.mail_fetch import (
    ANSWER_BYTES_MAX,
    NO_KEY,
    REQUESTS_MAX,
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
    SpamVerdict,
)
from mailonce.core.reading import mail_fields, values

WHAT = "brevo.attachments"
ATTACHMENTS_URL = "https://api.brevo.com/v3/inbound/attachments/"

_TOKEN = re.compile(r"[!-~]{1,2000}")


def parse_mail(item: Mapping[str, Any], source: Source) -> IncomingMail:
    headers = mail_fields.header_pairs(item.get("Headers"))
    listed = mail_fields.files_of(item.get("Attachments"))
    fields = FieldsContent(
        headers=headers,
        message_id=values.text_of(item.get("MessageId"), 1_000),
        from_=_people(item.get("From")),
        to=_people(item.get("To")),
        cc=_people(item.get("Cc")),
        reply_to=_people(item.get("ReplyTo")),
        subject=mail_fields.text_of(item.get("Subject")),
        date=values.text_of(item.get("SentAtDate"), 200),
        text=mail_fields.text_of(item.get("RawTextBody")),
        html=mail_fields.text_of(item.get("RawHtmlBody")),
        reply_text=mail_fields.text_of(item.get("ExtractedMarkdownMessage")),
        attachments=tuple(map(_attachment, listed)),
    )
    # '' stands for one that cannot be fetched: the places are those of the attachments.
    tokens = [_token(one.get("DownloadToken")) for one in listed]
    score = mail_fields.number_of(
        item.get("SpamScore", values.mapping_of(item.get("Spam")).get("Score"))
    )
    return IncomingMail(
        envelope=_envelope(item, fields, source),
        content=FetchContent(what=WHAT, arguments={"fields": kept_fields(fields), "tokens": tokens})
        if any(tokens)
        else fields,
        delivery_id=values.text_of(next(iter(values.list_of(item.get("Uuid"))), None), 200),
        spam=None if score is None else SpamVerdict(score=score),
        is_signed=False,
    )


def _envelope(item: Mapping[str, Any], fields: FieldsContent, source: Source) -> MailEnvelope:
    """Let the operator say whether what Brevo calls recipients, or else the headers, decide.

    What its documents show as envelope, real posts do not have.
    """
    listed = [AddressField(one) for one in mail_fields.recipients_of(item.get("Recipients"))]
    return mail_fields.envelope_by_headers(source, None, listed or (*fields.to, *fields.cc))


def _people(given: Any) -> tuple[AddressField, ...]:
    return mail_fields.named_mailboxes(given, address="Address", name="Name")


def _token(value: Any) -> str:
    return value if isinstance(value, str) and _TOKEN.fullmatch(value) else ""


def _attachment(one: Mapping[str, Any]) -> FieldAttachment:
    content_id = mail_fields.content_id_of(one.get("ContentID"))
    return FieldAttachment(
        name=values.text_of(one.get("Name")),
        type=mail_fields.type_of(one.get("ContentType")),
        content=b"",
        content_id=content_id,
        is_inline=content_id is not None,
        is_missing=True,
    )


def fetch_attachments(arguments: Mapping[str, Any], source: Source) -> FetchFlow:
    """Fetch the attachments one after the other; one that is gone for good stays missing."""
    del source
    fields = known_fields(arguments)
    if fields is None:
        return FetchProblem(reason="the arguments of the fetch are broken", is_final=True)
    attachments = list(fields.attachments)
    left = ANSWER_BYTES_MAX
    for place, token in _tokens(arguments, len(attachments)):
        answer = yield FetchRequest(url=ATTACHMENTS_URL + quote(token, safe=""))
        problem = status_problem(answer)
        if problem is not None and not problem.is_final:
            return problem
        if problem is not None or len(answer.body) > left:
            continue
        left -= len(answer.body)
        # The header has the charset, which the hook leaves out.
        type_ = answer.headers.get("content-type") or attachments[place].type
        attachments[place] = replace(
            attachments[place],
            content=answer.body,
            type=mail_fields.type_of(type_),
            is_missing=False,
        )
    return replace(fields, attachments=tuple(attachments))


def _tokens(arguments: Mapping[str, Any], many: int) -> Iterator[tuple[int, str]]:
    listed = values.list_of(arguments.get("tokens"))[: min(many, REQUESTS_MAX)]
    for place, token in enumerate(listed):
        if _token(token):
            yield place, token


def authorize(request: FetchRequest, source: Source, now_ms: int) -> FetchRequest | FetchProblem:
    """Show the account's API key."""
    del now_ms
    if not source.api_keys:
        return NO_KEY
    return with_credential(request, "api-key", source.api_keys[0])


INBOUND = InboundHook(
    docs="https://developers.brevo.com/docs/inbound-parse-webhooks",
    content=(ContentFormat.FIELDS, ContentFormat.FETCH),
    envelope="",
    signs_mail=False,
    delivery_id="Uuid[0]",
    differences=(
        "Headers of the same name come together, without their order among the others.",
        "An attachment that has a Content-ID counts as inline.",
    ),
    flags={
        mail_fields.HEADERS_DECIDE: "take `Recipients`, or `To` and `Cc`, for the recipients; "
        "anybody can write them",
    },
    fetches=(
        MailFetch(what=WHAT, begin=fetch_attachments, authorize=authorize, fallback=known_fields),
    ),
)
