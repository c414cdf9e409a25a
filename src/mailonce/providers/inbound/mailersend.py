"""MailerSend inbound routes: https://developers.mailersend.com/api/v1/inbound.html.

One body is one mail, for one or more recipients, with the mail itself as `data.raw`. An inbound
route signs with a secret of its own, which is new whenever the route's URL is edited.
"""

from collections.abc import Iterator, Mapping
from typing import Any

from mailonce.core.arrivals.provider import InboundHook
from mailonce.core.arrivals.source import Source
from mailonce.core.mail.incoming import (
    Authentication,
    AuthenticationCheck,
    ContentFormat,
    FieldAttachment,
    FieldsContent,
    IncomingMail,
    MimeContent,
)
from mailonce.core.reading import mail_fields, values
from mailonce.errors import ParseError

TYPE = "inbound.message"
# The qualifiers of an SPF record; the field `value` has been null in all that was seen.
SPF_CODES = {"+": "pass", "-": "fail", "~": "softfail", "?": "neutral"}


def parse_mail(body: Mapping[str, Any], source: Source) -> IncomingMail | None:
    """Read the mail of a body; None where it is about another event.

    Raises: ParseError where its `raw` is no text.
    """
    if body.get("type") != TYPE:
        return None
    data = values.mapping_of(body.get("data"))
    listed = values.list_of(values.mapping_of(data.get("recipients")).get("rcptTo"))
    recipients = [values.mapping_of(one).get("email") for one in listed]
    sender = values.mapping_of(data.get("sender")).get("email")
    return IncomingMail(
        envelope=mail_fields.envelope_of(sender, recipients),
        content=_content(data),
        delivery_id=values.text_of(data.get("id"), 200),
        authentication=_authentication(data),
        is_signed=source.is_signed,
    )


def _content(data: Mapping[str, Any]) -> MimeContent | FieldsContent:
    raw = data.get("raw")
    if raw is not None and not isinstance(raw, str):
        raise ParseError("a mail from MailerSend has a text 'raw'")
    if raw:
        return mail_fields.mime_of(raw)
    headers = mail_fields.header_pairs(data.get("headers"))
    recipients = values.mapping_of(data.get("recipients"))
    return FieldsContent(
        headers=headers,
        message_id=mail_fields.header_of(headers, "message-id"),
        from_=mail_fields.named_mailboxes(data.get("from"), address="email", name="name"),
        to=mail_fields.mailboxes_of(values.mapping_of(recipients.get("to")).get("raw")),
        cc=mail_fields.mailboxes_of(mail_fields.header_of(headers, "cc")),
        reply_to=mail_fields.mailboxes_of(mail_fields.header_of(headers, "reply-to")),
        subject=mail_fields.text_of(data.get("subject")),
        date=values.text_of(data.get("date"), 200),
        text=mail_fields.text_of(data.get("text")),
        html=mail_fields.text_of(data.get("html")),
        attachments=tuple(_attachments(data.get("attachments"))),
    )


def _attachments(given: Any) -> Iterator[FieldAttachment]:
    for one in mail_fields.files_of(given):
        yield FieldAttachment(
            name=values.text_of(one.get("file_name")),
            type=mail_fields.type_of(one.get("content_type")),
            content=mail_fields.content_in_base64(one.get("content")),
            content_id=mail_fields.content_id_of(one.get("content_id")),
            is_inline=one.get("content_disposition") == "inline",
        )


def _authentication(data: Mapping[str, Any]) -> Authentication | None:
    """Read the SPF check; `dkim_check` has been false in all that was seen, and says nothing."""
    code = values.word_of(values.mapping_of(data.get("spf_check")).get("code"))
    if not code:
        return None
    result = mail_fields.result_of(SPF_CODES.get(code, "unknown"))
    return Authentication(spf=AuthenticationCheck(result=result))


INBOUND = InboundHook(
    docs="https://developers.mailersend.com/api/v1/inbound.html",
    content=(ContentFormat.MIME, ContentFormat.FIELDS),
    envelope="`data.sender`, `data.recipients.rcptTo`",
    signs_mail=True,
    delivery_id="data.id",
    retry_horizon_s=3 * 86_400,
    differences=(
        "The mail comes as text, so bytes that are no UTF-8 are lost.",
        "MailerSend puts a header `X-Envelope-From` before the others.",
    ),
)
