"""Postal signs the body with the RSA key of its installation, and numbers its messages."""

import secrets
from base64 import b64encode
from collections.abc import Mapping, Sequence
from typing import Any

import orjson
from cryptography.hazmat.primitives.asymmetric.padding import PKCS1v15
from cryptography.hazmat.primitives.hashes import SHA256

from mailonce.core.events.event import EventType
from mailonce.testing.keys import public_pem
from mailonce.testing.simulator import Happening, Post, Simulator, waits_s

WORDS: Mapping[EventType, Any] = {
    EventType.DELIVERED: ("MessageSent", {"status": "Sent", "output": "250 ok"}),
    EventType.DEFERRED: ("MessageDelayed", {"status": "SoftFail", "output": "421 later"}),
    EventType.BOUNCED: (
        "MessageDeliveryFailed",
        {"status": "HardFail", "details": "Permanent SMTP delivery error", "output": "550 5.1.1"},
    ),
    EventType.OPENED: ("MessageLoaded", {"ip_address": "192.0.2.1"}),
    EventType.CLICKED: ("MessageLinkClicked", {"url": "https://example.com/welcome"}),
}


class Postal(Simulator):
    """Posts one event at a time, under a uuid that its attempts share."""

    name = "postal"
    numbers_messages = True
    retry_waits_s = waits_s(minutes=(2, 3, 6, 10, 15))
    words = WORDS

    def settings(self) -> dict[str, Any]:
        """Give the installation's public key."""
        return {"provider": self.provider, "public_key": public_pem(self.keys.rsa())}

    def post(self, happenings: Sequence[Happening], *, now_s: int) -> Post:
        """Tell one event."""
        del now_s
        (happening,) = happenings
        word, more = self.words[happening.type]
        message = {
            "id": int(happening.message_id),
            "token": f"t{happening.message_id}",
            "direction": "outgoing",
            "to": happening.recipient,
            "from": "shop@example.com",
        }
        event = {
            "event": word,
            "timestamp": float(happening.occurred_s),
            "payload": {"message": message, "timestamp": float(happening.occurred_s), **more},
            "uuid": secrets.token_hex(16),
        }
        body = orjson.dumps(event)
        signature = self.keys.rsa().sign(body, PKCS1v15(), SHA256())
        headers = {
            "Content-Type": "application/json",
            "X-Postal-Signature-256": b64encode(signature).decode(),
        }
        return Post(headers, body)


SIMULATOR = Postal
