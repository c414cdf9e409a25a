"""A message as users see it: `mailonce.message/1`, its id, and the view for `reader` keys."""

from collections.abc import Mapping, Sequence
from hashlib import sha256
from typing import Any

import msgspec

from mailonce.core import ids
from mailonce.core.mail.bodies import DigestAttachment
from mailonce.core.mail.budget import cut_html
from mailonce.core.mail.digest import LIMITS, MailDigest
from mailonce.core.mail.incoming import AddressField, Authentication, MailEnvelope, SpamVerdict
from mailonce.core.mail.invisible_characters import remove_invisible
from mailonce.core.mail.message_schema import SCHEMA, message_schema
from mailonce.core.mail.reply_text import reply_of
from mailonce.core.mail.visible_text import read_visible_text
from mailonce.core.moment import moment

__all__ = ["attachment_id_of", "cleaned_text", "document", "message_id_of", "message_schema"]


def message_id_of(workspace: str, inbox: str, fingerprint: bytes) -> str:
    """Make the id by which all copies of one mail in one inbox are known."""
    hashed = sha256()
    for value in (b"mailonce.message/1", workspace.encode(), inbox.encode(), fingerprint):
        hashed.update(len(value).to_bytes(8, "big"))
        hashed.update(value)
    return ids.public("msg", hashed.digest()[: ids.ID_BYTES])


def attachment_id_of(message_id: str, position: int, content_sha256: bytes) -> str:
    """Make the id of a message's attachment, counted from 0."""
    hashed = sha256(f"{message_id}|{position}|".encode() + content_sha256)
    return ids.public("att", hashed.digest()[: ids.ID_BYTES])


def document(
    digest: MailDigest,
    *,
    id: str,  # noqa: A002, the name of the field
    inbox: str,
    address: str,
    seq: int,
    received_ms: int,
    envelope: MailEnvelope,
    authentication: Authentication | None = None,
    spam: SpamVerdict | None = None,
    raw_bytes: int | None = None,
    raw_sha256: bytes | None = None,
    source: Mapping[str, Any] | None = None,
) -> dict[str, Any]:
    """Write a message as JSON can hold it. What a trusted server said counts before a provider."""
    return {
        "schema": SCHEMA,
        "id": id,
        "seq": seq,
        "inbox": inbox,
        "address": address,
        "received_at": moment(received_ms),
        "message_id": digest.message_id,
        "from": _mailbox(digest.from_[0]) if digest.from_ else None,
        "sender": _mailbox(digest.sender[0]) if digest.sender else None,
        "reply_to": _mailboxes(digest.reply_to),
        "to": _mailboxes(digest.to),
        "cc": _mailboxes(digest.cc),
        "bcc": _mailboxes(digest.bcc),
        "subject": digest.subject,
        "date": moment(digest.date_ms),
        "date_raw": digest.date_raw,
        "in_reply_to": list(digest.in_reply_to),
        "references": list(digest.references),
        "thread": digest.thread,
        "kind": str(digest.kind),
        "auto_submitted": digest.auto_submitted,
        "about_message_id": digest.about_message_id,
        "report": _plain(digest.report),
        "calendar": _plain(digest.calendar),
        "text": digest.text,
        "text_origin": digest.text_origin if digest.text is not None else None,
        "text_truncated": digest.is_text_truncated,
        "reply_text": digest.reply_text,
        "html": digest.html,
        "html_truncated": digest.is_html_truncated,
        "attachments": [
            _attachment(id, position, one) for position, one in enumerate(digest.attachments)
        ],
        "signed": digest.signed,
        "encrypted": digest.encrypted,
        "envelope": _envelope(envelope),
        "authentication": _plain(digest.authentication or authentication),
        "spam": _plain(spam),
        "headers": [list(field) for field in digest.headers],
        "problems": [str(problem) for problem in digest.problems],
        "raw": {"bytes": raw_bytes, "sha256": None if raw_sha256 is None else raw_sha256.hex()},
        "source": None if source is None else dict(source),
    }


def cleaned_text(document: Mapping[str, Any]) -> str:
    """Give what a `reader` key may see of a message: what a person would see of its newest part.

    Hidden text, remote content, quoted history and characters that cannot be seen are left out.
    """
    html, text = document.get("html"), document.get("text")
    if not html:
        return reply_of(remove_invisible(text or ""))
    shown = cut_html(html, chars_max=LIMITS.html_read_chars_max, tags_max=LIMITS.html_read_tags_max)
    return reply_of(read_visible_text(shown).text)


def _mailbox(field: AddressField) -> dict[str, str | None]:
    return {"address": field.address, "name": field.name}


def _mailboxes(fields: Sequence[AddressField]) -> list[dict[str, str | None]]:
    return [_mailbox(field) for field in fields]


def _attachment(message_id: str, position: int, one: DigestAttachment) -> dict[str, Any]:
    return {
        "id": attachment_id_of(message_id, position, one.sha256),
        "name": one.name,
        "type": one.type,
        "detected_type": one.detected_type,
        "bytes": len(one.content),
        "sha256": one.sha256.hex(),
        "disposition": one.disposition,
        "content_id": one.content_id,
    }


def _envelope(envelope: MailEnvelope) -> dict[str, Any]:
    return {
        "mail_from": envelope.mail_from,
        "recipients": list(envelope.recipients),
        "origin": envelope.origin,
        "helo": envelope.helo,
        "client_ip": envelope.client_ip,
        "tls": envelope.tls,
        "user": envelope.user,
    }


def _plain(record: msgspec.Struct | None) -> Any:
    # Through JSON, so that a document equals itself after it was stored: it has lists, not tuples.
    return None if record is None else msgspec.json.decode(msgspec.json.encode(record))
