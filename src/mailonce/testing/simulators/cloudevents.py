"""A sender of CloudEvents in batches, proven by a bearer token as their webhook draft has it."""

from dataclasses import replace
from typing import Any, ClassVar

from mailonce.core.events.event import EventType
from mailonce.testing.sign import iso
from mailonce.testing.simulator import (
    SUCCESS_OR_GONE,
    Draft,
    Happening,
    Post,
    Simulator,
    Words,
    waits_s,
    with_other_recipients,
)


class CloudEvents(Simulator):
    """Says things as the source's defaults understand them."""

    name = "cloudevents"
    content_type = "application/cloudevents-batch+json"
    batch_max = 5
    # The specification has no schedule; this one is ours.
    retry_waits_s = waits_s(minutes=(1, 5, 30), hours=(2, 6, 12))
    final = SUCCESS_OR_GONE
    words: ClassVar[Words] = {
        EventType.DELIVERED: ("email.delivered", {}),
        EventType.DEFERRED: ("email.delivery_delayed", {}),
        EventType.BOUNCED: ("email.bounced", {"bounce": {"type": "Permanent"}}),
        EventType.COMPLAINED: ("email.complained", {}),
        EventType.OPENED: ("email.opened", {}),
        EventType.CLICKED: ("email.clicked", {"url": "https://example.com/welcome"}),
    }

    def settings(self) -> dict[str, Any]:
        return {"provider": self.provider, "token": self.secret}

    def event(self, one: Happening) -> dict[str, Any]:
        word, more = self.words[one.type]
        return {
            "specversion": "1.0",
            "id": one.id,
            "source": "/mail",
            "type": word,
            "time": iso(one.occurred_s),
            "data": {"message_id": one.message_id, "to": one.recipient, **more},
        }

    def proof(self, draft: Draft) -> dict[str, str]:
        del draft
        return {"Authorization": f"Bearer {self.secret}"}

    def forge(self, post: Post) -> Post:
        """Guess the token."""
        guess = {**post.headers, "Authorization": "Bearer guess"}
        return replace(with_other_recipients(post), headers=guess)


SIMULATOR = CloudEvents
