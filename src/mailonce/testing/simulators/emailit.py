"""Emailit signs time and body with HMAC, and tells many events at once."""

from collections.abc import Mapping, Sequence
from typing import Any

import orjson

from mailonce.core.events.event import EventType
from mailonce.testing.sign import hmac_hex, iso
from mailonce.testing.simulator import Happening, Post, Simulator, waits_s

WORDS: Mapping[EventType, Any] = {
    EventType.DELIVERED: ("email.delivered", {}),
    EventType.DEFERRED: ("email.attempted", {}),
    EventType.BOUNCED: ("email.bounced", {"reason": "550 5.1.1 no such user"}),
    EventType.COMPLAINED: ("email.complained", {}),
    EventType.OPENED: ("email.loaded", {"ip_address": "192.0.2.1"}),
    EventType.CLICKED: ("email.clicked", {"url": "https://example.com/welcome"}),
}


class Emailit(Simulator):
    """Posts arrays."""

    name = "emailit"
    batch_max = 8
    signs_time = True
    resigns = True
    retry_waits_s = waits_s(minutes=(5, 30), hours=(2, 5, *(12,) * 6))
    words = WORDS

    def settings(self) -> dict[str, Any]:
        """Give the secret, all of which is the key."""
        return {"provider": self.provider, "secret": self._secret()}

    def post(self, happenings: Sequence[Happening], *, now_s: int) -> Post:
        """Tell events in an array."""
        body = orjson.dumps([self._element(happening) for happening in happenings])
        headers = {
            "Content-Type": "application/json",
            "X-Emailit-Timestamp": str(now_s),
            "X-Emailit-Signature": hmac_hex(self._secret(), f"{now_s}.".encode() + body),
        }
        return Post(headers, body)

    def _element(self, happening: Happening) -> dict[str, Any]:
        word, more = self.words[happening.type]
        about = {
            "id": happening.message_id,
            "object": "email",
            "to": happening.recipient,
            "updated_at": iso(happening.occurred_s),
            **more,
        }
        return {"event_id": happening.id, "type": word, "data": {"object": about}}

    def _secret(self) -> str:
        return f"whsec_{self.keys.bytes().hex()}"


SIMULATOR = Emailit
