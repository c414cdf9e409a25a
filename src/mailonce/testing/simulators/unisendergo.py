"""Unisender Go signs with a digest of the body in which the digest stands for the key."""

from collections.abc import Sequence
from hashlib import md5
from typing import Any, ClassVar

import orjson

from mailonce.core.events.event import EventType
from mailonce.testing.sign import iso
from mailonce.testing.simulator import OK_ALONE, Happening, Simulator, Words


class UnisenderGo(Simulator):
    """Posts the events of one user."""

    name = "unisendergo"
    batch_max = 8
    # Every ten minutes for a day.
    retry_waits_s = (600,) * 144
    final = OK_ALONE
    words: ClassVar[Words] = {
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

    def body(self, happenings: Sequence[Happening]) -> bytes:
        """Write the key, and then over it the digest of all."""
        events = [self.event(one) for one in happenings]
        users = [{"user_id": 1, "events": events}]
        body = orjson.dumps({"auth": self.secret, "events_by_user": users})
        digest = md5(body, usedforsecurity=False).hexdigest()
        return body.replace(self.secret.encode(), digest.encode())

    def event(self, one: Happening) -> dict[str, Any]:
        detail = {
            "job_id": one.message_id,
            "email": one.recipient,
            "event_time": iso(one.occurred_s)[:19].replace("T", " "),
            **self.words[one.type],
        }
        return {"event_name": "transactional_email_status", "event_data": detail}


SIMULATOR = UnisenderGo
