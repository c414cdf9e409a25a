"""Mailtrap signs the body, without a time, and tells many events at once."""

from collections.abc import Mapping, Sequence
from typing import Any

import orjson

from mailonce.core.events.event import EventType
from mailonce.testing.sign import hmac_hex
from mailonce.testing.simulator import Happening, Post, Simulator

OK = 200

WORDS: Mapping[EventType, Any] = {
    EventType.DELIVERED: {"event": "delivery"},
    EventType.DEFERRED: {"event": "soft bounce", "response": "421 try again later"},
    EventType.BOUNCED: {"event": "bounce", "response": "550 5.1.1 no such user"},
    EventType.COMPLAINED: {"event": "spam"},
    EventType.OPENED: {"event": "open", "ip": "192.0.2.1"},
    EventType.CLICKED: {"event": "click", "url": "https://example.com/welcome"},
}


class Mailtrap(Simulator):
    """Posts an object with a list."""

    name = "mailtrap"
    batch_max = 8
    # Every five minutes, forty times, is often quoted; no page of its own says so.
    retry_waits_s = (300,) * 40
    words = WORDS

    def settings(self) -> dict[str, Any]:
        """Give the signature secret."""
        return {"provider": self.provider, "secret": self.keys.text()}

    def post(self, happenings: Sequence[Happening], *, now_s: int) -> Post:
        """Tell events."""
        del now_s
        events = [
            {
                "event_id": happening.id,
                "message_id": happening.message_id,
                "email": happening.recipient,
                "timestamp": happening.occurred_s,
                "sending_stream": "transactional",
                **self.words[happening.type],
            }
            for happening in happenings
        ]
        body = orjson.dumps({"events": events})
        headers = {
            "Content-Type": "application/json",
            "Mailtrap-Signature": hmac_hex(self.keys.text(), body),
        }
        return Post(headers, body)

    def stops(self, code: int) -> bool:
        """Only 200 is promised to end it."""
        return code == OK


SIMULATOR = Mailtrap
