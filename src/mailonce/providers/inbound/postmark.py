"""Postmark inbound: https://postmarkapp.com/developer/webhooks/inbound-webhook.

One body is one mail: what Postmark read from it and, where the server is set to include it, the
mail itself as `RawEmail`. Nothing is signed.
"""

from collections.abc import Iterator, Mapping
from typing import Any

from mailonce.core.arrivals.provider import InboundHook
from mailonce.core.arrivals.source import Source
from mailonce.core.mail.incoming import (
    AddressField,
    Authentication,
    ContentFormat,
    FieldAttachment,
    FieldsContent,
    IncomingMail,
    MimeContent,
    SpamVerdict,
)
from mailonce.core.reading import mail_fields, values

TRUST = "trust_spam_headers"

Headers = tuple[tuple[str, str], ...]


def parse_mail(body: Mapping[str, Any], source: Source) -> IncomingMail:
    headers = mail_fields.header_pairs(body.get("Headers"), name="Name", value="Value")
    trusted = headers if source.options.get(TRUST) is True else ()
    return IncomingMail(
        envelope=mail_fields.envelope_of(_return_path(headers), body.get("OriginalRecipient")),
        content=_content(body, headers),
        delivery_id=values.text_of(body.get("MessageID"), 200),
        authentication=_authentication(trusted),
        spam=_spam(trusted),
        is_signed=False,
    )


def _return_path(headers: Headers) -> str | None:
    """Give the envelope's sender: Postmark puts it first, and anybody may write it further down."""
    if not headers or headers[0][0].lower() != "return-path":
        return None
    return headers[0][1]


def _content(body: Mapping[str, Any], headers: Headers) -> MimeContent | FieldsContent:
    raw = body.get("RawEmail")
    if isinstance(raw, str) and raw:
        return mail_fields.mime_of(raw)
    return FieldsContent(
        headers=headers,
        message_id=mail_fields.header_of(headers, "message-id"),
        from_=_people(body.get("FromFull")),
        to=_people(body.get("ToFull")),
        cc=_people(body.get("CcFull")),
        reply_to=mail_fields.mailboxes_of(body.get("ReplyTo")),
        subject=mail_fields.text_of(body.get("Subject")),
        date=values.text_of(body.get("Date"), 200),
        text=mail_fields.text_of(body.get("TextBody")),
        html=mail_fields.text_of(body.get("HtmlBody")),
        reply_text=mail_fields.text_of(body.get("StrippedTextReply")),
        attachments=tuple(_attachments(body.get("Attachments"))),
    )


def _people(given: Any) -> tuple[AddressField, ...]:
    return mail_fields.named_mailboxes(given, address="Email", name="Name")


def _attachments(given: Any) -> Iterator[FieldAttachment]:
    for one in mail_fields.files_of(given):
        content_id = mail_fields.content_id_of(one.get("ContentID"))
        # Postmark's test button calls it Data.
        text = one.get("Content", one.get("Data"))
        yield FieldAttachment(
            name=values.text_of(one.get("Name")),
            type=mail_fields.type_of(one.get("ContentType")),
            content=mail_fields.content_in_base64(text),
            content_id=content_id,
            is_inline=content_id is not None,
        )


def _authentication(headers: Headers) -> Authentication | None:
    words = (mail_fields.only_header(headers, "received-spf") or "").split(None, 1)
    spf = mail_fields.check_of(words[0] if words else None)
    return None if spf is None else Authentication(spf=spf)


def _spam(headers: Headers) -> SpamVerdict | None:
    status = (mail_fields.only_header(headers, "x-spam-status") or "").strip().lower()
    is_spam = {"yes": True, "no": False}.get(status.partition(",")[0])
    score = mail_fields.number_of(mail_fields.only_header(headers, "x-spam-score"))
    if is_spam is None and score is None:
        return None
    return SpamVerdict(is_spam=is_spam, score=score, engine="SpamAssassin")


INBOUND = InboundHook(
    docs="https://postmarkapp.com/developer/webhooks/inbound-webhook",
    content=(ContentFormat.MIME, ContentFormat.FIELDS),
    envelope="a first header `Return-Path`, `OriginalRecipient`",
    signs_mail=False,
    delivery_id="MessageID",
    # Ten retries in ten hours and a half; 403 stops them.
    retry_horizon_s=10 * 3600 + 1800,
    differences=(
        "The raw mail comes as text, so bytes that are no UTF-8 are lost.",
        "Without it, an attachment that has a Content-ID counts as inline.",
    ),
    flags={
        TRUST: "believe `X-Spam-…` and `Received-SPF`, which Postmark adds; a sender can write "
        "them, too, and one that stands there twice is never believed",
    },
)
