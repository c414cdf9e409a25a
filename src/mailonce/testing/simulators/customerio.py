"""Customer.io signs time and body with HMAC, and waits for one event before it tells the next."""

from typing import Any, ClassVar

from mailonce.core.events.event import EventType
from mailonce.testing.sign import hmac_hex
from mailonce.testing.simulator import Draft, Happening, Simulator, Words


class CustomerIo(Simulator):
    """Posts one event at a time; whether a retry is signed anew is not known."""

    name = "customerio"
    signs_time = True
    # Growing, for up to seven days; the steps are ours.
    retry_waits_s = tuple(60 * 2**step for step in range(13))
    words: ClassVar[Words] = {
        EventType.DELIVERED: ("delivered", {}),
        EventType.DEFERRED: ("attempted", {"failure_message": "421 try again later"}),
        EventType.BOUNCED: ("bounced", {"failure_message": "550 5.1.1 no such user"}),
        EventType.COMPLAINED: ("spammed", {}),
        EventType.OPENED: ("opened", {}),
        EventType.CLICKED: ("clicked", {"href": "https://example.com/welcome"}),
    }

    def event(self, one: Happening) -> dict[str, Any]:
        metric, more = self.words[one.type]
        return {
            "event_id": one.id,
            "object_type": "email",
            "metric": metric,
            "timestamp": one.occurred_s,
            "data": {"delivery_id": one.message_id, "recipient": one.recipient, **more},
        }

    def proof(self, draft: Draft) -> dict[str, str]:
        signed = f"v0:{draft.now_s}:".encode() + draft.body
        return {
            "X-CIO-Timestamp": str(draft.now_s),
            "X-CIO-Signature": hmac_hex(self.secret, signed),
        }


SIMULATOR = CustomerIo
