"""Mailhook tells of mail that came in; how it signs, the options of its source must say."""

from collections.abc import Mapping, Sequence
from typing import Any

import orjson

from mailonce.core.events.event import EventType
from mailonce.testing.sign import hmac_hex, iso
from mailonce.testing.simulator import Happening, Post, Simulator, waits_s

WORDS: Mapping[EventType, Any] = {EventType.INBOUND: "email.received"}


class Mailhook(Simulator):
    """Signs time and body: its own way is told to its customers only."""

    name = "mailhook"
    signs_time = True
    resigns = True
    # Undocumented, like the rest.
    retry_waits_s = waits_s(minutes=(1, 5, 30), hours=(2, 6))
    words = WORDS

    def settings(self) -> dict[str, Any]:
        """Say how it signs, and where things stand."""
        return {
            "provider": self.provider,
            "secret": self.keys.text(),
            "options": {
                "header": "X-Webhook-Signature",
                "template": "{ts}.{body}",
                "timestamp_header": "X-Webhook-Timestamp",
                "event_id": "/id",
                "message_id": "/email/message_id",
                "recipient": "/email/to",
                "time": "/received_at",
            },
        }

    def post(self, happenings: Sequence[Happening], *, now_s: int) -> Post:
        """Tell of one mail."""
        (one,) = happenings
        event = {
            "id": one.id,
            "type": self.words[one.type],
            "received_at": iso(one.occurred_s),
            "email": {"message_id": one.message_id, "to": one.recipient, "subject": "Your code"},
        }
        body = orjson.dumps(event)
        headers = {
            "Content-Type": "application/json",
            "X-Webhook-Timestamp": str(now_s),
            "X-Webhook-Signature": hmac_hex(self.keys.text(), f"{now_s}.".encode() + body),
        }
        return Post(headers, body)


SIMULATOR = Mailhook
