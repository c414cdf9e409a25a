"""Postmark signs nothing; a password in the URL proves it."""

from collections.abc import Mapping, Sequence
from typing import Any, ClassVar

import orjson

from mailonce.core.events.event import EventType
from mailonce.testing.sign import iso, number_of
from mailonce.testing.simulator import (
    Happening,
    Post,
    UnsignedSimulator,
    is_final,
    waits_s,
)

WORDS: Mapping[EventType, Any] = {
    EventType.DELIVERED: ("Delivery", "DeliveredAt"),
    EventType.DEFERRED: ("Bounce", "BouncedAt"),
    EventType.BOUNCED: ("Bounce", "BouncedAt"),
    EventType.COMPLAINED: ("SpamComplaint", "BouncedAt"),
    EventType.OPENED: ("Open", "ReceivedAt"),
    EventType.CLICKED: ("Click", "ReceivedAt"),
}


class Postmark(UnsignedSimulator):
    """Posts one record at a time."""

    name = "postmark"
    retry_waits_s = waits_s(minutes=(1, 5, 10, 10, 10, 15))
    words = WORDS
    kinds: ClassVar[dict[EventType, str]] = {
        EventType.DEFERRED: "Transient",
        EventType.BOUNCED: "HardBounce",
        EventType.COMPLAINED: "SpamComplaint",
    }

    def post(self, happenings: Sequence[Happening], *, now_s: int) -> Post:
        """Tell one record."""
        del now_s
        (happening,) = happenings
        kind, time = self.words[happening.type]
        record: dict[str, Any] = {
            "RecordType": kind,
            "MessageID": happening.message_id,
            "MessageStream": "outbound",
            time: iso(happening.occurred_s),
        }
        if happening.type in self.kinds:
            record |= {"Email": happening.recipient, "Type": self.kinds[happening.type]}
            record["ID"] = number_of(happening.id)
        else:
            record["Recipient"] = happening.recipient
        return Post(self._headers(), orjson.dumps(record))

    def stops(self, code: int) -> bool:
        """Any 4xx drops the event, but for "too slow" and "too many"."""
        return is_final(code)


SIMULATOR = Postmark
