"""Postal's HTTP endpoints: https://docs.postalserver.io/developer/http-payloads.

One body is one mail for one recipient, as JSON or as a form, and in one of two formats: the mail
itself, in Base64, or what Postal read from it (app/senders/http_sender.rb). Signed as events are.
A 5xx is tried again; any other answer fails for good, and may bounce to the sender.
"""

import re
from collections.abc import Iterator, Mapping, Sequence
from typing import Any

from mailonce.core.arrivals.provider import InboundHook
from mailonce.core.arrivals.source import Source
from mailonce.core.mail.incoming import (
    ContentFormat,
    FieldAttachment,
    FieldsContent,
    IncomingMail,
    MimeContent,
    SpamVerdict,
)
from mailonce.core.reading import mail_fields, values
from mailonce.errors import ParseError

SPAM = {"NotSpam": False, "Spam": True}

# A form has an attachment's fields as `attachments[0][filename]`.
_FLAT = re.compile(r"attachments\[([0-9]{1,4})\]\[([a-z_]{1,20})\]")


def is_mail(body: Mapping[str, Any]) -> bool:
    """Tell a mail from an event, which has a word for what happened."""
    return "event" not in body and "rcpt_to" in body


def parse_mail(body: Mapping[str, Any], source: Source) -> IncomingMail:
    """Read the one mail of a body.

    Raises: ParseError where it is not in the encoding that it claims.
    """
    is_spam = SPAM.get(values.word_of(body.get("spam_status")))
    return IncomingMail(
        envelope=mail_fields.envelope_of(body.get("mail_from"), body.get("rcpt_to")),
        content=_content(body),
        delivery_id=values.text_of(body.get("id"), 200),
        spam=None if is_spam is None else SpamVerdict(is_spam=is_spam),
        is_signed=source.is_signed,
    )


def _content(body: Mapping[str, Any]) -> MimeContent | FieldsContent:
    raw = body.get("message")
    if isinstance(raw, str) and raw:
        is_base64 = body.get("base64") is True or body.get("base64") == "true"
        return mail_fields.mime_in_base64(raw) if is_base64 else mail_fields.mime_of(raw)
    if raw is not None:
        raise ParseError("a mail from Postal has a text 'message'")
    named = ("in_reply_to", "references", "auto_submitted")
    headers = tuple(
        (name.replace("_", "-").title(), text)
        for name in named
        if (text := mail_fields.text_of(body.get(name))) is not None
    )
    # With "strip replies" the text is the reply, and the quotation stands apart.
    quoted = mail_fields.text_of(body.get("replies_from_plain_body"))
    text = mail_fields.text_of(body.get("plain_body"))
    return FieldsContent(
        headers=headers,
        message_id=_message_id(body.get("message_id")),
        from_=mail_fields.mailboxes_of(body.get("from")),
        to=mail_fields.mailboxes_of(body.get("to")),
        cc=mail_fields.mailboxes_of(body.get("cc")),
        reply_to=mail_fields.mailboxes_of(body.get("reply_to")),
        subject=mail_fields.text_of(body.get("subject")),
        date=values.text_of(body.get("date"), 200),
        text=text if quoted is None else f"{text or ''}\n{quoted}",
        html=mail_fields.text_of(body.get("html_body")),
        reply_text=None if quoted is None else text,
        attachments=tuple(_attachments(body)),
    )


def _message_id(value: Any) -> str | None:
    """Give the id its angle brackets, which Postal leaves out."""
    text = values.text_of(value, 1_000)
    return f"<{text}>" if text is not None and not text.startswith("<") else text


def _attachments(body: Mapping[str, Any]) -> Iterator[FieldAttachment]:
    for one in _listed(body):
        yield FieldAttachment(
            name=values.text_of(one.get("filename")),
            type=mail_fields.type_of(one.get("content_type")),
            content=mail_fields.content_in_base64(one.get("data")),
        )


def _listed(body: Mapping[str, Any]) -> Sequence[Mapping[str, Any]]:
    if "attachments" in body:
        return mail_fields.files_of(body["attachments"])
    flat: dict[int, dict[str, Any]] = {}
    for name, value in body.items():
        match = _FLAT.fullmatch(name)
        if match is not None:
            flat.setdefault(int(match[1]), {})[match[2]] = value
    return [flat[place] for place in sorted(flat)]


INBOUND = InboundHook(
    docs="https://docs.postalserver.io/developer/http-payloads",
    content=(ContentFormat.MIME, ContentFormat.FIELDS),
    envelope="`mail_from`, `rcpt_to`",
    signs_mail=True,
    delivery_id="id",
    # Eighteen attempts, each 1.3 times as late as the one before, from five minutes on.
    retry_horizon_s=2 * 86_400,
    differences=(
        "Processed mail has few headers, and no Content-IDs.",
        "It has attachments only if the endpoint is set to include them.",
    ),
)
