"""SendGrid signs time and body with ECDSA, and tells many events at once."""

from base64 import b64encode
from collections.abc import Mapping, Sequence
from typing import Any

import orjson
from cryptography.hazmat.primitives.asymmetric import ec
from cryptography.hazmat.primitives.hashes import SHA256

from mailonce.core.events.event import EventType
from mailonce.testing.keys import public_der
from mailonce.testing.simulator import Happening, Post, Simulator, waits_s

WORDS: Mapping[EventType, Any] = {
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


class Sendgrid(Simulator):
    """Posts arrays."""

    name = "sendgrid"
    batch_max = 8
    signs_time = True
    # It says that the waits grow and end after 24 hours, not what they are.
    retry_waits_s = waits_s(minutes=(1, 5, 15, 39), hours=(1, 2, 4, 6, 10))
    words = WORDS

    def settings(self) -> dict[str, Any]:
        """Give the public key as SendGrid's settings page shows it."""
        return {"provider": self.provider, "public_key": public_der(self.keys.p256())}

    def post(self, happenings: Sequence[Happening], *, now_s: int) -> Post:
        """Tell events in an array."""
        body = orjson.dumps([self._element(happening) for happening in happenings])
        signature = self.keys.p256().sign(str(now_s).encode() + body, ec.ECDSA(SHA256()))
        headers = {
            "Content-Type": "application/json",
            "X-Twilio-Email-Event-Webhook-Timestamp": str(now_s),
            "X-Twilio-Email-Event-Webhook-Signature": b64encode(signature).decode(),
        }
        return Post(headers, body)

    def _element(self, happening: Happening) -> dict[str, Any]:
        return {
            "email": happening.recipient,
            "timestamp": happening.occurred_s,
            "sg_event_id": happening.id,
            "sg_message_id": f"{happening.message_id}.filter0001.1.0",
            "smtp-id": f"<{happening.message_id}@mail.example.com>",
            **self.words[happening.type],
        }


SIMULATOR = Sendgrid
