"""Mailtrap signs the body, without a time, and tells many events at once."""

from collections.abc import Sequence
from typing import Any, ClassVar

import orjson

from mailonce.core.events.event import EventType
from mailonce.testing.sign import hmac_hex
from mailonce.testing.simulator import OK_ALONE, Draft, Happening, Simulator, Words


class Mailtrap(Simulator):
    """Posts an object with a list."""

    name = "mailtrap"
    batch_max = 8
    # Every five minutes, forty times, is often quoted; no page of its own says so.
    retry_waits_s = (300,) * 40
    final = OK_ALONE
    words: ClassVar[Words] = {
        EventType.DELIVERED: {"event": "delivery"},
        EventType.DEFERRED: {"event": "soft bounce", "response": "421 try again later"},
        EventType.BOUNCED: {"event": "bounce", "response": "550 5.1.1 no such user"},
        EventType.COMPLAINED: {"event": "spam"},
        EventType.OPENED: {"event": "open", "ip": "192.0.2.1"},
        EventType.CLICKED: {"event": "click", "url": "https://example.com/welcome"},
    }

    def body(self, happenings: Sequence[Happening]) -> bytes:
        """Write a list under a key."""
        return orjson.dumps({"events": [self.event(one) for one in happenings]})

    def event(self, one: Happening) -> dict[str, Any]:
        return {
            "event_id": one.id,
            "message_id": one.message_id,
            "email": one.recipient,
            "timestamp": one.occurred_s,
            "sending_stream": "transactional",
            **self.words[one.type],
            **one.details,
        }

    def proof(self, draft: Draft) -> dict[str, str]:
        return {"Mailtrap-Signature": hmac_hex(self.secret, draft.body)}


SIMULATOR = Mailtrap
