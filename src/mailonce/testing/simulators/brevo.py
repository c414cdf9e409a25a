"""Brevo signs nothing, and takes every answer but "too many" for its last."""

from collections.abc import Mapping, Sequence
from typing import Any

import orjson

from mailonce.core.events.event import EventType
from mailonce.testing.simulator import Happening, Post, UnsignedSimulator, waits_s

WORDS: Mapping[EventType, Any] = {
    EventType.DELIVERED: {"event": "delivered"},
    EventType.DEFERRED: {"event": "deferred", "reason": "421 try again later"},
    EventType.BOUNCED: {"event": "hard_bounce", "reason": "550 5.1.1 no such user"},
    EventType.COMPLAINED: {"event": "spam"},
    EventType.OPENED: {"event": "opened"},
    EventType.CLICKED: {"event": "click", "link": "https://example.com/welcome"},
}


class Brevo(UnsignedSimulator):
    """Posts arrays, as a webhook that is set to `batched` does."""

    name = "brevo"
    batch_max = 8
    retry_waits_s = waits_s(minutes=(10,), hours=(1, 2, 8))
    words = WORDS

    def post(self, happenings: Sequence[Happening], *, now_s: int) -> Post:
        """Tell events in an array."""
        del now_s
        return Post(self._headers(), orjson.dumps([self._element(one) for one in happenings]))

    def stops(self, code: int) -> bool:
        """By its documentation a 5xx ends the retries as a 4xx does; no answer (0) does not."""
        return code not in {0, 429}

    def _element(self, happening: Happening) -> dict[str, Any]:
        return {
            "id": 1,
            "email": happening.recipient,
            "message-id": happening.message_id,
            "ts_epoch": happening.occurred_s * 1000,
            "subject": "Welcome",
            **self.words[happening.type],
        }


SIMULATOR = Brevo
