"""A mail that goes out: one recipient, rendered, ready to be built into a provider's request."""

from collections.abc import Mapping

from msgspec import Struct


class Mailbox(Struct, frozen=True):
    """An address, and the name shown beside it; '' is none."""

    address: str
    name: str = ""


class OutgoingAttachment(Struct, frozen=True, kw_only=True):
    """A file of an outgoing mail; one with a `content_id` is shown inside the HTML (`cid:…`)."""

    name: str
    # As in `application/pdf`, without parameters.
    type: str
    content: bytes
    content_id: str | None = None


class OutgoingMail(Struct, frozen=True, kw_only=True):
    """A mail to one recipient; at least one of `text` and `html` is there."""

    from_: Mailbox
    to: Mailbox
    subject: str
    # Our own, in angle brackets; some providers replace it.
    message_id: str
    # What its Date header says; None: when the send was submitted, as its id tells.
    date_ms: int | None = None
    reply_to: tuple[Mailbox, ...] = ()
    text: str | None = None
    html: str | None = None
    # Further headers; those that the mail or we ourselves define are not among them.
    headers: tuple[tuple[str, str], ...] = ()
    attachments: tuple[OutgoingAttachment, ...] = ()
    tags: tuple[str, ...] = ()
    metadata: Mapping[str, str] = {}
    # The class of mail (receipts, newsletters); '' is none.
    stream: str = ""
