"""Any sender that follows Standard Webhooks: each attempt has a time and a signature of its own."""

from typing import Any, ClassVar

from mailonce.core.events.event import EventType
from mailonce.testing.sign import iso
from mailonce.testing.simulator import SUCCESS_OR_GONE, Happening, StandardSimulator, Words


class StandardWebhooks(StandardSimulator):
    """Says things as the source's defaults understand them."""

    name = "standardwebhooks"
    final = SUCCESS_OR_GONE
    words: ClassVar[Words] = {
        EventType.DELIVERED: ("email.delivered", {}),
        EventType.DEFERRED: ("email.delivery_delayed", {}),
        EventType.BOUNCED: ("email.bounced", {"bounce": {"type": "Permanent"}}),
        EventType.COMPLAINED: ("email.complained", {}),
        EventType.OPENED: ("email.opened", {}),
        EventType.CLICKED: ("email.clicked", {"click": {"link": "https://example.com/welcome"}}),
    }

    def event(self, one: Happening) -> dict[str, Any]:
        word, more = self.words[one.type]
        data = {"email_id": one.message_id, "to": [one.recipient], **more}
        return {"type": word, "timestamp": iso(one.occurred_s), "data": data}


SIMULATOR = StandardWebhooks
