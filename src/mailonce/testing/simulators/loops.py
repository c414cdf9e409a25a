"""Loops signs as Standard Webhooks do."""

from typing import Any, ClassVar

from mailonce.core.events.event import EventType
from mailonce.testing.simulator import Happening, StandardSimulator, Words


class Loops(StandardSimulator):
    """Posts one event at a time; how often it retries is undocumented."""

    name = "loops"
    words: ClassVar[Words] = {
        EventType.DELIVERED: "email.delivered",
        EventType.BOUNCED: "email.hardBounced",
        EventType.COMPLAINED: "email.spamReported",
        EventType.OPENED: "email.opened",
        EventType.CLICKED: "email.clicked",
    }

    def event(self, one: Happening) -> dict[str, Any]:
        return {
            "eventName": self.words[one.type],
            "eventTime": one.occurred_s,
            "webhookSchemaVersion": "1.0.0",
            "contactIdentity": {"id": "c1", "email": one.recipient, "userId": None},
            "email": {"id": one.message_id, "subject": "Welcome"},
        }


SIMULATOR = Loops
