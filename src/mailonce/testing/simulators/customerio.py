"""Customer.io signs time and body with HMAC, and waits for one event before it tells the next."""

from collections.abc import Mapping, Sequence
from typing import Any

import orjson

from mailonce.core.events.event import EventType
from mailonce.testing.sign import hmac_hex
from mailonce.testing.simulator import Happening, Post, Simulator

WORDS: Mapping[EventType, Any] = {
    EventType.DELIVERED: ("delivered", {}),
    EventType.DEFERRED: ("attempted", {"failure_message": "421 try again later"}),
    EventType.BOUNCED: ("bounced", {"failure_message": "550 5.1.1 no such user"}),
    EventType.COMPLAINED: ("spammed", {}),
    EventType.OPENED: ("opened", {}),
    EventType.CLICKED: ("clicked", {"href": "https://example.com/welcome"}),
}


class CustomerIo(Simulator):
    """Posts one event at a time; whether a retry is signed anew is not known."""

    name = "customerio"
    signs_time = True
    # Growing, for up to seven days; the steps are ours.
    retry_waits_s = tuple(60 * 2**step for step in range(13))
    words = WORDS

    def settings(self) -> dict[str, Any]:
        """Give the signing key."""
        return {"provider": self.provider, "secret": self.keys.text()}

    def post(self, happenings: Sequence[Happening], *, now_s: int) -> Post:
        """Tell one event."""
        (happening,) = happenings
        metric, more = self.words[happening.type]
        data = {"delivery_id": happening.message_id, "recipient": happening.recipient, **more}
        event = {
            "event_id": happening.id,
            "object_type": "email",
            "metric": metric,
            "timestamp": happening.occurred_s,
            "data": data,
        }
        body = orjson.dumps(event)
        headers = {
            "Content-Type": "application/json",
            "X-CIO-Timestamp": str(now_s),
            "X-CIO-Signature": hmac_hex(self.keys.text(), f"v0:{now_s}:".encode() + body),
        }
        return Post(headers, body)


SIMULATOR = CustomerIo
