"""Mailgun signs time and a token, not the body; a retry has the token of the first attempt."""

import secrets
from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import Any

import orjson

from mailonce.core.events.event import EventType
from mailonce.testing.sign import hmac_hex
from mailonce.testing.simulator import (
    Happening,
    Post,
    Simulator,
    waits_s,
    with_other_recipients,
)

OK = 200
# "Not acceptable": do not send it again.
NEVER_AGAIN = 406

WORDS: Mapping[EventType, Any] = {
    EventType.DELIVERED: {"event": "delivered"},
    EventType.DEFERRED: {"event": "failed", "severity": "temporary", "reason": "generic"},
    EventType.BOUNCED: {"event": "failed", "severity": "permanent", "reason": "bounce"},
    EventType.COMPLAINED: {"event": "complained"},
    EventType.OPENED: {"event": "opened"},
    EventType.CLICKED: {"event": "clicked", "url": "https://example.com/welcome"},
}


class Mailgun(Simulator):
    """Every post has a token of its own."""

    name = "mailgun"
    signs_time = True
    retry_waits_s = waits_s(minutes=(5, 10, 15), hours=(1, 2, 4))
    words = WORDS

    def settings(self) -> dict[str, Any]:
        """Give the signing key."""
        return {"provider": self.provider, "secret": self.keys.text()}

    def post(self, happenings: Sequence[Happening], *, now_s: int) -> Post:
        """Tell one event."""
        (happening,) = happenings
        token = secrets.token_hex(25)
        signature = {
            "timestamp": str(now_s),
            "token": token,
            "signature": hmac_hex(self.keys.text(), f"{now_s}{token}".encode()),
        }
        detail = {
            "id": happening.id,
            "timestamp": float(happening.occurred_s),
            "recipient": happening.recipient,
            "message": {"headers": {"message-id": happening.message_id}},
            **self.words[happening.type],
        }
        body = orjson.dumps({"signature": signature, "event-data": detail})
        return Post({"Content-Type": "application/json"}, body)

    def stops(self, code: int) -> bool:
        """Take 200 for done and 406 for never."""
        return code in {OK, NEVER_AGAIN}

    def forge(self, post: Post) -> Post:
        """Make up a token: one that was seen is good for its own body only."""
        forged = orjson.loads(with_other_recipients(post).body)
        forged["signature"]["token"] = secrets.token_hex(25)
        return replace(post, body=orjson.dumps(forged))


SIMULATOR = Mailgun
