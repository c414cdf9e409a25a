"""Mailjet's Parse API: https://dev.mailjet.com/email/guides/parse-api/.

One body is one mail, as what Mailjet read from it: its bytes cannot be rebuilt, since nothing says
which part stood within which. Nothing is signed, and nothing has an id.
"""

from collections.abc import Iterator, Mapping
from typing import Any

from mailonce.core.arrivals.provider import InboundHook
from mailonce.core.arrivals.source import Source
from mailonce.core.mail.incoming import (
    ContentFormat,
    FieldAttachment,
    FieldsContent,
    IncomingMail,
    MailEnvelope,
    SpamVerdict,
)
from mailonce.core.reading import mail_fields, values
from mailonce.core.reading.multipart import file_name_of, header_parameters


def is_mail(element: Mapping[str, Any]) -> bool:
    """Tell a mail from an event, which always has a word for what happened."""
    return "event" not in element and "Headers" in element and "Parts" in element


def parse_mail(body: Mapping[str, Any], source: Source) -> IncomingMail:
    headers = mail_fields.header_pairs(body.get("Headers"))
    content = FieldsContent(
        headers=headers,
        message_id=mail_fields.header_of(headers, "message-id"),
        from_=mail_fields.mailboxes_of(body.get("From")),
        to=mail_fields.mailboxes_of(mail_fields.header_of(headers, "to")),
        cc=mail_fields.mailboxes_of(mail_fields.header_of(headers, "cc")),
        reply_to=mail_fields.mailboxes_of(mail_fields.header_of(headers, "reply-to")),
        subject=mail_fields.text_of(body.get("Subject")),
        # Beside it stands `Date` in a form of Mailjet's own.
        date=mail_fields.header_of(headers, "date"),
        text=mail_fields.text_of(body.get("Text-part")),
        html=mail_fields.text_of(body.get("Html-part")),
        attachments=tuple(_attachments(body)),
    )
    score = mail_fields.number_of(body.get("SpamAssassinScore"))
    return IncomingMail(
        envelope=_envelope(body, content, source),
        content=content,
        spam=None if score is None else SpamVerdict(score=score, engine="SpamAssassin"),
        is_signed=False,
    )


def _envelope(body: Mapping[str, Any], content: FieldsContent, source: Source) -> MailEnvelope:
    if mail_fields.recipients_of(body.get("Recipient")):
        return mail_fields.envelope_of(body.get("Sender"), body.get("Recipient"))
    people = (*content.to, *content.cc)
    return mail_fields.envelope_by_headers(source, body.get("Sender"), people)


def _attachments(body: Mapping[str, Any]) -> Iterator[FieldAttachment]:
    for part in mail_fields.files_of(body.get("Parts")):
        place = values.word_of(part.get("ContentRef"))
        if "Attachment" not in place:
            continue
        headers = mail_fields.header_pairs(part.get("Headers"))
        type_ = mail_fields.header_of(headers, "content-type")
        disposition = mail_fields.header_of(headers, "content-disposition") or ""
        yield FieldAttachment(
            name=values.text_of(_name(disposition, type_ or "")),
            type=mail_fields.type_of(type_),
            content=mail_fields.content_in_base64(body.get(place)),
            content_id=mail_fields.content_id_of(mail_fields.header_of(headers, "content-id")),
            is_inline=place.startswith("Inline"),
        )


def _name(disposition: str, type_: str) -> str | None:
    own = file_name_of(header_parameters(disposition.encode("utf-8", "replace")))
    named = header_parameters(type_.encode("utf-8", "replace")).get("name")
    return own or (None if named is None else named.decode("utf-8", "replace"))


INBOUND = InboundHook(
    docs="https://dev.mailjet.com/email/guides/parse-api/",
    content=(ContentFormat.FIELDS,),
    envelope="`Sender`, `Recipient`",
    signs_mail=False,
    differences=("Headers of the same name come together, without their order among the others.",),
    flags={
        mail_fields.HEADERS_DECIDE: "take `To` and `Cc` for the recipients of a mail that has no "
        "`Recipient`; anybody can write them",
    },
)
