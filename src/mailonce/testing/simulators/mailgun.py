"""Mailgun signs time and a token, not the body; a retry has the token of the first attempt."""

import secrets
from collections.abc import Sequence
from dataclasses import replace
from typing import Any, ClassVar

import orjson

from mailonce.core.events.event import EventType
from mailonce.testing.sign import hmac_hex
from mailonce.testing.simulator import (
    OK_ALONE,
    Happening,
    Post,
    Simulator,
    Words,
    waits_s,
    with_other_recipients,
)


class Mailgun(Simulator):
    """Every post has a token of its own."""

    name = "mailgun"
    signs_time = True
    retry_waits_s = waits_s(minutes=(5, 10, 15), hours=(1, 2, 4))
    # 406, "not acceptable", is: do not send it again.
    final = OK_ALONE | {406}
    words: ClassVar[Words] = {
        EventType.DELIVERED: {"event": "delivered"},
        EventType.DEFERRED: {"event": "failed", "severity": "temporary", "reason": "generic"},
        EventType.BOUNCED: {"event": "failed", "severity": "permanent", "reason": "bounce"},
        EventType.COMPLAINED: {"event": "complained"},
        EventType.OPENED: {"event": "opened"},
        EventType.CLICKED: {"event": "clicked", "url": "https://example.com/welcome"},
    }

    def post(self, happenings: Sequence[Happening], *, now_s: int) -> Post:
        """Put the signature into the body."""
        (one,) = happenings
        token = secrets.token_hex(25)
        signature = {
            "timestamp": str(now_s),
            "token": token,
            "signature": hmac_hex(self.secret, f"{now_s}{token}".encode()),
        }
        body = orjson.dumps({"signature": signature, "event-data": self.event(one)})
        return Post({"Content-Type": self.content_type}, body)

    def event(self, one: Happening) -> dict[str, Any]:
        return {
            "id": one.id,
            "timestamp": float(one.occurred_s),
            "recipient": one.recipient,
            "message": {"headers": {"message-id": one.message_id}},
            **self.words[one.type],
            **one.details,
        }

    def forge(self, post: Post) -> Post:
        """Make up a token: one that was seen is good for its own body only."""
        forged = orjson.loads(with_other_recipients(post).body)
        forged["signature"]["token"] = secrets.token_hex(25)
        return replace(post, body=orjson.dumps(forged))


SIMULATOR = Mailgun
