"""Mailhook tells of mail that came in; how it signs, the options of its source must say."""

from typing import Any, ClassVar

from mailonce.core.events.event import EventType
from mailonce.testing.sign import hmac_hex, iso
from mailonce.testing.simulator import Draft, Happening, Simulator, Words, waits_s


class Mailhook(Simulator):
    """Signs time and body: only its customers know its own way."""

    name = "mailhook"
    signs_time = True
    resigns = True
    # Undocumented, like the rest.
    retry_waits_s = waits_s(minutes=(1, 5, 30), hours=(2, 6))
    words: ClassVar[Words] = {EventType.INBOUND: "email.received"}

    def settings(self) -> dict[str, Any]:
        """Say how it signs, and where things stand."""
        options = {
            "header": "X-Webhook-Signature",
            "template": "{ts}.{body}",
            "timestamp_header": "X-Webhook-Timestamp",
            "event_id": "/id",
            "message_id": "/email/message_id",
            "recipient": "/email/to",
            "time": "/received_at",
        }
        return {**super().settings(), "options": options}

    def event(self, one: Happening) -> dict[str, Any]:
        return {
            "id": one.id,
            "type": self.words[one.type],
            "received_at": iso(one.occurred_s),
            "email": {"message_id": one.message_id, "to": one.recipient, "subject": "Your code"},
        }

    def proof(self, draft: Draft) -> dict[str, str]:
        signed = f"{draft.now_s}.".encode() + draft.body
        return {
            "X-Webhook-Timestamp": str(draft.now_s),
            "X-Webhook-Signature": hmac_hex(self.secret, signed),
        }


SIMULATOR = Mailhook
