"""Mandrill inbound: https://mailchimp.com/developer/transactional/docs/receiving-mail/.

An event `inbound` of a batch is one mail for one recipient, with the mail itself as `raw_msg`. Its
`sender` means nothing here, so the envelope's sender is unknown; nothing has an id.
"""

from collections.abc import Iterator, Mapping
from typing import Any

from mailonce.core.arrivals.provider import InboundHook
from mailonce.core.arrivals.source import Source
from mailonce.core.mail.incoming import (
    AddressField,
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


def parse_mail(element: Mapping[str, Any], source: Source) -> IncomingMail | None:
    """Read the mail of an event; None where it is another event."""
    if element.get("event") != "inbound":
        return None
    message = values.mapping_of(element.get("msg"))
    report = values.mapping_of(message.get("spam_report"))
    score = mail_fields.number_of(report.get("score"))
    return IncomingMail(
        envelope=mail_fields.envelope_of(None, message.get("email")),
        content=_content(message),
        authentication=_authentication(message),
        spam=None if score is None else SpamVerdict(score=score, engine="SpamAssassin"),
        is_signed=source.is_signed,
    )


def _content(message: Mapping[str, Any]) -> MimeContent | FieldsContent:
    raw = message.get("raw_msg")
    if isinstance(raw, str) and raw:
        return mail_fields.mime_of(raw)
    headers = mail_fields.header_pairs(message.get("headers"))
    sender = values.text_of(message.get("from_email"), values.ADDRESS_CHARS_MAX)
    name = values.text_of(message.get("from_name"), 1_000)
    return FieldsContent(
        headers=headers,
        message_id=mail_fields.header_of(headers, "message-id"),
        from_=() if sender is None else (AddressField(sender, name),),
        to=_people(message.get("to")),
        cc=_people(message.get("cc")),
        reply_to=mail_fields.mailboxes_of(mail_fields.header_of(headers, "reply-to")),
        subject=mail_fields.text_of(message.get("subject")),
        date=mail_fields.header_of(headers, "date"),
        text=mail_fields.text_of(message.get("text")),
        html=mail_fields.text_of(message.get("html")),
        attachments=(
            *_attachments(message.get("attachments"), is_inline=False),
            *_attachments(message.get("images"), is_inline=True),
        ),
    )


def _people(given: Any) -> tuple[AddressField, ...]:
    """Read mailboxes, which come as lists of an address and a name."""
    people: list[AddressField] = []
    for one in values.list_of(given)[: mail_fields.RECIPIENTS_MAX]:
        address, name = (*values.list_of(one), None, None)[:2]
        text = values.text_of(address, values.ADDRESS_CHARS_MAX)
        if text is not None:
            people.append(AddressField(text, values.text_of(name, 1_000)))
    return tuple(people)


def _attachments(given: Any, *, is_inline: bool) -> Iterator[FieldAttachment]:
    """Read files, which come under their names; an image's name is its Content-ID."""
    named = values.mapping_of(given)
    for name, one in zip(named, mail_fields.files_of(list(named.values())), strict=True):
        text = one.get("content")
        is_base64 = is_inline or one.get("base64") is True
        plain = values.word_of(text).encode("utf-8", "surrogatepass")
        yield FieldAttachment(
            name=values.text_of(one.get("name") or name),
            type=mail_fields.type_of(one.get("type")),
            content=mail_fields.content_in_base64(text) if is_base64 else plain,
            content_id=mail_fields.content_id_of(name) if is_inline else None,
            is_inline=is_inline,
        )


def _authentication(message: Mapping[str, Any]) -> Authentication | None:
    spf_report = values.mapping_of(message.get("spf"))
    spf = mail_fields.check_of(spf_report.get("result"))
    detail = values.text_of(spf_report.get("detail"), 500)
    if spf is not None and detail is not None:
        spf = AuthenticationCheck(result=spf.result, detail=detail)
    dkim = _dkim(values.mapping_of(message.get("dkim")))
    return None if spf is None and not dkim else Authentication(spf=spf, dkim=dkim)


def _dkim(report: Mapping[str, Any]) -> tuple[AuthenticationCheck, ...]:
    match report.get("signed"), report.get("valid"):
        case False, _:
            return (AuthenticationCheck(result="none"),)
        case True, bool(is_valid):
            return (AuthenticationCheck(result="pass" if is_valid else "fail"),)
        case _:
            return ()


INBOUND = InboundHook(
    docs="https://mailchimp.com/developer/transactional/docs/receiving-mail/",
    content=(ContentFormat.MIME, ContentFormat.FIELDS),
    envelope="`msg.email`; without the sender",
    signs_mail=True,
    differences=("The mail comes as text, so bytes that are no UTF-8 are lost.",),
)
