"""A sender of one's own, that signs with HMAC and has its own words and places for things."""

from collections.abc import Sequence
from typing import Any, ClassVar

import orjson

from mailonce.core.events.event import EventType
from mailonce.testing.sign import hmac_hex, iso
from mailonce.testing.simulator import Draft, Happening, Simulator, Words, waits_s


class Hmac(Simulator):
    """Posts lists, under a key of the body, and is read by the options of its source."""

    name = "hmac"
    batch_max = 5
    signs_time = True
    resigns = True
    # There is no such provider, so the waits are ours.
    retry_waits_s = waits_s(minutes=(1, 5, 30), hours=(1, 6))
    words: ClassVar[Words] = {
        EventType.DELIVERED: "arrived",
        EventType.DEFERRED: "waiting",
        EventType.BOUNCED: "returned",
        EventType.COMPLAINED: "complained",
        EventType.OPENED: "read",
        EventType.CLICKED: "followed",
    }

    def settings(self) -> dict[str, Any]:
        """Say how it signs, where things stand, and what its words mean."""
        options = {
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
        }
        return {**super().settings(), "options": options}

    def body(self, happenings: Sequence[Happening]) -> bytes:
        """Write a list under a key."""
        return orjson.dumps({"notices": [self.event(one) for one in happenings]})

    def event(self, one: Happening) -> dict[str, Any]:
        return {
            "number": one.id,
            "what": self.words[one.type],
            "mail": {"id": one.message_id, "to": one.recipient},
            "at": iso(one.occurred_s),
        }

    def proof(self, draft: Draft) -> dict[str, str]:
        signature = hmac_hex(self.secret, f"{draft.now_s}.".encode() + draft.body)
        return {"X-Timestamp": str(draft.now_s), "X-Signature": f"sha256={signature}"}


SIMULATOR = Hmac
