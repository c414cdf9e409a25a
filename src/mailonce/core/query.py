"""Filters of the lists: events, counts, dead letters, deliveries, sends, messages of inboxes."""

from dataclasses import dataclass

from mailonce.core.events.event import EventType
from mailonce.core.sends.send_lifecycle import SendState
from mailonce.core.work.states import State


def other_spelling(message_id: str) -> str:
    """Put a message id in angle brackets, or take them off: providers write it both ways."""
    bare = message_id.removeprefix("<").removesuffix(">")
    return bare if bare != message_id else f"<{message_id}>"


@dataclass(frozen=True, slots=True, kw_only=True)
class EventFilter:
    """Which events to list; a field that is None filters nothing.

    `since_ms` and `until_ms` speak of receipt by the database's clock, the end excluded.
    """

    source: str | None = None
    type: EventType | None = None
    recipient: str | None = None
    message_id: str | None = None
    since_ms: int | None = None
    until_ms: int | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class CountFilter:
    """Which counts to sum. Days are days since 1970; `until_day` is excluded."""

    source: str | None = None
    type: EventType | None = None
    since_day: int | None = None
    until_day: int | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class ConflictFilter:
    """Which conflicts to list; times speak of their receipt, the end excluded."""

    source: str | None = None
    since_ms: int | None = None
    until_ms: int | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class DeadLetterFilter:
    """Which dead letters to list; those that were retried with success are left out."""

    source: str | None = None
    # An arrival or a mail that could not be read, or a delivery that was given up.
    kind: str | None = None
    route: str | None = None
    # Of a delivery: whom its event is about, and which message.
    recipient: str | None = None
    message_id: str | None = None
    # Only of these deliveries, by their keys.
    deliveries: tuple[bytes, ...] | None = None
    resolved: bool = False
    # When it was given up, the end excluded.
    since_ms: int | None = None
    until_ms: int | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class DeliveryFilter:
    """Which deliveries to list; times speak of the event's receipt, the end excluded."""

    route: str | None = None
    state: State | None = None
    event: bytes | None = None
    # Whom the event is about, and which message.
    recipient: str | None = None
    message_id: str | None = None
    # Which rerun made them due, or made them.
    redelivery: bytes | None = None
    reprocessing: bytes | None = None
    # Only these, where they are known already.
    keys: tuple[bytes, ...] | None = None
    since_ms: int | None = None
    until_ms: int | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class SendFilter:
    """Which sends to list; times speak of the request, the end excluded."""

    state: SendState | None = None
    sender: str | None = None
    recipient: str | None = None
    stream: str | None = None
    key: str | None = None
    cause_id: str | None = None
    since_ms: int | None = None
    until_ms: int | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class MessageFilter:
    """Which messages of an inbox to list; times speak of their receipt, the end excluded."""

    # An address, or `@domain` for all of its addresses; case does not count.
    sender: str | None = None
    # Some words of it; case does not count among the letters of ASCII.
    subject: str | None = None
    since_ms: int | None = None
    until_ms: int | None = None
