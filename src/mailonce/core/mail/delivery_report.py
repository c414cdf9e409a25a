"""Reports about mail that was sent before: bounces and delays, receipts, and complaints.

Most mail servers write RFC 3464 (bounces), RFC 8098 (read receipts) or RFC 5965 (complaints): a
`multipart/report` with a part for programs, and the original or its header. Some write a bounce in
their own words only; Exim and qmail are recognised by theirs.
"""

import re
from collections.abc import Iterable, Sequence
from itertools import islice
from typing import Literal

from msgspec import Struct

from mailonce.core.mail.budget import DigestBudget
from mailonce.core.mail.message_ids import read_message_id
from mailonce.core.mail.mime.header_block import (
    NO_FIELDS,
    HeaderFields,
    find_header_end,
    read_header,
)
from mailonce.core.mail.mime.header_text import decode_header
from mailonce.core.text import UNSTORABLE

RECIPIENTS_MAX = 100
REPORT_BYTES_MAX = 256 << 10
ORIGINAL_BYTES_MAX = 64 << 10
VALUE_CHARS_MAX = 1_000
# The header by which our own sends are known again.
SEND_HEADER = "x-mailonce-id"

ReportKind = Literal["bounce", "delay", "delivery_report", "read_receipt", "complaint"]
ReportAction = Literal["failed", "delayed", "delivered", "relayed", "expanded"]

_ACTIONS: dict[str, ReportAction] = {
    "failed": "failed", "failure": "failed", "fail": "failed", "delayed": "delayed",
    "delay": "delayed", "delivered": "delivered", "relayed": "relayed", "expanded": "expanded",
}  # fmt: skip
_ORIGINAL_TYPES = frozenset(
    {"message/rfc822", "text/rfc822-headers", "message/rfc822-headers", "message/global",
     "message/global-headers"}
)  # fmt: skip
_STATUS = re.compile(r"(?<![\d.])([245])\.(\d{1,3})\.(\d{1,3})(?![\d.])")
_ADDRESS = re.compile(r"[^\s<>,;:()\[\]\"]{1,128}@[\w.-]{1,255}")
_QMAIL = re.compile(r"Hi\. This is the [\w. -]{1,80} at [\w.-]{1,255}")
_QMAIL_RECIPIENT = re.compile(r"^<([^<>\s]{3,320})>:\n((?:.+\n){1,20})", re.MULTILINE)
_QMAIL_ORIGINAL = "--- Below this line is a copy of the message."
_EXIM_ORIGINAL = re.compile(r"^-{3,6} This is a copy of the message.{0,200}-{3,6}$", re.MULTILINE)
_EXIM_WORDS = "This message was created automatically by mail delivery software"


class ReportedRecipient(Struct, frozen=True, kw_only=True, gc=False):
    """What became of a mail for one of its recipients."""

    address: str | None
    action: ReportAction | None
    # An enhanced status code such as 5.1.1.
    status: str | None = None
    diagnostic: str | None = None
    remote_mta: str | None = None


class MailReport(Struct, frozen=True, kw_only=True, gc=False):
    """What a report says, and about which mail."""

    kind: ReportKind
    recipients: tuple[ReportedRecipient, ...] = ()
    reporting_mta: str | None = None
    original_message_id: str | None = None
    original_subject: str | None = None
    # Our own id of the send, which returns in the original's header.
    original_send_id: str | None = None
    original_envelope_id: str | None = None
    # Of a complaint, its type, such as "abuse"; of a receipt, what was done, such as "displayed".
    detail: str | None = None


def read_report(
    fields: HeaderFields,
    contents: Sequence[tuple[str, bytes]],
    text: str | None,
    budget: DigestBudget,
) -> MailReport | None:
    """Read what a mail reports about another one; None where it is no report.

    `contents` are the types and contents of its parts.
    """
    original = _original(contents, budget)
    for type_, content in contents:
        match type_:
            case "message/delivery-status" | "message/global-delivery-status":
                return _delivery_status(content, original, budget)
            case "message/disposition-notification" | "message/global-disposition-notification":
                return _read_receipt(content, original, budget)
            case "message/feedback-report":
                return _complaint(content, original, budget)
            case _:
                pass
    return _written_by_hand(fields, text or "", original, budget)


def _original(contents: Sequence[tuple[str, bytes]], budget: DigestBudget) -> HeaderFields:
    """Find the header of the mail that a report is about."""
    for type_, content in contents:
        if type_ in _ORIGINAL_TYPES:
            return _header_of(content[:ORIGINAL_BYTES_MAX].lstrip(), budget)
    return NO_FIELDS


def _header_of(content: bytes, budget: DigestBudget) -> HeaderFields:
    end, _ = find_header_end(content, 0, len(content))
    # What is wrong with the original is not wrong with the report.
    return read_header(content[:end], DigestBudget(budget.limits))[0]


def _groups(content: bytes, budget: DigestBudget) -> list[HeaderFields]:
    """Read blocks of fields that are parted by blank lines: one for the mail, one a recipient."""
    text = content[:REPORT_BYTES_MAX].replace(b"\r\n", b"\n").strip(b"\n")
    blocks = re.split(rb"\n[ \t]*\n\s*", text, maxsplit=RECIPIENTS_MAX + 1)
    quiet = DigestBudget(budget.limits)
    return [read_header(block, quiet)[0] for block in blocks[: RECIPIENTS_MAX + 1] if block.strip()]


def _delivery_status(content: bytes, original: HeaderFields, budget: DigestBudget) -> MailReport:
    groups = _groups(content, budget)
    of_mail = groups[0] if groups else NO_FIELDS
    recipients = tuple(
        _recipient(group, budget)
        for group in groups
        if group.first("final-recipient")
        or group.first("original-recipient")
        or group.first("action")
    )
    return _about(
        original,
        budget,
        MailReport(
            kind=_kind_of(recipients),
            recipients=recipients,
            reporting_mta=_typed(of_mail.first("reporting-mta"), budget),
            original_envelope_id=_text(of_mail.first("original-envelope-id"), budget),
        ),
    )


