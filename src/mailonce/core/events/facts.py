"""Facts: what is known to be true of a (message, recipient), and the status derived from them.

Facts form a join-semilattice: kinds are joined by union, stamps by min and max. So the order and
the number of copies in which events arrive cannot matter.
"""

from collections.abc import Iterable, Mapping
from enum import IntEnum
from typing import NewType

from msgspec import Struct

from mailonce.core.events.event import BOUNCED, Bounce, Event, EventType, Reject
from mailonce.core.events.key import Key

# Eight bytes of event time and eight of the event's key: a total order made of content alone.
Stamp = NewType("Stamp", bytes)

# A time further ahead of receipt than this is not believed: it sets a fact, but no stamp.
AHEAD_MS_MAX = 86_400_000


class Kind(IntEnum):
    """Kinds of fact. A number is stored, so it is never given another meaning."""

    ACCEPTED = 1
    SENT = 2
    DEFERRED = 3
    SOFT = 4
    DELIVERED = 5
    LATE_SOFT = 6
    REJECTED = 7
    HARD = 8
    COMPLAINED = 9
    HELD = 10
    OPENED = 20
    CLICKED = 21
    UNSUBSCRIBED = 22
    SUBSCRIBED = 23
    INBOUND = 24
    OTHER = 25


# By rank: status is the last of these that is known.
RANKED = (
    Kind.ACCEPTED,
    Kind.SENT,
    Kind.DEFERRED,
    Kind.HELD,
    Kind.SOFT,
    Kind.DELIVERED,
    Kind.LATE_SOFT,
    Kind.REJECTED,
    Kind.HARD,
    Kind.COMPLAINED,
)
# Each of these could not have happened to a mail that was not delivered.
IMPLY_DELIVERED = frozenset({Kind.COMPLAINED, Kind.OPENED, Kind.CLICKED, Kind.UNSUBSCRIBED})

# A bounce is of several kinds; every other type has one, of its own name.
_KINDS: Mapping[EventType, Kind] = {
    type_: Kind[type_.name] for type_ in EventType if type_ is not EventType.BOUNCED
}
TYPE_OF_KIND: Mapping[Kind, EventType] = {
    **{kind: type_ for type_, kind in _KINDS.items()},
    Kind.HELD: EventType.REJECTED,
    Kind.SOFT: EventType.BOUNCED,
    Kind.LATE_SOFT: EventType.BOUNCED,
    Kind.HARD: EventType.BOUNCED,
}


# A member of an enum is slow to look up, and every event is asked for.
_HARD, _HELD = Bounce.HARD, Reject.HELD


class Fact(Struct, frozen=True, gc=False):
    """One kind of event known of a message: the number of first copies, and the extreme stamps."""

    count: int
    first: Stamp | None
    last: Stamp | None


def kind_of(event: Event) -> Kind:
    """Say which fact an event makes true. A bounce that is not surely hard ranks as soft."""
    if event.reject is _HELD:
        return Kind.HELD
    if event.type is not BOUNCED:
        return _KINDS[event.type]
    if event.bounce is _HARD:
        return Kind.HARD
    return Kind.LATE_SOFT if event.late else Kind.SOFT


def stamp_of(occurred_ms: int | None, key: Key, *, received_ms: int) -> Stamp | None:
    """Make a stamp, or none where the event's own time is missing or too far ahead."""
    if occurred_ms is None or occurred_ms > received_ms + AHEAD_MS_MAX:
        return None
    return Stamp(occurred_ms.to_bytes(8, "big") + key[:8])


def stamp_ms(stamp: Stamp) -> int:
    """Read the event time back out of a stamp."""
    return int.from_bytes(stamp[:8], "big")


def join(one: Fact, other: Fact) -> Fact:
    """Join what two sets of events say: commutative, associative, and idempotent in the stamps."""
    return Fact(
        count=one.count + other.count,
        first=min(filter(None, (one.first, other.first)), default=None),
        last=max(filter(None, (one.last, other.last)), default=None),
    )


def status(kinds: Iterable[Kind]) -> str | None:
    """Derive the one word for a message; it uses no time, so no clock can flip it."""
    known = set(kinds)
    if known & IMPLY_DELIVERED:
        known.add(Kind.DELIVERED)
    highest = next((kind for kind in reversed(RANKED) if kind in known), None)
    return None if highest is None else highest.name.lower()
