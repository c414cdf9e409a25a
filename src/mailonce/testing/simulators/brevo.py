"""Brevo signs nothing, and takes every answer but "too many" for its last."""

from typing import Any, ClassVar

from mailonce.core.events.event import EventType
from mailonce.testing.simulator import Happening, UnsignedSimulator, Words, waits_s


class Brevo(UnsignedSimulator):
    """Posts arrays, as a webhook that is set to `batched` does."""

    name = "brevo"
    batch_max = 8
    retry_waits_s = waits_s(minutes=(10,), hours=(1, 2, 8))
    # By its documentation a 5xx ends the retries as a 4xx does.
    final = frozenset(range(1, 1000)) - {429}
    words: ClassVar[Words] = {
        EventType.DELIVERED: {"event": "delivered"},
        EventType.DEFERRED: {"event": "deferred", "reason": "421 try again later"},
        EventType.BOUNCED: {"event": "hard_bounce", "reason": "550 5.1.1 no such user"},
        EventType.COMPLAINED: {"event": "spam"},
        EventType.OPENED: {"event": "opened"},
        EventType.CLICKED: {"event": "click", "link": "https://example.com/welcome"},
    }

    def event(self, one: Happening) -> dict[str, Any]:
        return {
            "id": 1,
            "email": one.recipient,
            "message-id": one.message_id,
            "ts_epoch": one.occurred_s * 1000,
            "subject": "Welcome",
            **self.words[one.type],
            **one.details,
        }


SIMULATOR = Brevo
