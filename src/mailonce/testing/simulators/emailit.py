"""Emailit signs time and body with HMAC, and tells many events at once."""

from typing import Any, ClassVar

from mailonce.core.events.event import EventType
from mailonce.testing.sign import hmac_hex, iso
from mailonce.testing.simulator import Draft, Happening, Simulator, Words, waits_s


class Emailit(Simulator):
    """Posts arrays."""

    name = "emailit"
    batch_max = 8
    signs_time = True
    resigns = True
    retry_waits_s = waits_s(minutes=(5, 30), hours=(2, 5, *(12,) * 6))
    words: ClassVar[Words] = {
        EventType.DELIVERED: ("email.delivered", {}),
        EventType.DEFERRED: ("email.attempted", {}),
        EventType.BOUNCED: ("email.bounced", {"reason": "550 5.1.1 no such user"}),
        EventType.COMPLAINED: ("email.complained", {}),
        EventType.OPENED: ("email.loaded", {"ip_address": "192.0.2.1"}),
        EventType.CLICKED: ("email.clicked", {"url": "https://example.com/welcome"}),
    }

    @property
    def secret(self) -> str:
        """The secret, all of which is the key."""
        return f"whsec_{self.keys.bytes().hex()}"

    def event(self, one: Happening) -> dict[str, Any]:
        word, more = self.words[one.type]
        about = {
            "id": one.message_id,
            "object": "email",
            "to": one.recipient,
            "updated_at": iso(one.occurred_s),
            **more,
            **one.details,
        }
        return {"event_id": one.id, "type": word, "data": {"object": about}}

    def proof(self, draft: Draft) -> dict[str, str]:
        signed = f"{draft.now_s}.".encode() + draft.body
        return {
            "X-Emailit-Timestamp": str(draft.now_s),
            "X-Emailit-Signature": hmac_hex(self.secret, signed),
        }


SIMULATOR = Emailit
