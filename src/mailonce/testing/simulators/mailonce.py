"""Another mailonce, whose outgoing webhooks come in here."""

from hashlib import sha256
from typing import Any, ClassVar

from mailonce.core.events.event import EventType
from mailonce.testing.sign import iso
from mailonce.testing.simulator import (
    SUCCESS_OR_GONE,
    Draft,
    Happening,
    StandardSimulator,
    Words,
    waits_s,
)


class Mailonce(StandardSimulator):
    """Posts one event at a time, with one body and one key on each attempt."""

    name = "mailonce"
    retry_waits_s = (5, 30, *waits_s(minutes=(2, 10, 30), hours=(1, 3, 6, 12, 24, 24)))
    final = SUCCESS_OR_GONE
    words: ClassVar[Words] = {
        EventType.DELIVERED: {"type": "delivered"},
        EventType.DEFERRED: {"type": "deferred"},
        EventType.BOUNCED: {"type": "bounced", "bounce": "hard"},
        EventType.COMPLAINED: {"type": "complained"},
        EventType.OPENED: {"type": "opened"},
        EventType.CLICKED: {"type": "clicked", "url": "https://example.com/welcome"},
    }

    def event(self, one: Happening) -> dict[str, Any]:
        return {
            "schema": "mailonce.event/1",
            "identity": _identity(one),
            "message_id": one.message_id,
            "recipient": one.recipient,
            "occurred_at": iso(one.occurred_s),
            **self.words[one.type],
        }

    def proof(self, draft: Draft) -> dict[str, str]:
        key = self.webhook_id(draft.happenings[0])
        return {**super().proof(draft), "X-Idempotency-Key": key, "Idempotency-Key": key}

    def webhook_id(self, one: Happening) -> str:
        """Give the key of a delivery."""
        return sha256(f"{_identity(one)}|rt_1".encode()).hexdigest()


def _identity(one: Happening) -> str:
    return sha256(one.id.encode()).hexdigest()[:32]


SIMULATOR = Mailonce
