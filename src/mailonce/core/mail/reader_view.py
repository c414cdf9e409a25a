"""The view of a message for `reader` keys: what a person would see, and nothing that can hide."""

from collections.abc import Mapping
from hashlib import sha256
from typing import Any

from mailonce.core.mail.invisible_characters import remove_invisible
from mailonce.core.mail.message import cleaned_text

# What is a number, a time, a word of ours or an address. The HTML, the headers, the bytes, and
# what a sender can write into reports and calendars are left out.
_PLAIN = (
    "id", "seq", "inbox", "address", "received_at", "message_id", "date", "in_reply_to",
    "references", "thread", "kind", "auto_submitted", "about_message_id", "signed", "encrypted",
    "authentication", "spam", "problems",
)  # fmt: skip
_MAILBOXES = ("reply_to", "to", "cc", "bcc")


FENCE_CHARS = 12


def reader_view(document: Mapping[str, Any]) -> dict[str, Any]:
    """Write a message for a `reader` key: addresses, times, and a cleaned text.

    `fenced_text` is the same text with `fence` before each line. Whoever wrote the mail cannot
    know that word, so nothing in it can look like the end of it.
    """
    text, fence = cleaned_text(document), fence_of(str(document.get("id")))
    return {
        **{name: document.get(name) for name in _PLAIN},
        "view": "reader",
        "from": _mailbox(document.get("from")),
        "sender": _mailbox(document.get("sender")),
        **{name: [_mailbox(one) for one in document.get(name) or ()] for name in _MAILBOXES},
        "subject": _visible(document.get("subject")),
        "text": text,
        "fence": fence,
        "fenced_text": "\n".join(f"{fence}| {line}" for line in text.splitlines()),
        "attachments": [
            {
                "id": one["id"],
                "name": _visible(one["name"]),
                "type": one["type"],
                "bytes": one["bytes"],
                "sha256": one["sha256"],
            }
            for one in document.get("attachments") or ()
        ],
    }


def fence_of(message: str) -> str:
    """Give the word that fences a message: made of its id, in which the inbox's own id has a part.

    An inbox's id is random, and no mail carries it.
    """
    return sha256(f"fence|{message}".encode()).hexdigest()[:FENCE_CHARS]


def _mailbox(mailbox: Mapping[str, Any] | None) -> dict[str, Any] | None:
    if mailbox is None:
        return None
    return {"address": mailbox["address"], "name": _visible(mailbox["name"])}


def _visible(text: str | None) -> str | None:
    return None if text is None else remove_invisible(text)
