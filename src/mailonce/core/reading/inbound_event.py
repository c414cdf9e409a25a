"""The event of a mail for which its provider gives no id: known by its envelope and content."""

import re
from hashlib import sha256
from typing import Any

from mailonce.core.events.event import Event, EventType
from mailonce.core.events.key import Identity, Recipe
from mailonce.core.mail.incoming import (
    FieldsContent,
    IncomingMail,
    MailContent,
    MimeContent,
    stored_content,
)
from mailonce.core.reading import values

# In how much of a mail its Message-ID is looked for.
HEAD_BYTES_MAX = 64 << 10
_MESSAGE_ID = re.compile(rb"(?i)\nmessage-id[ \t]*+:[ \t]*+(?:\r?\n[ \t]++)?([^\r\n]++)")
_HEAD_END = re.compile(rb"\r?\n\r?\n")


def mail_recipe(provider: str) -> Recipe:
    """Make the recipe of such mails: what a retry writes anew is no part of it."""
    return Recipe(
        name=f"{provider}.mail", version=1, identity=("mail_from", "recipients", "content")
    )


def inbound_event(mail: IncomingMail, recipe: Recipe, *, raw: Any) -> Event:
    """Make the event that stands for a mail which no inbox takes."""
    _, stored = stored_content(mail.content)
    people = list(mail.envelope.recipients)
    recipient, certain = values.recipient_of(people)
    fields = {
        "mail_from": mail.envelope.mail_from,
        "recipients": people,
        "content": sha256(stored).hexdigest(),
    }
    return Event(
        type=EventType.INBOUND,
        identity=Identity(recipe, fields),
        message_id=values.text_of(_message_id(mail.content), 400) or "",
        recipient=recipient,
        certain=certain,
        raw=raw,
    )


def _message_id(content: MailContent) -> str | None:
    match content:
        case FieldsContent(message_id=message_id):
            return message_id
        case MimeContent(raw=raw):
            head = b"\n" + raw[:HEAD_BYTES_MAX]
            end = _HEAD_END.search(head)
            line = _MESSAGE_ID.search(head, 0, len(head) if end is None else end.start())
            return None if line is None else line[1].decode("utf-8", "replace").strip()
        case _:
            return None
