"""Mails that the tests of sending share."""

from typing import Any

from mailonce.core.sends.outgoing_mail import Mailbox, OutgoingAttachment, OutgoingMail
from mailonce.core.sends.sending import Correlation

UUID = "953c7e4c-01ad-5da7-984f-5cf5f0ae4d49"
CORRELATION = Correlation("snd_019a1b2c3d4e5f60718293a4b5c6d7e8", 1, UUID)
# 2026-11-17T08:30:00Z
NOON_MS = 1_794_904_200_000


def plain_mail(**changes: Any) -> OutgoingMail:
    """Make a mail with no more than it needs."""
    fields: dict[str, Any] = {
        "from_": Mailbox("shop@example.com"),
        "to": Mailbox("ann@example.net"),
        "subject": "Your code",
        "message_id": f"<{UUID}@example.com>",
        "date_ms": NOON_MS,
        "text": "It is 123456.",
    }
    return OutgoingMail(**{**fields, **changes})


def full_mail() -> OutgoingMail:
    """Make a mail with everything that one can have."""
    return plain_mail(
        from_=Mailbox("shop@example.com", "Shop, Inc."),
        to=Mailbox("ann@example.net", "Änne"),
        reply_to=(Mailbox("help@example.com", "Help"), Mailbox("info@example.com")),
        subject="Your receipt: 12 €",
        text="Thanks.\nSee you.",
        html='<p>Thanks. <img src="cid:logo@example.com"></p>',
        headers=(("List-Unsubscribe", "<https://example.com/u/1>"),),
        attachments=(
            OutgoingAttachment(name="receipt.pdf", type="application/pdf", content=b"%PDF-1.4"),
            OutgoingAttachment(
                name="logo.png", type="image/png", content=b"\x89PNG", content_id="logo@example.com"
            ),
        ),
        tags=("receipt", "eu"),
        metadata={"order": "77"},
        stream="receipts",
    )
