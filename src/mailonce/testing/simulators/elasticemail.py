"""Elastic Email signs nothing: its fields stand in the query of a GET, a secret in the path."""

from collections.abc import Sequence
from dataclasses import replace
from datetime import UTC, datetime
from typing import Any, ClassVar
from urllib.parse import urlencode

from mailonce.core.events.event import EventType
from mailonce.testing.simulator import (
    OK_ALONE,
    Happening,
    Post,
    Simulator,
    Words,
    waits_s,
    with_other_recipients,
)


class ElasticEmail(Simulator):
    """Tells one event at a time."""

    name = "elasticemail"
    # Undocumented; it gives up on a URL after a thousand failures.
    retry_waits_s = waits_s(minutes=(5, 15, 30), hours=(1, 2, 4, 8))
    final = OK_ALONE
    words: ClassVar[Words] = {
        EventType.DELIVERED: {"status": "Sent"},
        EventType.BOUNCED: {"status": "Error", "category": "NoMailbox"},
        EventType.COMPLAINED: {"status": "AbuseReport"},
        EventType.OPENED: {"status": "Opened"},
        EventType.CLICKED: {"status": "Clicked", "target": "https://example.com/welcome"},
    }

    def settings(self) -> dict[str, Any]:
        """Give the secret at the end of the URL."""
        return {"provider": self.provider, "token": self.secret}

    def post(self, happenings: Sequence[Happening], *, now_s: int) -> Post:
        del now_s
        (one,) = happenings
        query = urlencode(self.event(one), safe="@")
        return Post({}, b"", method="GET", path=f"/{self.secret}", query=query)

    def event(self, one: Happening) -> dict[str, Any]:
        moment = datetime.fromtimestamp(one.occurred_s, UTC)
        return {
            "transaction": f"tx-{one.message_id}",
            "messageid": one.message_id,
            "to": one.recipient,
            # As .NET writes it in American English.
            "date": f"{moment.month}/{moment.day}/{moment:%Y %I:%M:%S %p}",
            "subject": "Welcome",
            **self.words[one.type],
        }

    def forge(self, post: Post) -> Post:
        """Guess the secret."""
        return replace(with_other_recipients(post), path="/guess")


SIMULATOR = ElasticEmail
