"""Another mailonce, whose outgoing webhooks come in here."""

from collections.abc import Mapping, Sequence
from hashlib import sha256
from typing import Any

import orjson

from mailonce.core.events.event import EventType
from mailonce.testing.sign import iso, standard_headers
from mailonce.testing.simulator import Happening, Post, Simulator, is_success, waits_s

GONE = 410

WORDS: Mapping[EventType, Any] = {
    EventType.DELIVERED: {"type": "delivered"},
    EventType.DEFERRED: {"type": "deferred"},
    EventType.BOUNCED: {"type": "bounced", "bounce": "hard"},
    EventType.COMPLAINED: {"type": "complained"},
    EventType.OPENED: {"type": "opened"},
    EventType.CLICKED: {"type": "clicked", "url": "https://example.com/welcome"},
}


class Mailonce(Simulator):
    """Posts one event at a time, with one body and one key on each attempt."""

    name = "mailonce"
    signs_time = True
    resigns = True
    retry_waits_s = (5, 30, *waits_s(minutes=(2, 10, 30), hours=(1, 3, 6, 12, 24, 24)))
    words = WORDS

    def settings(self) -> dict[str, Any]:
        """Give the secret of the sender's route."""
        return {"provider": self.provider, "secret": f"whsec_{self.keys.base64()}"}

    def post(self, happenings: Sequence[Happening], *, now_s: int) -> Post:
        """Tell one event."""
        (happening,) = happenings
        identity = sha256(happening.id.encode()).hexdigest()[:32]
        event = {
            "schema": "mailonce.event/1",
            "identity": identity,
            "message_id": happening.message_id,
            "recipient": happening.recipient,
            "occurred_at": iso(happening.occurred_s),
            **self.words[happening.type],
        }
        body = orjson.dumps(event)
        key = sha256(f"{identity}|rt_1".encode()).hexdigest()
        headers = standard_headers(self.keys.bytes(), key, body, now_s=now_s)
        return Post({**headers, "X-Idempotency-Key": key, "Idempotency-Key": key}, body)

    def stops(self, code: int) -> bool:
        """Gone is gone."""
        return is_success(code) or code == GONE


SIMULATOR = Mailonce
