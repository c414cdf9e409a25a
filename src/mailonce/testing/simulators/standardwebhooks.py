"""Any sender that follows Standard Webhooks: each attempt has a time and a signature of its own."""

from collections.abc import Mapping, Sequence
from typing import Any

import orjson

from mailonce.core.events.event import EventType
from mailonce.testing.sign import iso, standard_headers
from mailonce.testing.simulator import Happening, Post, Simulator, is_success, waits_s

GONE = 410

WORDS: Mapping[EventType, Any] = {
    EventType.DELIVERED: ("email.delivered", {}),
    EventType.DEFERRED: ("email.delivery_delayed", {}),
    EventType.BOUNCED: ("email.bounced", {"bounce": {"type": "Permanent"}}),
    EventType.COMPLAINED: ("email.complained", {}),
    EventType.OPENED: ("email.opened", {}),
    EventType.CLICKED: ("email.clicked", {"click": {"link": "https://example.com/welcome"}}),
}


class StandardWebhooks(Simulator):
    """Says things as the source's defaults understand them."""

    name = "standardwebhooks"
    signs_time = True
    resigns = True
    # The example of the specification.
    retry_waits_s = (5, *waits_s(minutes=(5, 30), hours=(2, 5, 10, 14, 20, 24)))
    words = WORDS

    def settings(self) -> dict[str, Any]:
        """Give the secret."""
        return {"provider": self.provider, "secret": f"whsec_{self.keys.base64()}"}

    def post(self, happenings: Sequence[Happening], *, now_s: int) -> Post:
        """Tell one event; the id of the headers is the event's."""
        (one,) = happenings
        word, more = self.words[one.type]
        data = {"email_id": one.message_id, "to": [one.recipient], **more}
        body = orjson.dumps({"type": word, "timestamp": iso(one.occurred_s), "data": data})
        return Post(standard_headers(self.keys.bytes(), f"msg_{one.id}", body, now_s=now_s), body)

    def stops(self, code: int) -> bool:
        """Gone is gone."""
        return is_success(code) or code == GONE


SIMULATOR = StandardWebhooks
