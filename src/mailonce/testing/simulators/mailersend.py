"""MailerSend signs the body, whose slashes it escapes, without a time."""

from collections.abc import Sequence
from typing import Any, ClassVar

from mailonce.core.events.event import EventType
from mailonce.testing.sign import hmac_hex, iso
from mailonce.testing.simulator import Draft, Happening, Simulator, Words


class Mailersend(Simulator):
    """Posts one event at a time, in the second version of its form."""

    name = "mailersend"
    # By the older of its two pages; the newer one speaks of three days, without steps.
    retry_waits_s = (10, 100)
    words: ClassVar[Words] = {
        EventType.DELIVERED: ("delivered", {}),
        EventType.DEFERRED: ("deferred", {}),
        EventType.BOUNCED: ("hard_bounced", {"bounce_reason": "550 5.1.1 no such user"}),
        EventType.COMPLAINED: ("spam_complaint", {}),
        EventType.OPENED: ("opened", {"ip": "192.0.2.1"}),
        EventType.CLICKED: ("clicked", {"url": "https://example.com/welcome"}),
    }

    def body(self, happenings: Sequence[Happening]) -> bytes:
        """Escape the slashes."""
        return super().body(happenings).replace(b"/", rb"\/")

    def event(self, one: Happening) -> dict[str, Any]:
        word, more = self.words[one.type]
        data = {
            "id": one.id,
            "message_id": one.message_id,
            "type": word,
            "recipient": one.recipient,
            "meta": more,
            **one.details,
        }
        return {
            "type": f"activity.{word}",
            "created_at": iso(one.occurred_s),
            "webhook_id": "wh1",
            "data": data,
        }

    def proof(self, draft: Draft) -> dict[str, str]:
        return {"Signature": hmac_hex(self.secret, draft.body)}


SIMULATOR = Mailersend
