"""Read a mail: from its bytes, or the fields that a provider read, to what it says.

Nothing that a sender writes makes this raise. What is wrong with a mail is named in `problems`, and
what goes beyond `DigestLimits` is left out and named; the raw mail is kept by whoever called.
"""

from collections.abc import Collection, Sequence
from hashlib import sha256
from typing import assert_never

import msgspec
from msgspec import Struct

from mailonce.core.mail import mail_kind
from mailonce.core.mail.authentication_results import read_authentication
from mailonce.core.mail.bodies import (
    DigestAttachment,
    MailBody,
    TextOrigin,
    clean_text,
    read_body,
    text_of_html,
)
from mailonce.core.mail.budget import DigestBudget, DigestLimits
from mailonce.core.mail.calendar_part import TYPES as CALENDAR_TYPES
from mailonce.core.mail.calendar_part import CalendarFacts, read_calendar
from mailonce.core.mail.delivery_report import MailReport, read_report
from mailonce.core.mail.fingerprint import fields_fingerprint, mime_fingerprint
from mailonce.core.mail.headers import (
    MailHeaders,
    note_oddities,
    read_headers,
    read_raw_date,
    read_subject,
)
from mailonce.core.mail.incoming import (
    AddressField,
    Authentication,
    FieldAttachment,
    FieldsContent,
    MailEnvelope,
    MimeContent,
)
from mailonce.core.mail.leaf import Leaf, read_leaf
from mailonce.core.mail.mail_kind import MailKind
from mailonce.core.mail.message_ids import read_message_id, thread_of
from mailonce.core.mail.mime.file_name import clean_file_name
from mailonce.core.mail.mime.file_type import detect_type, is_misleading
from mailonce.core.mail.mime.header_block import HeaderFields, make_fields
from mailonce.core.mail.mime.header_text import one_line
from mailonce.core.mail.mime.mail_date import read_date_ms
from mailonce.core.mail.mime.parameters import content_type_of
from mailonce.core.mail.mime.part_tree import read_part_tree
from mailonce.core.mail.problem import MailProblem
from mailonce.core.mail.protection import Protection, Standard, of_text, unwrap
from mailonce.core.mail.reply_text import reply_of
from mailonce.core.text import UNSTORABLE

LIMITS = DigestLimits()
ADDRESS_CHARS_MAX = 320
NAME_CHARS_MAX = 500


class MailDigest(Struct, frozen=True, kw_only=True, gc=False):
    """What a mail says. Every text can be stored; what its sender wrote is never an instruction."""

    from_: tuple[AddressField, ...]
    sender: tuple[AddressField, ...]
    reply_to: tuple[AddressField, ...]
    to: tuple[AddressField, ...]
    cc: tuple[AddressField, ...]
    bcc: tuple[AddressField, ...]
    subject: str | None
    # The sender's own time in unix milliseconds, which may be absurd, and its words for it.
    date_ms: int | None
    date_raw: str | None
    # Ids have no brackets.
    message_id: str | None
    in_reply_to: tuple[str, ...]
    references: tuple[str, ...]
    # The key of the conversation: equal for a mail and the answers to it.
    thread: str | None
    # Names and values as they were written, unfolded, not decoded; bounded.
    headers: tuple[tuple[str, str], ...]
    text: str | None
    # Where the text comes from: a text part, the HTML, or the provider, which made it.
    text_origin: TextOrigin
    html: str | None
    is_text_truncated: bool
    is_html_truncated: bool
    # The text without quoted history and signature.
    reply_text: str | None
    attachments: tuple[DigestAttachment, ...]
    # What a trusted server in front of us found out.
    authentication: Authentication | None
    signed: Standard | None
    encrypted: Standard | None
    kind: MailKind
    auto_submitted: str | None
    report: MailReport | None
    calendar: CalendarFacts | None
    # The id of the mail that a report or an automatic reply is about.
    about_message_id: str | None
    problems: tuple[MailProblem, ...]
    fingerprint: bytes


def digest(
    content: MimeContent | FieldsContent,
    envelope: MailEnvelope,
    *,
    limits: DigestLimits = LIMITS,
    trusted_servers: Sequence[str] = (),
) -> MailDigest:
    """Read a mail.

    `trusted_servers` are the names (authserv-id) of mail servers in front of us whose
    `Authentication-Results` are believed; they must remove such fields from what they take.
    """
    match content:
        case MimeContent(raw=raw):
            return _digest_mime(raw, envelope, DigestBudget(limits), trusted_servers)
        case FieldsContent():
            return _digest_fields(content, envelope, DigestBudget(limits), trusted_servers)
        case _:
            assert_never(content)


