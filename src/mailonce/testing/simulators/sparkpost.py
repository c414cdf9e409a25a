"""SparkPost signs nothing, and wraps each event of its arrays twice."""

import secrets
from typing import Any, ClassVar

from mailonce.core.events.event import EventType
from mailonce.testing.simulator import OK_ALONE, Draft, Happening, UnsignedSimulator, Words, waits_s


class Sparkpost(UnsignedSimulator):
    """Posts batches, each under an id that its attempts share."""

    name = "sparkpost"
    batch_max = 8
    # Twelve attempts within eight hours; the steps are ours.
    retry_waits_s = waits_s(minutes=(1, 2, 4, 8, 15, 30), hours=(1, 1, 1, 2, 2))
    final = OK_ALONE
    words: ClassVar[Words] = {
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

    def event(self, one: Happening) -> dict[str, Any]:
        class_, more = self.words[one.type]
        detail = {
            "event_id": one.id,
            "timestamp": str(one.occurred_s),
            "transmission_id": one.message_id,
            "rcpt_to": one.recipient,
            **more,
            **one.details,
        }
        return {"msys": {class_: detail}}

    def proof(self, draft: Draft) -> dict[str, str]:
        return {**super().proof(draft), "X-MessageSystems-Batch-ID": secrets.token_hex(16)}


SIMULATOR = Sparkpost
