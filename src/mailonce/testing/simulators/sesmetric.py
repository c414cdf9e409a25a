"""SESMetric signs time and body with HMAC."""

from collections.abc import Mapping, Sequence
from typing import Any

import orjson

from mailonce.core.events.event import EventType
from mailonce.testing.sign import hmac_hex
from mailonce.testing.simulator import Happening, Post, Simulator, waits_s

WORDS: Mapping[EventType, Any] = {
    type_: {"type": type_.value}
    for type_ in (
        EventType.DELIVERED,
        EventType.DEFERRED,
        EventType.COMPLAINED,
        EventType.OPENED,
        EventType.CLICKED,
    )
} | {EventType.BOUNCED: {"type": "bounced", "bounce_type": "hard"}}


class Sesmetric(Simulator):
    """Posts one event at a time."""

    name = "sesmetric"
    signs_time = True
    resigns = True
    # It says that it tries for three days, not how often.
    retry_waits_s = waits_s(minutes=(1, 5, 30, 24), hours=(1, 4, 8, 10, 24, 24))
    words = WORDS

    def settings(self) -> dict[str, Any]:
        """Give the secret."""
        return {"provider": self.provider, "secret": self.keys.text()}

    def post(self, happenings: Sequence[Happening], *, now_s: int) -> Post:
        """Tell one event."""
        (happening,) = happenings
        event = {
            "id": happening.id,
            "message_id": happening.message_id,
            "recipient": happening.recipient,
            "timestamp": happening.occurred_s,
            **self.words[happening.type],
        }
        body = orjson.dumps(event)
        headers = {
            "Content-Type": "application/json",
            "X-SESMetric-Timestamp": str(now_s),
            "X-SESMetric-Signature": hmac_hex(self.keys.text(), f"{now_s}.".encode() + body),
        }
        return Post(headers, body)


SIMULATOR = Sesmetric
