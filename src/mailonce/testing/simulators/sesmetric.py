"""SESMetric signs time and body with HMAC."""

from typing import Any, ClassVar

from mailonce.core.events.event import EventType
from mailonce.testing.sign import hmac_hex
from mailonce.testing.simulator import Draft, Happening, Simulator, Words, waits_s


class Sesmetric(Simulator):
    """Posts one event at a time."""

    name = "sesmetric"
    signs_time = True
    resigns = True
    # It says that it tries for three days, not how often.
    retry_waits_s = waits_s(minutes=(1, 5, 30, 24), hours=(1, 4, 8, 10, 24, 24))
    words: ClassVar[Words] = {
        EventType.DELIVERED: {"type": "delivered"},
        EventType.DEFERRED: {"type": "deferred"},
        EventType.COMPLAINED: {"type": "complained"},
        EventType.OPENED: {"type": "opened"},
        EventType.CLICKED: {"type": "clicked"},
        EventType.BOUNCED: {"type": "bounced", "bounce_type": "hard"},
    }

    def event(self, one: Happening) -> dict[str, Any]:
        return {
            "id": one.id,
            "message_id": one.message_id,
            "recipient": one.recipient,
            "timestamp": one.occurred_s,
            **self.words[one.type],
        }

    def proof(self, draft: Draft) -> dict[str, str]:
        signed = f"{draft.now_s}.".encode() + draft.body
        return {
            "X-SESMetric-Timestamp": str(draft.now_s),
            "X-SESMetric-Signature": hmac_hex(self.secret, signed),
        }


SIMULATOR = Sesmetric
