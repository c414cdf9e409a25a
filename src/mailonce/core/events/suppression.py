"""Suppressions: which addresses must not be sent mail, and why.

Per (address, stream, cause) we keep the set of what was said, suppressing or lifting. Whether the
address is suppressed is a function of that set, so it does not matter in which order it grew.
"""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from enum import StrEnum

from mailonce.core.events.event import Bounce, Event, EventType, Reject
from mailonce.core.events.facts import Stamp
from mailonce.errors import ConfigError

ALL_STREAMS = ""


class Cause(StrEnum):
    """Why an address is suppressed; each cause is lifted on its own."""

    HARD = "hard"
    # A bounce of another class, where the workspace is set to suppress by it.
    BOUNCED = "bounced"
    COMPLAINT = "complaint"
    REJECTED = "rejected"
    UNSUBSCRIBE = "unsubscribe"
    MANUAL = "manual"


@dataclass(frozen=True, slots=True)
class SuppressionStatement:
    """An event's statement about an address: suppress it for a cause, or lift that cause."""

    address: str
    stream: str
    cause: Cause
    lifts: bool


@dataclass(frozen=True, slots=True, kw_only=True)
class RecordedStatement:
    """A stored `SuppressionStatement`. `lifted`: a person has lifted it by hand."""

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

# Which events suppress an address: a type, or a type and the class of a bounce or rejection.
Suppress = frozenset[str]
SUPPRESS: Suppress = frozenset(
    {
        "bounced:hard",
        "complained",
        "rejected:suppressed",
        "rejected:invalid",
        "rejected:unsubscribed",
        "unsubscribed",
    }
)
_WORDS = frozenset(
    {
        "bounced",
        *(f"bounced:{one}" for one in Bounce),
        "rejected",
        *(f"rejected:{one}" for one in Reject),
        "complained",
        "unsubscribed",
    }
)


def suppress_of(words: Iterable[str]) -> Suppress:
    """Read which events suppress, as an operator writes it: `bounced` stands for every class.

    Raises: ConfigError that names the word which means nothing.
    """
    chosen = set(words)
    for word in sorted(chosen - _WORDS):
        raise ConfigError(f"`suppress`: {word[:40]!r} is none of {', '.join(sorted(_WORDS))}")
    return frozenset(chosen)


def suppress_in(settings: Mapping[str, Suppress], workspace: str) -> Suppress:
    """Say which events suppress in a workspace; '' stands for those that have no own setting."""
    return settings.get(workspace, settings.get("", SUPPRESS))


def statement_of(event: Event, suppress: Suppress = SUPPRESS) -> SuppressionStatement | None:
    """Say what an event means for its address; most mean nothing, uncertain recipients never do.

    It looks at the event and the setting alone, so the order of arrivals cannot matter.
    """
    address = event.recipient
    if event.type not in _TYPES_THAT_SAY or not address or not event.certain:
        return None
    match event.type:
        case EventType.BOUNCED if _is_named("bounced", event.bounce, suppress):
            cause = Cause.HARD if event.bounce is Bounce.HARD else Cause.BOUNCED
            return SuppressionStatement(address, ALL_STREAMS, cause, lifts=False)
        case EventType.COMPLAINED if "complained" in suppress:
            return SuppressionStatement(address, ALL_STREAMS, Cause.COMPLAINT, lifts=False)
        case EventType.REJECTED if _is_named("rejected", event.reject, suppress):
            return SuppressionStatement(address, ALL_STREAMS, Cause.REJECTED, lifts=False)
        case EventType.UNSUBSCRIBED if "unsubscribed" in suppress:
            return SuppressionStatement(address, event.stream, Cause.UNSUBSCRIBE, lifts=False)
        case EventType.SUBSCRIBED:
            return SuppressionStatement(address, event.stream, Cause.UNSUBSCRIBE, lifts=True)
        case _:
            return None


def _is_named(type_: str, class_: str | None, suppress: Suppress) -> bool:
    return type_ in suppress or f"{type_}:{class_}" in suppress


def standing(statements: Sequence[RecordedStatement]) -> RecordedStatement | None:
    """Give the earliest suppression since the last lift, or None where nothing stands.

    Equal stamps suppress. What has no usable time cannot be proven older than a lift, so it
    stands until a person who has seen it lifts it.
    """
    lifted_at = max((row.stamp for row in statements if row.lifts and row.stamp), default=None)
    standing_ = [
        row
        for row in statements
        if not row.lifts
        and not row.lifted
        and (row.stamp is None or lifted_at is None or row.stamp[:8] >= lifted_at[:8])
    ]
    if not standing_:
        return None
    return min(standing_, key=lambda row: (row.stamp is None, row.stamp or b"", row.event or b""))
