"""Resend has Svix sign and deliver: each attempt has a time and a signature of its own."""

from collections.abc import Mapping, Sequence
from typing import Any

import orjson

from mailonce.core.events.event import EventType
from mailonce.testing.sign import iso, standard_headers
from mailonce.testing.simulator import Happening, Post, Simulator, waits_s

WORDS: Mapping[EventType, Any] = {
    EventType.DELIVERED: ("email.delivered", {}),
    EventType.DEFERRED: ("email.delivery_delayed", {}),
    EventType.BOUNCED: (
        "email.bounced",
        {"bounce": {"type": "Permanent", "subType": "General", "message": "no such user"}},
    ),
    EventType.COMPLAINED: ("email.complained", {}),
    EventType.OPENED: ("email.opened", {}),
    EventType.CLICKED: ("email.clicked", {"click": {"link": "https://example.com/welcome"}}),
}


class Resend(Simulator):
    """Posts one event at a time."""

    name = "resend"
    signs_time = True
    resigns = True
    retry_waits_s = (5, *waits_s(minutes=(5, 30), hours=(2, 5, 10, 10)))
    words = WORDS

    def settings(self) -> dict[str, Any]:
        """Give the signing secret."""
        return {"provider": self.provider, "secret": f"whsec_{self.keys.base64()}"}

    def post(self, happenings: Sequence[Happening], *, now_s: int) -> Post:
        """Tell one event, under the id that all its attempts have."""
        (happening,) = happenings
        word, more = self.words[happening.type]
        data = {
            "email_id": happening.message_id,
            "from": "Shop <shop@example.com>",
            "to": [happening.recipient],
            "subject": "Welcome",
            **more,
        }
        body = orjson.dumps({"type": word, "created_at": iso(happening.occurred_s), "data": data})
        headers = standard_headers(
            self.keys.bytes(), f"msg_{happening.id}", body, now_s=now_s, family="svix-"
        )
        return Post(headers, body)


SIMULATOR = Resend
