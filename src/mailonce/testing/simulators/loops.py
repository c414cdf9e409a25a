"""Loops signs as Standard Webhooks do."""

from collections.abc import Mapping, Sequence
from typing import Any

import orjson

from mailonce.core.events.event import EventType
from mailonce.testing.sign import standard_headers
from mailonce.testing.simulator import Happening, Post, Simulator, waits_s

WORDS: Mapping[EventType, Any] = {
    EventType.DELIVERED: "email.delivered",
    EventType.BOUNCED: "email.hardBounced",
    EventType.COMPLAINED: "email.spamReported",
    EventType.OPENED: "email.opened",
    EventType.CLICKED: "email.clicked",
}


class Loops(Simulator):
    """Posts one event at a time."""

    name = "loops"
    signs_time = True
    resigns = True
    # Undocumented; this is the example of the specification.
    retry_waits_s = (5, *waits_s(minutes=(5, 30), hours=(2, 5, 10, 14, 20, 24)))
    words = WORDS

    def settings(self) -> dict[str, Any]:
        """Give the signing secret."""
        return {"provider": self.provider, "secret": f"whsec_{self.keys.base64()}"}

    def post(self, happenings: Sequence[Happening], *, now_s: int) -> Post:
        """Tell one event, under the id that all its attempts have."""
        (one,) = happenings
        event = {
            "eventName": self.words[one.type],
            "eventTime": one.occurred_s,
            "webhookSchemaVersion": "1.0.0",
            "contactIdentity": {"id": "c1", "email": one.recipient, "userId": None},
            "email": {"id": one.message_id, "subject": "Welcome"},
        }
        body = orjson.dumps(event)
        return Post(standard_headers(self.keys.bytes(), f"msg_{one.id}", body, now_s=now_s), body)


SIMULATOR = Loops
