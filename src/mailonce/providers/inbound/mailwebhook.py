"""MailWebhook's generic mapper: https://docs.mailwebhook.com/docs/payloads/generic/.

`mailwebhook.generic` has what was read from a mail, in an order of its own: addresses are sorted
and in lower case, headers of one name joined by commas. What any other mapper made is no mail.
"""

from collections.abc import Iterator, Mapping
from typing import Any

from mailonce.core.arrivals.provider import InboundHook
from mailonce.core.arrivals.source import Source
from mailonce.core.mail.incoming import (
    AddressField,
    ContentFormat,
    FieldAttachment,
    FieldsContent,
    IncomingMail,
    MailEnvelope,
)
from mailonce.core.reading import mail_fields, values

GENERIC = "mailwebhook.generic"


def parse_mail(body: Any, source: Source, *, delivery_id: str | None) -> IncomingMail | None:
    """Read the mail of a body; None where another mapper made it."""
    whole = values.mapping_of(body)
    if values.mapping_of(whole.get("schema")).get("name") != GENERIC:
        return None
    message, parts = (values.mapping_of(whole.get(name)) for name in ("message", "body"))
    headers = mail_fields.header_pairs(message.get("headers"))
    # One that the service made up would make two mails of one that came by two ways.
    is_own = message.get("message_id_type", "original") == "original"
    content = FieldsContent(
        headers=headers,
        message_id=values.text_of(message.get("message_id"), 1_000) if is_own else None,
        from_=_people(message.get("from")),
        to=_people(message.get("to")),
        cc=_people(message.get("cc")),
        reply_to=_people(message.get("reply_to")),
        subject=mail_fields.text_of(message.get("subject")),
        date=values.text_of(message.get("date"), 200),
        text=mail_fields.text_of(parts.get("text")),
        html=mail_fields.text_of(parts.get("html")),
        attachments=tuple(_attachments(parts.get("attachments"))),
    )
    return IncomingMail(
        envelope=_envelope(whole, content, source),
        content=content,
        delivery_id=delivery_id,
        is_signed=source.is_signed,
    )


def _envelope(whole: Mapping[str, Any], content: FieldsContent, source: Source) -> MailEnvelope:
    envelope = values.mapping_of(whole.get("envelope"))
    sender, recipients = envelope.get("mail_from"), envelope.get("rcpt_to")
    if mail_fields.recipients_of(recipients):
        return mail_fields.envelope_of(sender, recipients)
    return mail_fields.envelope_by_headers(source, sender, (*content.to, *content.cc))


def _people(given: Any) -> tuple[AddressField, ...]:
    return mail_fields.named_mailboxes(given, address="email", name="name")


def _attachments(given: Any) -> Iterator[FieldAttachment]:
    for one in mail_fields.files_of(given):
        yield FieldAttachment(
            name=values.text_of(one.get("filename")),
            type=mail_fields.type_of(one.get("content_type")),
            content=b"",
            content_id=mail_fields.content_id_of(one.get("content_id")),
            is_inline=one.get("is_inline") is True,
            is_missing=True,
        )


INBOUND = InboundHook(
    docs="https://docs.mailwebhook.com/docs/payloads/generic/",
    content=(ContentFormat.FIELDS,),
    envelope="`envelope`, where the project includes it",
    signs_mail=True,
    delivery_id="X-Idempotency-Key",
    # Six attempts end after 43 minutes, but somebody may replay a mail for a week.
    retry_horizon_s=7 * 86_400,
    differences=(
        "Attachments are only named: where their bytes lie is envelope to the account's programs.",
        "Addresses are sorted and in lower case, and headers of one name are one.",
        "Its key is made of the Message-ID, so a sender that uses one twice has one key.",
    ),
    flags={
        mail_fields.HEADERS_DECIDE: "take `to` and `cc` for the recipients of a mail that has no "
        "`envelope`; anybody can write them",
    },
)
