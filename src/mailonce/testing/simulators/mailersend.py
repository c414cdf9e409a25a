"""MailerSend signs the body, whose slashes it escapes, without a time."""

from collections.abc import Mapping, Sequence
from typing import Any

import orjson

from mailonce.core.events.event import EventType
from mailonce.testing.sign import hmac_hex, iso
from mailonce.testing.simulator import Happening, Post, Simulator

WORDS: Mapping[EventType, Any] = {
    EventType.DELIVERED: ("delivered", {}),
    EventType.DEFERRED: ("deferred", {}),
    EventType.BOUNCED: ("hard_bounced", {"bounce_reason": "550 5.1.1 no such user"}),
    EventType.COMPLAINED: ("spam_complaint", {}),
    EventType.OPENED: ("opened", {"ip": "192.0.2.1"}),
    EventType.CLICKED: ("clicked", {"url": "https://example.com/welcome"}),
}


class Mailersend(Simulator):
    """Posts one event at a time, in the second version of its form."""

    name = "mailersend"
    # By the older of its two pages; the newer one speaks of three days, without steps.
    retry_waits_s = (10, 100)
    words = WORDS

    def settings(self) -> dict[str, Any]:
        """Give the signing secret."""
        return {"provider": self.provider, "secret": self.keys.text()}

    def post(self, happenings: Sequence[Happening], *, now_s: int) -> Post:
        """Tell one event."""
        del now_s
        (happening,) = happenings
        word, more = self.words[happening.type]
        data = {
            "id": happening.id,
            "message_id": happening.message_id,
            "type": word,
            "recipient": happening.recipient,
            "meta": more,
        }
        event = {
            "type": f"activity.{word}",
            "created_at": iso(happening.occurred_s),
            "webhook_id": "wh1",
            "data": data,
        }
        body = orjson.dumps(event).replace(b"/", rb"\/")
        headers = {
            "Content-Type": "application/json",
            "Signature": hmac_hex(self.keys.text(), body),
        }
        return Post(headers, body)


SIMULATOR = Mailersend
