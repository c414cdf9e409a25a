"""Mailjet signs nothing, numbers its messages, and asks again every 30 seconds for a day."""

from typing import Any, ClassVar

from mailonce.core.events.event import EventType
from mailonce.testing.simulator import OK_ALONE, Happening, UnsignedSimulator, Words


class Mailjet(UnsignedSimulator):
    """Posts arrays of what happened within a second."""

    name = "mailjet"
    batch_max = 8
    numbers_messages = True
    retry_waits_s = (30,) * (24 * 120)
    final = OK_ALONE
    words: ClassVar[Words] = {
        EventType.DELIVERED: {"event": "sent", "smtp_reply": "250 ok"},
        EventType.DEFERRED: {"event": "bounce", "hard_bounce": False, "error": "greylisted"},
        EventType.BOUNCED: {"event": "bounce", "hard_bounce": True, "error": "user unknown"},
        EventType.COMPLAINED: {"event": "spam", "source": "JMRPP"},
        EventType.OPENED: {"event": "open", "ip": "192.0.2.1", "agent": "Mozilla/5.0"},
        EventType.CLICKED: {"event": "click", "url": "https://example.com/welcome"},
    }

    def event(self, one: Happening) -> dict[str, Any]:
        return {
            "time": one.occurred_s,
            "MessageID": int(one.message_id),
            "email": one.recipient,
            "CustomID": one.id,
            **self.words[one.type],
            **one.details,
        }


SIMULATOR = Mailjet
