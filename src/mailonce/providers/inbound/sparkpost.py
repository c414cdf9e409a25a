"""SparkPost relay webhooks: https://docs.bird.com/api/email-api/relay-webhooks.

An element `relay_message` of a batch is one mail for one recipient, with the mail itself as text or
in Base64. Nothing is signed; the token that a relay webhook has comes in a header. Nothing has an
id: that of a batch names the batch.
"""

from collections.abc import Mapping
from typing import Any

from mailonce.core.arrivals.provider import InboundHook
from mailonce.core.mail.incoming import (
    ContentFormat,
    FieldsContent,
    IncomingMail,
    MimeContent,
)
from mailonce.core.reading import mail_fields, values
from mailonce.errors import ParseError

CLASS = "relay_message"


def parse_mail(element: Mapping[str, Any]) -> IncomingMail | None:
    """Read the mail of an element; None where it wraps an event.

    Raises: ParseError where the mail is not in the encoding that it claims.
    """
    message = values.mapping_of(element.get("msys")).get(CLASS)
    if not isinstance(message, dict):
        return None
    return IncomingMail(
        envelope=mail_fields.envelope_of(message.get("msg_from"), message.get("rcpt_to")),
        content=_content(values.mapping_of(message.get("content"))),
        is_signed=False,
    )


def _content(content: Mapping[str, Any]) -> MimeContent | FieldsContent:
    raw = content.get("email_rfc822")
    if raw is not None and not isinstance(raw, str):
        raise ParseError("a relayed mail has a text 'email_rfc822'")
    if raw:
        is_base64 = content.get("email_rfc822_is_base64") is True
        return mail_fields.mime_in_base64(raw) if is_base64 else mail_fields.mime_of(raw)
    listed = (values.mapping_of(one) for one in values.list_of(content.get("headers")))
    headers = tuple(pair for one in listed for pair in mail_fields.header_pairs(one))
    return FieldsContent(
        headers=headers[: mail_fields.HEADERS_MAX],
        message_id=mail_fields.header_of(headers, "message-id"),
        from_=mail_fields.mailboxes_of(mail_fields.header_of(headers, "from")),
        to=mail_fields.mailboxes_of(mail_fields.header_of(headers, "to")),
        cc=mail_fields.mailboxes_of(mail_fields.header_of(headers, "cc")),
        reply_to=mail_fields.mailboxes_of(mail_fields.header_of(headers, "reply-to")),
        subject=mail_fields.text_of(content.get("subject")),
        date=mail_fields.header_of(headers, "date"),
        text=mail_fields.text_of(content.get("text")),
        html=mail_fields.text_of(content.get("html")),
    )


INBOUND = InboundHook(
    docs="https://docs.bird.com/api/email-api/relay-webhooks",
    content=(ContentFormat.MIME, ContentFormat.FIELDS),
    envelope="`msg_from`, `rcpt_to`",
    signs_mail=False,
)
