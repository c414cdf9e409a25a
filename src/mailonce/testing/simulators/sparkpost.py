"""SparkPost signs nothing, and wraps each event of its arrays twice."""

import secrets
from collections.abc import Mapping, Sequence
from typing import Any

import orjson

from mailonce.core.events.event import EventType
from mailonce.testing.simulator import Happening, Post, UnsignedSimulator, waits_s

OK = 200

WORDS: Mapping[EventType, Any] = {
    EventType.DELIVERED: ("message_event", {"type": "delivery"}),
    EventType.DEFERRED: ("message_event", {"type": "delay", "bounce_class": "20"}),
    EventType.BOUNCED: (
        "message_event",
        {"type": "bounce", "bounce_class": "10", "raw_reason": "550 5.1.1 no such user"},
    ),
    EventType.COMPLAINED: ("message_event", {"type": "spam_complaint"}),
    EventType.OPENED: ("track_event", {"type": "open", "ip_address": "192.0.2.1"}),
    EventType.CLICKED: (
        "track_event",
        {"type": "click", "target_link_url": "https://example.com/welcome"},
    ),
}


class Sparkpost(UnsignedSimulator):
    """Posts batches, each under an id that its attempts share."""

    name = "sparkpost"
    batch_max = 8
    # Twelve attempts within eight hours; the steps are ours.
    retry_waits_s = waits_s(minutes=(1, 2, 4, 8, 15, 30), hours=(1, 1, 1, 2, 2))
    words = WORDS

    def post(self, happenings: Sequence[Happening], *, now_s: int) -> Post:
        """Tell events in an array."""
        del now_s
        headers = {**self._headers(), "X-MessageSystems-Batch-ID": secrets.token_hex(16)}
        return Post(headers, orjson.dumps([self._element(happening) for happening in happenings]))

    def stops(self, code: int) -> bool:
        """Only 200 is promised to end it."""
        return code == OK

    def _element(self, happening: Happening) -> dict[str, Any]:
        class_, more = self.words[happening.type]
        detail = {
            "event_id": happening.id,
            "timestamp": str(happening.occurred_s),
            "transmission_id": happening.message_id,
            "rcpt_to": happening.recipient,
            **more,
        }
        return {"msys": {class_: detail}}


SIMULATOR = Sparkpost
