"""The header of a mail, read: who, to whom, about what, when, and in answer to what."""

import re

from msgspec import Struct

from mailonce.core.mail.budget import DigestBudget
from mailonce.core.mail.incoming import AddressField
from mailonce.core.mail.message_ids import read_message_id, read_references
from mailonce.core.mail.mime.address_list import read_addresses
from mailonce.core.mail.mime.header_block import HeaderFields
from mailonce.core.mail.mime.header_text import decode_header, decode_raw_bytes, one_line
from mailonce.core.mail.mime.mail_date import read_date_ms
from mailonce.core.mail.problem import MailProblem
from mailonce.core.mail.unicode_form import unicode_form

SUBJECT_CHARS_MAX = 2_000
DATE_CHARS_MAX = 200
NAME_CHARS_MAX = 200
# Fields that a mail has once; of a second one, programs show now this, now that.
ONCE = (
    "from", "sender", "reply-to", "to", "cc", "bcc", "subject", "date", "message-id",
    "in-reply-to", "references", "content-type", "content-transfer-encoding", "mime-version",
)  # fmt: skip

_ADDRESS_FIELDS = ("from", "sender", "reply-to", "to", "cc", "bcc")
# Overrides of the direction of text, and spaces without width: they make words look like others.
_MISLEADING = re.compile("[\u202d\u202e\u2066-\u2069\u200b\u2060\ufeff]")


class MailHeaders(Struct, frozen=True, kw_only=True, gc=False):
    """The fields of a header that every mail may have."""

    from_: tuple[AddressField, ...] = ()
    sender: tuple[AddressField, ...] = ()
    reply_to: tuple[AddressField, ...] = ()
    to: tuple[AddressField, ...] = ()
    cc: tuple[AddressField, ...] = ()
    bcc: tuple[AddressField, ...] = ()
    subject: str | None = None
    # Unix milliseconds; the sender's word, which may be absurd.
    date_ms: int | None = None
    date_raw: str | None = None
    # Without brackets.
    message_id: str | None = None
    in_reply_to: tuple[str, ...] = ()
    references: tuple[str, ...] = ()
    # Names as they were written and values unfolded, but not decoded; bounded.
    shown: tuple[tuple[str, str], ...] = ()


def read_headers(fields: HeaderFields, budget: DigestBudget) -> MailHeaders:
    """Read a header, and note what is wrong with it."""
    for name in ONCE:
        if len(fields.all(name)) > 1:
            budget.note(MailProblem.DUPLICATE_HEADER)
    if len(fields.all("from")) > 1:
        # Readers differ in which one they show.
        budget.note(MailProblem.SEVERAL_FROM)
    lists = {name: read_addresses(fields.first(name) or "", budget) for name in _ADDRESS_FIELDS}
    date_raw = read_raw_date(fields.first("date"), budget)
    date_ms = read_date_ms(date_raw) if date_raw else None
    if date_raw and date_ms is None:
        budget.note(MailProblem.BAD_DATE)
    subject = fields.first("subject")
    return MailHeaders(
        from_=lists["from"],
        sender=lists["sender"],
        reply_to=lists["reply-to"],
        to=lists["to"],
        cc=lists["cc"],
        bcc=lists["bcc"],
        subject=None if subject is None else read_subject(subject, budget),
        date_ms=date_ms,
        date_raw=date_raw,
        message_id=read_message_id(fields.first("message-id")),
        in_reply_to=read_references(fields.all("in-reply-to")[:1], budget),
        references=read_references(fields.all("references")[:1], budget),
        shown=_shown(fields, budget),
    )


def read_subject(value: str, budget: DigestBudget) -> str:
    """Decode a subject, in the one spelling that Unicode has for it (NFC)."""
    return unicode_form("NFC", decode_header(value, budget))[:SUBJECT_CHARS_MAX]


def read_raw_date(value: str | None, budget: DigestBudget) -> str | None:
    """Give a date as its sender wrote it, on one line."""
    if not value:
        return None
    return (
        one_line(decode_raw_bytes(value[: 4 * DATE_CHARS_MAX], budget), budget)[:DATE_CHARS_MAX]
        or None
    )


def note_oddities(headers: MailHeaders, budget: DigestBudget) -> None:
    """Note what a mail should have and this one has not, and what hides something in it."""
    names = (one.name or "" for one in (*headers.from_, *headers.sender, *headers.reply_to))
    if any(_MISLEADING.search(text) for text in (headers.subject or "", *names)):
        budget.note(MailProblem.INVISIBLE_CHARACTERS)
    if not headers.from_:
        budget.note(MailProblem.MISSING_FROM)
    elif len(headers.from_) > 1:
        budget.note(MailProblem.SEVERAL_FROM)
    if headers.date_raw is None:
        budget.note(MailProblem.MISSING_DATE)
    if headers.message_id is None:
        budget.note(MailProblem.MISSING_MESSAGE_ID)


def _shown(fields: HeaderFields, budget: DigestBudget) -> tuple[tuple[str, str], ...]:
    shown: list[tuple[str, str]] = []
    left = budget.limits.shown_headers_chars_max
    for name, value in fields.fields:
        text = value if value.isprintable() else one_line(decode_raw_bytes(value, budget), budget)
        left -= len(name) + len(text)
        if left < 0:
            budget.note(MailProblem.HEADER_TOO_LARGE)
            break
        shown.append((name[:NAME_CHARS_MAX], text))
    return tuple(shown)