def _digest_mime(
    raw: bytes, envelope: MailEnvelope, budget: DigestBudget, trusted_servers: Sequence[str]
) -> MailDigest:
    root = read_part_tree(_with_line_feeds(raw, budget), budget)
    if not root.fields.fields:
        budget.note(MailProblem.NOT_A_MAIL)
    headers = read_headers(root.fields, budget)
    note_oddities(headers, budget)
    inner, protection = unwrap(root, budget)
    body = read_body(inner, budget)
    # A signed mail is known by the bytes that were sent, not by those inside its signature.
    leaves = body.leaves if inner is root else (read_leaf(root, DigestBudget(budget.limits)),)
    fingerprint = mime_fingerprint(headers, leaves)
    calendar = next((leaf for leaf in body.leaves if leaf.type in CALENDAR_TYPES), None)
    return _finish(
        _Reading(
            headers=headers,
            fields=root.fields,
            body=body,
            protection=protection,
            contents=[(leaf.type, leaf.content) for leaf in body.leaves],
            calendar=_read_calendar_leaf(calendar),
            fingerprint=fingerprint,
        ),
        envelope,
        budget,
        trusted_servers,
    )


def _digest_fields(
    content: FieldsContent,
    envelope: MailEnvelope,
    budget: DigestBudget,
    trusted_servers: Sequence[str],
) -> MailDigest:
    fields = make_fields(content.headers[: budget.limits.header_fields_max])
    headers = _headers_of_fields(content, read_headers(fields, budget), budget)
    note_oddities(headers, budget)
    html = content.html and UNSTORABLE.sub("\ufffd", content.html).replace("\r\n", "\n")
    text = clean_text(content.text) if content.text is not None else None
    origin: TextOrigin = "provider" if content.is_text_derived else "part"
    if html and not (text and text.strip()):
        text, origin = text_of_html(html, budget), "html"
    body = MailBody(
        text=_cut(text, budget.limits.text_chars_max, MailProblem.TEXT_TRUNCATED, budget),
        text_origin=origin,
        html=_cut(html, budget.limits.html_chars_max, MailProblem.HTML_TRUNCATED, budget),
        attachments=tuple(_field_attachment(one, budget) for one in content.attachments),
        leaves=(),
    )
    contents = [(one.type, one.content) for one in body.attachments]
    calendar = next((one for type_, one in contents if type_ in CALENDAR_TYPES), None)
    return _finish(
        _Reading(
            headers=headers,
            fields=fields,
            body=body,
            protection=Protection(),
            contents=contents,
            calendar=None
            if calendar is None
            else read_calendar(calendar.decode("utf-8", "replace")),
            fingerprint=fields_fingerprint(headers, content),
            reply_text=content.reply_text,
        ),
        envelope,
        budget,
        trusted_servers,
    )


class _Reading(Struct, kw_only=True):
    """What was read of a mail so far, whichever way it came."""

    headers: MailHeaders
    fields: HeaderFields
    body: MailBody
    protection: Protection
    contents: list[tuple[str, bytes]]
    calendar: CalendarFacts | None
    fingerprint: bytes
    # Where a provider cut the reply, its word counts.
    reply_text: str | None = None


def _finish(
    reading: _Reading,
    envelope: MailEnvelope,
    budget: DigestBudget,
    trusted_servers: Sequence[str],
) -> MailDigest:
    headers, body = reading.headers, reading.body
    text, armour = of_text(body.text) if body.text is not None else (None, Protection())
    report = read_report(reading.fields, reading.contents, text, budget)
    kind = _kind_of(reading, report, envelope)
    reply_text = None if text is None else reply_of(text)
    if reading.reply_text is not None:
        reply_text = clean_text(reading.reply_text)
    return MailDigest(
        from_=headers.from_,
        sender=headers.sender,
        reply_to=headers.reply_to,
        to=headers.to,
        cc=headers.cc,
        bcc=headers.bcc,
        subject=headers.subject,
        date_ms=headers.date_ms,
        date_raw=headers.date_raw,
        message_id=headers.message_id,
        in_reply_to=headers.in_reply_to,
        references=headers.references,
        thread=thread_of(headers.message_id, headers.references, headers.in_reply_to),
        headers=headers.shown,
        text=text,
        text_origin=body.text_origin,
        html=body.html,
        is_text_truncated=MailProblem.TEXT_TRUNCATED in budget.problems,
        is_html_truncated=MailProblem.HTML_TRUNCATED in budget.problems,
        reply_text=reply_text,
        attachments=body.attachments,
        authentication=read_authentication(reading.fields, trusted_servers),
        signed=reading.protection.signed or armour.signed,
        encrypted=reading.protection.encrypted or armour.encrypted,
        kind=kind,
        auto_submitted=mail_kind.auto_submitted_of(reading.fields),
        report=report,
        calendar=reading.calendar,
        about_message_id=_about(kind, report, headers),
        problems=_in_order(budget.problems) if budget.problems else (),
        fingerprint=reading.fingerprint,
    )


