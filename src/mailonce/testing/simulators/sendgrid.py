"""SendGrid signs time and body with ECDSA, and tells many events at once."""

from base64 import b64encode
from typing import Any, ClassVar

from cryptography.hazmat.primitives.asymmetric import ec
from cryptography.hazmat.primitives.hashes import SHA256

from mailonce.core.events.event import EventType
from mailonce.testing.keys import public_der
from mailonce.testing.simulator import Draft, Happening, Simulator, Words, waits_s


class Sendgrid(Simulator):
    """Posts arrays."""

    name = "sendgrid"
    batch_max = 8
    signs_time = True
    # It says that the waits grow and end after 24 hours, not what they are.
    retry_waits_s = waits_s(minutes=(1, 5, 15, 39), hours=(1, 2, 4, 6, 10))
    words: ClassVar[Words] = {
        EventType.DELIVERED: {"event": "delivered"},
        EventType.DEFERRED: {"event": "deferred"},
        EventType.BOUNCED: {
            "event": "bounce",
            "type": "bounce",
            "status": "5.1.1",
            "reason": "550 no such user",
        },
        EventType.COMPLAINED: {"event": "spamreport"},
        EventType.OPENED: {"event": "open"},
        EventType.CLICKED: {"event": "click", "url": "https://example.com/welcome"},
    }

    def settings(self) -> dict[str, Any]:
        """Give the public key as SendGrid's settings page shows it."""
        return {"provider": self.provider, "public_key": public_der(self.keys.p256())}

    def event(self, one: Happening) -> dict[str, Any]:
        return {
            "email": one.recipient,
            "timestamp": one.occurred_s,
            "sg_event_id": one.id,
            "sg_message_id": f"{one.message_id}.filter0001.1.0",
            "smtp-id": f"<{one.message_id}@mail.example.com>",
            **self.words[one.type],
            **one.details,
        }

    def proof(self, draft: Draft) -> dict[str, str]:
        signed = str(draft.now_s).encode() + draft.body
        signature = self.keys.p256().sign(signed, ec.ECDSA(SHA256()))
        return {
            "X-Twilio-Email-Event-Webhook-Timestamp": str(draft.now_s),
            "X-Twilio-Email-Event-Webhook-Signature": b64encode(signature).decode(),
        }


SIMULATOR = Sendgrid
