"""Unisender Go signs with a digest of the body in which the digest stands for the key."""

from collections.abc import Mapping, Sequence
from hashlib import md5
from typing import Any

import orjson

from mailonce.core.events.event import EventType
from mailonce.testing.sign import iso
from mailonce.testing.simulator import Happening, Post, Simulator

OK = 200

WORDS: Mapping[EventType, Any] = {
    EventType.DELIVERED: {"status": "delivered"},
    EventType.DEFERRED: {"status": "soft_bounced"},
    EventType.BOUNCED: {
        "status": "hard_bounced",
        "delivery_info": {"delivery_status": "err_user_unknown"},
    },
    EventType.COMPLAINED: {"status": "spam"},
    EventType.OPENED: {"status": "opened", "delivery_info": {"ip": "192.0.2.1"}},
    EventType.CLICKED: {"status": "clicked", "url": "https://example.com/welcome"},
}


class UnisenderGo(Simulator):
    """Posts the events of one user."""

    name = "unisendergo"
    batch_max = 8
    # Every ten minutes for a day.
    retry_waits_s = (600,) * 144
    words = WORDS

    def settings(self) -> dict[str, Any]:
        """Give the API key."""
        return {"provider": self.provider, "secret": self.keys.text()}

    def post(self, happenings: Sequence[Happening], *, now_s: int) -> Post:
        """Tell events."""
        del now_s
        events = [
            {
                "event_name": "transactional_email_status",
                "event_data": {
                    "job_id": happening.message_id,
                    "email": happening.recipient,
                    "event_time": iso(happening.occurred_s)[:19].replace("T", " "),
                    **self.words[happening.type],
                },
            }
            for happening in happenings
        ]
        key = self.keys.text()
        body = orjson.dumps({"auth": key, "events_by_user": [{"user_id": 1, "events": events}]})
        digest = md5(body, usedforsecurity=False).hexdigest()
        return Post(
            {"Content-Type": "application/json"}, body.replace(key.encode(), digest.encode())
        )

    def stops(self, code: int) -> bool:
        """Only 200 is promised to end it."""
        return code == OK


SIMULATOR = UnisenderGo
