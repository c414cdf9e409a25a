"""A sender of CloudEvents in batches, proven by a bearer token as their webhook draft has it."""

from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import Any

import orjson

from mailonce.core.events.event import EventType
from mailonce.testing.sign import iso
from mailonce.testing.simulator import (
    Happening,
    Post,
    Simulator,
    is_success,
    waits_s,
    with_other_recipients,
)

GONE = 410

WORDS: Mapping[EventType, Any] = {
    EventType.DELIVERED: ("email.delivered", {}),
    EventType.DEFERRED: ("email.delivery_delayed", {}),
    EventType.BOUNCED: ("email.bounced", {"bounce": {"type": "Permanent"}}),
    EventType.COMPLAINED: ("email.complained", {}),
    EventType.OPENED: ("email.opened", {}),
    EventType.CLICKED: ("email.clicked", {"url": "https://example.com/welcome"}),
}


class CloudEvents(Simulator):
    """Says things as the source's defaults understand them."""

    name = "cloudevents"
    batch_max = 5
    # The specification has no schedule; this one is ours.
    retry_waits_s = waits_s(minutes=(1, 5, 30), hours=(2, 6, 12))
    words = WORDS

    def settings(self) -> dict[str, Any]:
        """Give the token."""
        return {"provider": self.provider, "token": self.keys.text()}

    def post(self, happenings: Sequence[Happening], *, now_s: int) -> Post:
        """Tell events in a batch."""
        del now_s
        headers = {
            "Content-Type": "application/cloudevents-batch+json",
            "Authorization": f"Bearer {self.keys.text()}",
        }
        return Post(headers, orjson.dumps([self._event(happening) for happening in happenings]))

    def stops(self, code: int) -> bool:
        """Gone is gone."""
        return is_success(code) or code == GONE

    def forge(self, post: Post) -> Post:
        """Guess the token."""
        guess = {**post.headers, "Authorization": "Bearer guess"}
        return replace(with_other_recipients(post), headers=guess)

    def _event(self, happening: Happening) -> dict[str, Any]:
        word, more = self.words[happening.type]
        return {
            "specversion": "1.0",
            "id": happening.id,
            "source": "/mail",
            "type": word,
            "time": iso(happening.occurred_s),
            "data": {"message_id": happening.message_id, "to": happening.recipient, **more},
        }


SIMULATOR = CloudEvents
