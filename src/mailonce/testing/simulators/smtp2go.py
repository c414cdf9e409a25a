"""SMTP2GO signs nothing, and tells one event at a time."""

from collections.abc import Mapping, Sequence
from typing import Any

import orjson

from mailonce.core.events.event import EventType
from mailonce.testing.sign import iso
from mailonce.testing.simulator import Happening, Post, UnsignedSimulator, waits_s

WORDS: Mapping[EventType, Any] = {
    EventType.DELIVERED: {"event": "delivered", "message": "250 ok"},
    EventType.BOUNCED: {"event": "bounce", "bounce": "hard", "message": "550 5.1.1"},
    EventType.COMPLAINED: {"event": "spam"},
    EventType.OPENED: {"event": "open", "srchost": "192.0.2.1"},
    EventType.CLICKED: {"event": "click", "url": "https://example.com/welcome"},
}


class Smtp2go(UnsignedSimulator):
    """Posts JSON, where its webhook is not set to forms."""

    name = "smtp2go"
    # Five in half an hour, hourly for a day, then seldom: within the 48 hours that it speaks of.
    retry_waits_s = waits_s(minutes=(6,) * 5, hours=(*(1,) * 24, 6, 6, 11))
    words = WORDS

    def post(self, happenings: Sequence[Happening], *, now_s: int) -> Post:
        """Tell one event."""
        del now_s
        (happening,) = happenings
        event = {
            "email_id": happening.message_id,
            "rcpt": happening.recipient,
            "sender": "shop@example.com",
            "time": iso(happening.occurred_s)[:19].replace("T", " "),
            "id": "webhook-1",
            **self.words[happening.type],
        }
        return Post(self._headers(), orjson.dumps(event))


SIMULATOR = Smtp2go
