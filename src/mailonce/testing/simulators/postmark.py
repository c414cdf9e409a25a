"""Postmark signs nothing; a password in the URL proves it."""

from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import Any, ClassVar

import orjson

from mailonce.core.event import EventType
from mailonce.testing.sign import basic, iso, number_of
from mailonce.testing.simulator import (
    MINUTE_S,
    Happening,
    Post,
    Simulator,
    is_final,
    with_other_recipients,
)

WORDS: Mapping[EventType, Any] = {
    EventType.DELIVERED: ("Delivery", "DeliveredAt"),
    EventType.DEFERRED: ("Bounce", "BouncedAt"),
    EventType.BOUNCED: ("Bounce", "BouncedAt"),
    EventType.COMPLAINED: ("SpamComplaint", "BouncedAt"),
    EventType.OPENED: ("Open", "ReceivedAt"),
    EventType.CLICKED: ("Click", "ReceivedAt"),
}


class Postmark(Simulator):
    """Posts one record at a time."""

    name = "postmark"
    retry_waits_s = tuple(minutes * MINUTE_S for minutes in (1, 5, 10, 10, 10, 15))
    words = WORDS
    kinds: ClassVar[dict[EventType, str]] = {
        EventType.DEFERRED: "Transient",
        EventType.BOUNCED: "HardBounce",
        EventType.COMPLAINED: "SpamComplaint",
    }

    def settings(self) -> dict[str, Any]:
        """Give user and password."""
        return {"provider": self.provider, "basic": self._user_and_password()}

    def post(self, happenings: Sequence[Happening], *, now_s: int) -> Post:
        """Tell one record."""
        del now_s
        (one,) = happenings
        kind, time = self.words[one.type]
        record: dict[str, Any] = {
            "RecordType": kind,
            "MessageID": one.message_id,
            "MessageStream": "outbound",
            time: iso(one.occurred_s),
        }
        if one.type in self.kinds:
            record |= {"Email": one.recipient, "Type": self.kinds[one.type]}
            record["ID"] = number_of(one.id)
        else:
            record["Recipient"] = one.recipient
        proof = basic(self._user_and_password())
        return Post(
            {"Content-Type": "application/json", "Authorization": proof}, orjson.dumps(record)
        )

    def stops(self, code: int) -> bool:
        """Any 4xx drops the event, but for "too slow" and "too many"."""
        return is_final(code)

    def forge(self, post: Post) -> Post:
        """Guess a password."""
        guess = {**post.headers, "Authorization": basic("postmark:guess")}
        return replace(with_other_recipients(post), headers=guess)

    def _user_and_password(self) -> str:
        return f"postmark:{self.keys.text()}"


SIMULATOR = Postmark
