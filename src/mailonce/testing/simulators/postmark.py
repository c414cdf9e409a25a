"""Postmark signs nothing; a password in the URL proves it."""

from typing import Any, ClassVar

from mailonce.core.events.event import EventType
from mailonce.testing.sign import iso, number_of
from mailonce.testing.simulator import Happening, UnsignedSimulator, Words, final_codes, waits_s


class Postmark(UnsignedSimulator):
    """Posts one record at a time."""

    name = "postmark"
    retry_waits_s = waits_s(minutes=(1, 5, 10, 10, 10, 15))
    # Any 4xx drops the event, but for "too slow" and "too many".
    final = final_codes()
    words: ClassVar[Words] = {
        EventType.DELIVERED: ("Delivery", "DeliveredAt"),
        EventType.DEFERRED: ("Bounce", "BouncedAt"),
        EventType.BOUNCED: ("Bounce", "BouncedAt"),
        EventType.COMPLAINED: ("SpamComplaint", "BouncedAt"),
        EventType.OPENED: ("Open", "ReceivedAt"),
        EventType.CLICKED: ("Click", "ReceivedAt"),
    }
    kinds: ClassVar[dict[EventType, str]] = {
        EventType.DEFERRED: "Transient",
        EventType.BOUNCED: "HardBounce",
        EventType.COMPLAINED: "SpamComplaint",
    }

    def event(self, one: Happening) -> dict[str, Any]:
        kind, time = self.words[one.type]
        record: dict[str, Any] = {
            "RecordType": kind,
            "MessageID": one.message_id,
            "MessageStream": "outbound",
            time: iso(one.occurred_s),
            **one.details,
        }
        if one.type in self.kinds:
            record |= {"Email": one.recipient, "Type": self.kinds[one.type]}
            record["ID"] = number_of(one.id)
        else:
            record["Recipient"] = one.recipient
        return record


SIMULATOR = Postmark
