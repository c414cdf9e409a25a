"""Resend has Svix sign and deliver: each attempt has a time and a signature of its own."""

from typing import Any, ClassVar

from mailonce.core.events.event import EventType
from mailonce.testing.sign import iso
from mailonce.testing.simulator import Happening, StandardSimulator, Words, waits_s


class Resend(StandardSimulator):
    """Posts one event at a time."""

    name = "resend"
    family = "svix-"
    retry_waits_s = (5, *waits_s(minutes=(5, 30), hours=(2, 5, 10, 10)))
    words: ClassVar[Words] = {
        EventType.DELIVERED: ("email.delivered", {}),
        EventType.DEFERRED: ("email.delivery_delayed", {}),
        EventType.BOUNCED: (
            "email.bounced",
            {"bounce": {"type": "Permanent", "subType": "General", "message": "no such user"}},
        ),
        EventType.COMPLAINED: ("email.complained", {}),
        EventType.OPENED: ("email.opened", {}),
        EventType.CLICKED: ("email.clicked", {"click": {"link": "https://example.com/welcome"}}),
    }

    def event(self, one: Happening) -> dict[str, Any]:
        word, more = self.words[one.type]
        data = {
            "email_id": one.message_id,
            "from": "Shop <shop@example.com>",
            "to": [one.recipient],
            "subject": "Welcome",
            **more,
            **one.details,
        }
        return {"type": word, "created_at": iso(one.occurred_s), "data": data}


SIMULATOR = Resend
