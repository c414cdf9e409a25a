"""Postal signs the body with the RSA key of its installation, and numbers its messages."""

import secrets
from base64 import b64encode
from typing import Any, ClassVar

from cryptography.hazmat.primitives.asymmetric.padding import PKCS1v15
from cryptography.hazmat.primitives.hashes import SHA256

from mailonce.core.events.event import EventType
from mailonce.testing.keys import public_pem
from mailonce.testing.simulator import Draft, Happening, Simulator, Words, waits_s


class Postal(Simulator):
    """Posts one event at a time, under a uuid that its attempts share."""

    name = "postal"
    numbers_messages = True
    retry_waits_s = waits_s(minutes=(2, 3, 6, 10, 15))
    words: ClassVar[Words] = {
        EventType.DELIVERED: ("MessageSent", {"status": "Sent", "output": "250 ok"}),
        EventType.DEFERRED: ("MessageDelayed", {"status": "SoftFail", "output": "421 later"}),
        EventType.BOUNCED: (
            "MessageDeliveryFailed",
            {
                "status": "HardFail",
                "details": "Permanent SMTP delivery error",
                "output": "550 5.1.1",
            },
        ),
        EventType.OPENED: ("MessageLoaded", {"ip_address": "192.0.2.1"}),
        EventType.CLICKED: ("MessageLinkClicked", {"url": "https://example.com/welcome"}),
    }

    def settings(self) -> dict[str, Any]:
        """Give the installation's public key."""
        return {"provider": self.provider, "public_key": public_pem(self.keys.rsa())}

    def event(self, one: Happening) -> dict[str, Any]:
        word, more = self.words[one.type]
        message = {
            "id": int(one.message_id),
            "token": f"t{one.message_id}",
            "direction": "outgoing",
            "to": one.recipient,
            "from": "shop@example.com",
            **one.details,
        }
        return {
            "event": word,
            "timestamp": float(one.occurred_s),
            "payload": {"message": message, "timestamp": float(one.occurred_s), **more},
            "uuid": secrets.token_hex(16),
        }

    def proof(self, draft: Draft) -> dict[str, str]:
        signature = self.keys.rsa().sign(draft.body, PKCS1v15(), SHA256())
        return {"X-Postal-Signature-256": b64encode(signature).decode()}


SIMULATOR = Postal
