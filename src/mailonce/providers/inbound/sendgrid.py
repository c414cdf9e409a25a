"""SendGrid Inbound Parse: https://www.twilio.com/docs/sendgrid/for-developers/parsing-email/inbound-email.

A form in parts. With "POST the raw, full MIME message" it has the mail itself as `email`; else it
has what SendGrid read from it, each text in the charset that `charsets` names for it. Nothing in it
tells one mail from another but its content. Signed by a security policy as events are, if at all.
"""

import re
from collections.abc import Iterator, Mapping, Sequence
from typing import Any

from msgspec.structs import replace

from mailonce.core import json_text
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
    SpamVerdict,
)
from mailonce.core.reading import mail_fields, values
from mailonce.core.reading.multipart import FormPart
from mailonce.errors import ParseError

# Nobody knows whether a retry is signed anew; it may come for three days.
FRESHNESS_S = 3 * 86_400 + 600

# It looks like JSON and is none: `{@example.com : pass}`.
_DKIM = re.compile(r"@([A-Za-z0-9._-]{1,253}+)[ \t]*+:[ \t]*+([A-Za-z]{1,20}+)")


def parse_mail(parts: Sequence[FormPart], source: Source) -> IncomingMail:
    """Read the one mail of a post.

    Raises: ParseError where it has no mail in either form.
    """
    fields: dict[str, bytes] = {}
    for part in parts:
        if part.filename is None:
            fields.setdefault(part.name, part.content)
    if "headers" in fields:
        content: FieldsContent | MimeContent = _fields_content(fields, parts)
    elif "email" in fields:
        content = MimeContent(fields["email"])
    else:
        raise ParseError("a mail from SendGrid has the field 'email' or 'headers'")
    envelope = _object(fields, "envelope")
    return IncomingMail(
        envelope=replace(
            mail_fields.envelope_of(envelope.get("from"), envelope.get("to")),
            client_ip=values.text_of(_text(fields, "sender_ip"), 60),
        ),
        content=content,
        authentication=_authentication(fields),
        spam=_spam(fields),
        is_signed=source.is_signed,
    )


def _fields_content(fields: Mapping[str, bytes], parts: Sequence[FormPart]) -> FieldsContent:
    charsets = _object(fields, "charsets")

    def text(name: str) -> str | None:
        raw = fields.get(name)
        named = values.text_of(charsets.get(name), 60)
        return None if raw is None else mail_fields.decoded_text(raw, named)

    headers = mail_fields.header_lines(text("headers") or "")
    return FieldsContent(
        headers=headers,
        message_id=mail_fields.header_of(headers, "message-id"),
        from_=mail_fields.mailboxes_of(text("from")),
        to=mail_fields.mailboxes_of(text("to")),
        cc=mail_fields.mailboxes_of(text("cc")),
        reply_to=mail_fields.mailboxes_of(mail_fields.header_of(headers, "reply-to")),
        subject=text("subject"),
        date=mail_fields.header_of(headers, "date"),
        text=text("text"),
        html=text("html"),
        attachments=tuple(_attachments(_object(fields, "attachment-info"), parts)),
    )


def _attachments(info: Mapping[str, Any], parts: Sequence[FormPart]) -> Iterator[FieldAttachment]:
    """Give the files; what SendGrid says of one counts before what its part says."""
    for part in parts:
        own = values.mapping_of(info.get(part.name))
        if part.filename is None and not own:
            continue
        name = values.text_of(own.get("filename")) or values.text_of(own.get("name"))
        content_id = mail_fields.content_id_of(own.get("content-id"))
        yield FieldAttachment(
            name=name or values.text_of(part.filename),
            type=mail_fields.type_of(own.get("type") or part.type),
            content=part.content,
            content_id=content_id,
            is_inline=content_id is not None,
        )


def _authentication(fields: Mapping[str, bytes]) -> Authentication | None:
    spf = mail_fields.check_of(_text(fields, "SPF"))
    dkim = tuple(
        AuthenticationCheck(result=mail_fields.result_of(one[2]), domain=one[1].lower())
        for one in _DKIM.finditer(_text(fields, "dkim")[:10_000])
    )
    return Authentication(spf=spf, dkim=dkim) if spf is not None or dkim else None


def _spam(fields: Mapping[str, bytes]) -> SpamVerdict | None:
    score = mail_fields.number_of(_text(fields, "spam_score"))
    return None if score is None else SpamVerdict(score=score, engine="SpamAssassin")


def _object(fields: Mapping[str, bytes], name: str) -> Mapping[str, Any]:
    """Read a field that is a JSON object; where it is none, it says nothing."""
    try:
        return values.mapping_of(json_text.read(fields.get(name, b"{}")))
    except ParseError:
        return {}


def _text(fields: Mapping[str, bytes], name: str) -> str:
    return fields.get(name, b"").decode("utf-8", "replace")


INBOUND = InboundHook(
    docs="https://www.twilio.com/docs/sendgrid/for-developers/parsing-email/inbound-email",
    content=(ContentFormat.MIME, ContentFormat.FIELDS),
    envelope="`envelope`",
    signs_mail=True,
    retry_horizon_s=3 * 86_400,
    differences=("Without the raw mail, an attachment that has a Content-ID counts as inline.",),
)