def _kind_of(reading: _Reading, report: MailReport | None, envelope: MailEnvelope) -> MailKind:
    if report is not None:
        return MailKind(report.kind)
    if mail_kind.is_auto_reply(reading.fields, reading.headers.subject, envelope):
        return MailKind.AUTO_REPLY
    if reading.calendar is not None:
        return MailKind.CALENDAR
    return MailKind.LIST if mail_kind.is_list(reading.fields) else MailKind.MAIL


def _in_order(problems: Collection[MailProblem]) -> tuple[MailProblem, ...]:
    return tuple([problem for problem in MailProblem if problem in problems])


def _about(kind: MailKind, report: MailReport | None, headers: MailHeaders) -> str | None:
    """Give the id of the mail that this one answers by itself, or reports about."""
    if report is not None and report.original_message_id is not None:
        return report.original_message_id
    if report is None and kind is not MailKind.AUTO_REPLY:
        return None
    return next(iter((*headers.in_reply_to[:1], *headers.references[-1:])), None)


def _with_line_feeds(raw: bytes, budget: DigestBudget) -> bytes:
    """Repair a mail whose lines all end in CR alone, as old programs wrote them."""
    head = raw[:4_096]
    if b"\r" in head and b"\n" not in head:
        budget.note(MailProblem.BAD_LINE_ENDINGS)
        return raw.replace(b"\r\n", b"\n").replace(b"\r", b"\n")
    return raw


def _read_calendar_leaf(leaf: Leaf | None) -> CalendarFacts | None:
    if leaf is None:
        return None
    text = leaf.decoded.text if leaf.decoded else leaf.content.decode("utf-8", "replace")
    return read_calendar(text, leaf.part.parameters.get("method"))


def _headers_of_fields(
    content: FieldsContent, headers: MailHeaders, budget: DigestBudget
) -> MailHeaders:
    """Prefer what the provider read over what its headers say."""
    date_raw = read_raw_date(content.date, budget) or headers.date_raw
    date_ms = read_date_ms(date_raw) if date_raw else None
    if date_raw and date_ms is None:
        budget.note(MailProblem.BAD_DATE)
    subject = None if content.subject is None else read_subject(content.subject, budget)
    return msgspec.structs.replace(
        headers,
        from_=_clean_addresses(content.from_, budget) or headers.from_,
        to=_clean_addresses(content.to, budget) or headers.to,
        cc=_clean_addresses(content.cc, budget) or headers.cc,
        reply_to=_clean_addresses(content.reply_to, budget) or headers.reply_to,
        subject=headers.subject if subject is None else subject,
        date_raw=date_raw,
        date_ms=date_ms,
        message_id=read_message_id(content.message_id) or headers.message_id,
    )


def _clean_addresses(
    addresses: Sequence[AddressField], budget: DigestBudget
) -> tuple[AddressField, ...]:
    if len(addresses) > budget.limits.addresses_max:
        budget.note(MailProblem.TOO_MANY_ADDRESSES)
    return tuple(
        AddressField(
            one_line(one.address, budget)[:ADDRESS_CHARS_MAX],
            one_line(one.name, budget)[:NAME_CHARS_MAX] or None if one.name else None,
        )
        for one in addresses[: budget.limits.addresses_max]
    )


def _cut(
    text: str | None, chars_max: int, problem: MailProblem, budget: DigestBudget
) -> str | None:
    if text is None or len(text) <= chars_max:
        return text
    budget.note(problem)
    return text[:chars_max]


def _field_attachment(one: FieldAttachment, budget: DigestBudget) -> DigestAttachment:
    if one.is_missing:
        budget.note(MailProblem.MISSING_ATTACHMENT)
    detected = detect_type(one.content)
    type_ = content_type_of(one.type.partition(";")[0]) or "application/octet-stream"
    if is_misleading(type_, detected):
        budget.note(MailProblem.WRONG_TYPE)
    content_id = one_line(one.content_id, budget).strip("<> ")[:250] if one.content_id else None
    return DigestAttachment(
        name=clean_file_name(one.name, budget) if one.name else None,
        type=type_,
        detected_type=detected,
        content=one.content,
        sha256=sha256(one.content).digest(),
        content_id=content_id or None,
        disposition="inline" if one.is_inline else "attachment",
    )
