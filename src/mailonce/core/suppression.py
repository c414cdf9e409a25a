"""Suppressions: which addresses must not be written to, and why.

Per (address, stream, cause) we keep the set of what was said, suppressing or lifting. Whether the
address is suppressed is a function of that set, so it does not matter in which order it grew.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from enum import StrEnum

from mailonce.core.event import Bounce, Event, EventType, Reject
from mailonce.core.facts import Stamp

ALL_STREAMS = ""


class Cause(StrEnum):
    """Why an address is suppressed; each cause is lifted on its own."""

    HARD = "hard"
    COMPLAINT = "complaint"
    REJECTED = "rejected"
    UNSUBSCRIBE = "unsubscribe"
    MANUAL = "manual"


@dataclass(frozen=True, slots=True)
class Say:
    """What one event says about an address: suppress it for a cause, or lift that cause."""

    address: str
    stream: str
    cause: Cause
    lifts: bool


@dataclass(frozen=True, slots=True, kw_only=True)
class Said:
    """One remembered `Say`. `lifted`: a person has seen it and lifted it all the same."""

    lifts: bool
    stamp: Stamp | None
    lifted: bool = False
    reason: str | None = None
    event: bytes | None = None


_TYPES_THAT_SAY = frozenset(
    {
        EventType.BOUNCED,
        EventType.COMPLAINED,
        EventType.REJECTED,
        EventType.UNSUBSCRIBED,
        EventType.SUBSCRIBED,
    }
)
_REJECTS_THAT_SUPPRESS = frozenset({Reject.SUPPRESSED, Reject.INVALID, Reject.UNSUBSCRIBED})


def say_of(event: Event) -> Say | None:
    """Say what an event means for its address; most mean nothing.

    Soft bounces, rejections for policy, rendering or quota, and uncertain recipients never do.
    """
    address = event.recipient
    if event.type not in _TYPES_THAT_SAY or not address or not event.certain:
        return None
    match event.type:
        case EventType.BOUNCED if event.bounce is Bounce.HARD:
            return Say(address, ALL_STREAMS, Cause.HARD, lifts=False)
        case EventType.COMPLAINED:
            return Say(address, ALL_STREAMS, Cause.COMPLAINT, lifts=False)
        case EventType.REJECTED if event.reject in _REJECTS_THAT_SUPPRESS:
            return Say(address, ALL_STREAMS, Cause.REJECTED, lifts=False)
        case EventType.UNSUBSCRIBED:
            return Say(address, event.stream, Cause.UNSUBSCRIBE, lifts=False)
        case EventType.SUBSCRIBED:
            return Say(address, event.stream, Cause.UNSUBSCRIBE, lifts=True)
        case _:
            return None


def standing(said: Sequence[Said]) -> Said | None:
    """Give the earliest suppression since the last lift, or None where nothing stands.

    Equal stamps suppress. What has no usable time cannot be proven older than a lift, so it
    stands until a person who has seen it lifts it.
    """
    lifted_at = max((one.stamp for one in said if one.lifts and one.stamp), default=None)
    standing_ = [
        one
        for one in said
        if not one.lifts
        and not one.lifted
        and (one.stamp is None or lifted_at is None or one.stamp[:8] >= lifted_at[:8])
    ]
    if not standing_:
        return None
    return min(standing_, key=lambda one: (one.stamp is None, one.stamp or b"", one.event or b""))
