"""Mailjet signs nothing, numbers its messages, and asks again every 30 seconds for a day."""

from collections.abc import Mapping, Sequence
from typing import Any

import orjson

from mailonce.core.events.event import EventType
from mailonce.testing.simulator import Happening, Post, UnsignedSimulator

OK = 200

WORDS: Mapping[EventType, Any] = {
    EventType.DELIVERED: {"event": "sent", "smtp_reply": "250 ok"},
    EventType.DEFERRED: {"event": "bounce", "hard_bounce": False, "error": "greylisted"},
    EventType.BOUNCED: {"event": "bounce", "hard_bounce": True, "error": "user unknown"},
    EventType.COMPLAINED: {"event": "spam", "source": "JMRPP"},
    EventType.OPENED: {"event": "open", "ip": "192.0.2.1", "agent": "Mozilla/5.0"},
    EventType.CLICKED: {"event": "click", "url": "https://example.com/welcome"},
}


class Mailjet(UnsignedSimulator):
    """Posts arrays of what happened within a second."""

    name = "mailjet"
    batch_max = 8
    numbers_messages = True
    retry_waits_s = (30,) * (24 * 120)
    words = WORDS

    def post(self, happenings: Sequence[Happening], *, now_s: int) -> Post:
        """Tell events in an array."""
        del now_s
        return Post(self._headers(), orjson.dumps([self._element(one) for one in happenings]))

    def stops(self, code: int) -> bool:
        """Only 200 is promised to end it."""
        return code == OK

    def _element(self, happening: Happening) -> dict[str, Any]:
        return {
            "time": happening.occurred_s,
            "MessageID": int(happening.message_id),
            "email": happening.recipient,
            "CustomID": happening.id,
            **self.words[happening.type],
        }


SIMULATOR = Mailjet