def _kind_of(recipients: Iterable[ReportedRecipient]) -> ReportKind:
    actions = {one.action for one in recipients}
    if "failed" in actions:
        return "bounce"
    if "delayed" in actions:
        return "delay"
    return "delivery_report" if actions - {None} else "bounce"


def _recipient(group: HeaderFields, budget: DigestBudget) -> ReportedRecipient:
    address = _typed(group.first("final-recipient"), budget)
    original = _typed(group.first("original-recipient"), budget)
    words = (group.first("action") or "").split()
    status = _STATUS.search((group.first("status") or "")[:100])
    action = _ACTIONS.get(words[0].lower().strip(";,.")) if words else None
    if action is None and status is not None:
        by_class: dict[str, ReportAction] = {"5": "failed", "4": "delayed", "2": "delivered"}
        action = by_class[status[1]]
    return ReportedRecipient(
        address=_bare(original) or _bare(address),
        action=action,
        status=status[0] if status else None,
        diagnostic=_typed(group.first("diagnostic-code"), budget),
        remote_mta=_typed(group.first("remote-mta"), budget),
    )


def _read_receipt(content: bytes, original: HeaderFields, budget: DigestBudget) -> MailReport:
    fields = next(iter(_groups(content, budget)), NO_FIELDS)
    disposition = (fields.first("disposition") or "").rpartition(";")[2].strip().lower()
    word = re.match(r"[a-z-]{1,40}", disposition)
    address = _bare(
        _typed(fields.first("original-recipient") or fields.first("final-recipient"), budget)
    )
    report = MailReport(
        kind="read_receipt",
        recipients=(ReportedRecipient(address=address, action=None),) if address else (),
        original_message_id=read_message_id(fields.first("original-message-id")),
        detail=word[0] if word else None,
    )
    return _about(original, budget, report)


def _complaint(content: bytes, original: HeaderFields, budget: DigestBudget) -> MailReport:
    fields = next(iter(_groups(content, budget)), NO_FIELDS)
    addresses = [_bare(value) for value in fields.all("original-rcpt-to")[:RECIPIENTS_MAX]]
    report = MailReport(
        kind="complaint",
        recipients=tuple(ReportedRecipient(address=one, action=None) for one in addresses if one),
        reporting_mta=_typed(fields.first("reporting-mta"), budget),
        detail=(_text(fields.first("feedback-type"), budget) or "").lower()[:40] or None,
    )
    return _about(original, budget, report)


def _about(original: HeaderFields, budget: DigestBudget, report: MailReport) -> MailReport:
    """Add what the original's header says."""
    return MailReport(
        kind=report.kind,
        recipients=report.recipients,
        reporting_mta=report.reporting_mta,
        original_message_id=read_message_id(original.first("message-id"))
        or report.original_message_id,
        original_subject=_text(original.first("subject"), budget),
        original_send_id=_text(original.first(SEND_HEADER), budget),
        original_envelope_id=report.original_envelope_id,
        detail=report.detail,
    )


def _written_by_hand(
    fields: HeaderFields, text: str, original: HeaderFields, budget: DigestBudget
) -> MailReport | None:
    """Recognise bounces that have no part for programs."""
    text = text[:REPORT_BYTES_MAX]
    recipients: list[ReportedRecipient] = []
    if _QMAIL.search(text[:2_000]):
        words, _, copy = text.partition(_QMAIL_ORIGINAL)
        matches = islice(_QMAIL_RECIPIENT.finditer(words), RECIPIENTS_MAX)
        recipients += [_failed(match[1], match[2]) for match in matches]
    elif fields.first("x-failed-recipients") or _EXIM_WORDS in text[:2_000]:
        mark = _EXIM_ORIGINAL.search(text)
        words, copy = (text[: mark.start()], text[mark.end() :]) if mark else (text, "")
        failed = (fields.first("x-failed-recipients") or "")[:20_000]
        addresses = _ADDRESS.findall(failed)[:RECIPIENTS_MAX] or _ADDRESS.findall(words)[:1]
        recipients += [_failed(address, words.partition(address)[2][:500]) for address in addresses]
    if not recipients:
        return None
    if not original.fields and copy:
        original = _header_of(copy[:ORIGINAL_BYTES_MAX].lstrip().encode("utf-8", "replace"), budget)
    return _about(original, budget, MailReport(kind="bounce", recipients=tuple(recipients)))


def _failed(address: str, words: str) -> ReportedRecipient:
    status = _STATUS.search(words)
    diagnostic = " ".join(words.split())[:VALUE_CHARS_MAX]
    return ReportedRecipient(
        address=UNSTORABLE.sub("\ufffd", address[:320]),
        action="failed",
        status=status[0] if status else None,
        diagnostic=diagnostic or None,
    )


def _text(value: str | None, budget: DigestBudget) -> str | None:
    return (
        decode_header(value[: 4 * VALUE_CHARS_MAX], budget)[:VALUE_CHARS_MAX] or None
        if value
        else None
    )


def _typed(value: str | None, budget: DigestBudget) -> str | None:
    """Read `type; value`, such as `rfc822; ann@example.com`."""
    text = _text(value, budget)
    if text is None:
        return None
    kind, mark, rest = text.partition(";")
    return (rest.strip() if mark and len(kind) < 40 else text) or None


def _bare(text: str | None) -> str | None:
    match = _ADDRESS.search(text or "")
    return UNSTORABLE.sub("\ufffd", match[0][:320]) if match else None
