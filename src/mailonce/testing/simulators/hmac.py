"""A sender of one's own, that signs with HMAC and has its own words and places for things."""

from collections.abc import Mapping, Sequence
from typing import Any

import orjson

from mailonce.core.events.event import EventType
from mailonce.testing.sign import hmac_hex, iso
from mailonce.testing.simulator import Happening, Post, Simulator, waits_s

WORDS: Mapping[EventType, Any] = {
    EventType.DELIVERED: "arrived",
    EventType.DEFERRED: "waiting",
    EventType.BOUNCED: "returned",
    EventType.COMPLAINED: "complained",
    EventType.OPENED: "read",
    EventType.CLICKED: "followed",
}


class Hmac(Simulator):
    """Posts lists, under a key of the body, and is read by the options of its source."""

    name = "hmac"
    batch_max = 5
    signs_time = True
    resigns = True
    # There is no such provider, so the waits are ours.
    retry_waits_s = waits_s(minutes=(1, 5, 30), hours=(1, 6))
    words = WORDS

    def settings(self) -> dict[str, Any]:
        """Say how it signs, where things stand, and what its words mean."""
        return {
            "provider": self.provider,
            "secret": self.keys.text(),
            "options": {
                "header": "X-Signature",
                "prefix": "sha256=",
                "template": "{ts}.{body}",
                "timestamp_header": "X-Timestamp",
                "elements": "/notices",
                "event_id": "/number",
                "type": "/what",
                "message_id": "/mail/id",
                "recipient": "/mail/to",
                "time": "/at",
                "words": {
                    word: "bounced:hard" if type_ is EventType.BOUNCED else type_.value
                    for type_, word in self.words.items()
                },
            },
        }

    def post(self, happenings: Sequence[Happening], *, now_s: int) -> Post:
        """Tell a list of events."""
        notices = [
            {
                "number": happening.id,
                "what": self.words[happening.type],
                "mail": {"id": happening.message_id, "to": happening.recipient},
                "at": iso(happening.occurred_s),
            }
            for happening in happenings
        ]
        body = orjson.dumps({"notices": notices})
        signature = hmac_hex(self.keys.text(), f"{now_s}.".encode() + body)
        headers = {
            "Content-Type": "application/json",
            "X-Timestamp": str(now_s),
            "X-Signature": f"sha256={signature}",
        }
        return Post(headers, body)


SIMULATOR = Hmac
