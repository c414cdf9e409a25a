"""SMTP2GO signs nothing, and tells one event at a time."""

from typing import Any, ClassVar

from mailonce.core.events.event import EventType
from mailonce.testing.sign import iso
from mailonce.testing.simulator import Happening, UnsignedSimulator, Words, waits_s


class Smtp2go(UnsignedSimulator):
    """Posts JSON, where its webhook is not set to forms."""

    name = "smtp2go"
    # Five in half an hour, hourly for a day, then seldom: within the 48 hours that it speaks of.
    retry_waits_s = waits_s(minutes=(6,) * 5, hours=(*(1,) * 24, 6, 6, 11))
    words: ClassVar[Words] = {
        EventType.DELIVERED: {"event": "delivered", "message": "250 ok"},
        EventType.BOUNCED: {"event": "bounce", "bounce": "hard", "message": "550 5.1.1"},
        EventType.COMPLAINED: {"event": "spam"},
        EventType.OPENED: {"event": "open", "srchost": "192.0.2.1"},
        EventType.CLICKED: {"event": "click", "url": "https://example.com/welcome"},
    }

    def event(self, one: Happening) -> dict[str, Any]:
        return {
            "email_id": one.message_id,
            "rcpt": one.recipient,
            "sender": "shop@example.com",
            "time": iso(one.occurred_s)[:19].replace("T", " "),
            "id": "webhook-1",
            **self.words[one.type],
            **one.details,
        }


SIMULATOR = Smtp2go
