"""Elastic Email signs nothing: its fields stand in the query of a GET, a secret in the path."""

from collections.abc import Mapping, Sequence
from dataclasses import replace
from datetime import UTC, datetime
from typing import Any
from urllib.parse import urlencode

from mailonce.core.events.event import EventType
from mailonce.testing.simulator import (
    Happening,
    Post,
    Simulator,
    waits_s,
    with_other_recipients,
)

OK = 200

WORDS: Mapping[EventType, Any] = {
    EventType.DELIVERED: {"status": "Sent"},
    EventType.BOUNCED: {"status": "Error", "category": "NoMailbox"},
    EventType.COMPLAINED: {"status": "AbuseReport"},
    EventType.OPENED: {"status": "Opened"},
    EventType.CLICKED: {"status": "Clicked", "target": "https://example.com/welcome"},
}


class ElasticEmail(Simulator):
    """Tells one event at a time."""

    name = "elasticemail"
    # Undocumented; it gives up on a URL after a thousand failures.
    retry_waits_s = waits_s(minutes=(5, 15, 30), hours=(1, 2, 4, 8))
    words = WORDS

    def settings(self) -> dict[str, Any]:
        """Give the secret at the end of the URL."""
        return {"provider": self.provider, "token": self.keys.text()}

    def post(self, happenings: Sequence[Happening], *, now_s: int) -> Post:
        """Tell one event."""
        del now_s
        (happening,) = happenings
        moment = datetime.fromtimestamp(happening.occurred_s, UTC)
        fields = {
            "transaction": f"tx-{happening.message_id}",
            "messageid": happening.message_id,
            "to": happening.recipient,
            # As .NET writes it in American English.
            "date": f"{moment.month}/{moment.day}/{moment:%Y %I:%M:%S %p}",
            "subject": "Welcome",
            **self.words[happening.type],
        }
        query = urlencode(fields, safe="@")
        return Post({}, b"", method="GET", path=f"/{self.keys.text()}", query=query)

    def stops(self, code: int) -> bool:
        """Only 200 is promised to end it."""
        return code == OK

    def forge(self, post: Post) -> Post:
        """Guess the secret."""
        return replace(with_other_recipients(post), path="/guess")


SIMULATOR = ElasticEmail
