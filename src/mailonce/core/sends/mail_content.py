"""The content of a mail as the ledger keeps it: rendered once, the same in every attempt."""

from collections.abc import Mapping

import msgspec
from msgspec import Struct

from mailonce.core.mail.address import read_domain
from mailonce.core.sends import header_text
from mailonce.core.sends.outgoing_mail import Mailbox, OutgoingAttachment, OutgoingMail

# Stands for the link of each recipient until the mail is built; nobody writes it by accident.
UNSUBSCRIBE_PLACE = "https://unsubscribe.mailonce.invalid/9f1c7e02b6d84a35"
LIST_UNSUBSCRIBE = "List-Unsubscribe"
LIST_UNSUBSCRIBE_POST = "List-Unsubscribe-Post"


class MailContent(Struct, frozen=True, kw_only=True, array_like=True):
    """All of a mail but its recipient. Fields are added at the end: old rows are still read."""

    from_: Mailbox
    subject: str
    text: str | None
    html: str | None
    reply_to: tuple[Mailbox, ...] = ()
    headers: tuple[tuple[str, str], ...] = ()
    attachments: tuple[OutgoingAttachment, ...] = ()
    tags: tuple[str, ...] = ()
    metadata: Mapping[str, str] = {}
    # Each mail gets a link to unsubscribe with one click.
    is_unsubscribable: bool = False


_READ = msgspec.msgpack.Decoder(MailContent)


def written_content(content: MailContent) -> bytes:
    """Write a content as the ledger keeps it."""
    return msgspec.msgpack.encode(content)


def read_content(kept: bytes) -> MailContent:
    """Read a content that the ledger kept."""
    return _READ.decode(kept)


def mail_of(
    content: MailContent, to: Mailbox, *, uuid: str, stream: str, unsubscribe_url: str | None
) -> OutgoingMail:
    """Make the mail of one recipient; the same input always makes the same mail.

    `unsubscribe_url` is None where there is no such link.
    """
    headers = content.headers
    if content.is_unsubscribable and unsubscribe_url is not None:
        named = {name.lower() for name, _ in headers}
        if LIST_UNSUBSCRIBE.lower() not in named:
            # RFC 8058: both headers, and the link by HTTPS.
            headers = (
                *headers,
                (LIST_UNSUBSCRIBE, f"<{unsubscribe_url}>"),
                (LIST_UNSUBSCRIBE_POST, "List-Unsubscribe=One-Click"),
            )
    return OutgoingMail(
        from_=content.from_,
        to=to,
        subject=content.subject,
        message_id=own_message_id(content, uuid),
        reply_to=content.reply_to,
        text=_linked(content.text, unsubscribe_url),
        html=_linked(content.html, unsubscribe_url),
        headers=headers,
        attachments=content.attachments,
        tags=content.tags,
        metadata=content.metadata,
        stream=stream,
    )


def own_message_id(content: MailContent, uuid: str) -> str:
    """Give the Message-ID of a mail, the same in every attempt: answers refer to it."""
    domain = header_text.ascii_domain(content.from_.address).rpartition("@")[2]
    domain = domain if read_domain(domain) is not None else "mailonce.invalid"
    return f"<{uuid}@{domain}>"


def _linked(text: str | None, url: str | None) -> str | None:
    return None if text is None else text.replace(UNSUBSCRIBE_PLACE, url or "")
