"""Entries of the ledger, the rows they become, and the answers."""

from collections.abc import Hashable, Iterable
from dataclasses import dataclass
from enum import StrEnum
from typing import Any, NamedTuple, Protocol, TypeVar

from msgspec import Struct

from mailonce.core.events.event import Event
from mailonce.core.events.facts import Kind, Stamp
from mailonce.core.events.key import EventKeys, Fingerprint, Key
from mailonce.core.events.suppression import SUPPRESS, Suppress
from mailonce.core.ids import ArrivalId, EventId
from mailonce.core.ledger.claim import Verdict
from mailonce.core.work.states import WorkKey


class Status(StrEnum):
    """The status in the answer to an arrival."""

    ACCEPTED = "accepted"
    DUPLICATE = "duplicate"
    CONFLICT = "conflict"
    DEAD_LETTER = "dead_letter"
    IGNORED = "ignored"


class EventOrigin(NamedTuple):
    """Whose word an event is: facts are joined, and events counted, by it."""

    source: str
    account: str


class Candidate(Struct, frozen=True, gc=False):
    """An event with an id minted before the first try, so that a second try finds its own row."""

    id: EventId
    event: Event
    keys: EventKeys
    # The fields that no query uses, as JSON.
    detail: bytes
    # The key of the send whose id it carries.
    send: Key | None = None
    # Where it comes from, if that is not the source of its arrival.
    origin: EventOrigin | None = None


@dataclass(frozen=True, slots=True)
class Dead:
    """What was verified but could not be read: the whole body, or one element of it.

    Its key is made of what is equal in all copies of it; `attempts` counts this one.
    """

    id: bytes
    position: int
    reason: str
    raw: bytes
    key: Key
    attempts: int = 1


R = TypeVar("R", bound=Struct)


class Item(Protocol):
    """One thing of a further noun: what it claims, and what it writes because of the verdict."""

    @property
    def id(self) -> bytes:
        """Minted before the first try, so that a second try finds its own row."""

    @property
    def key(self) -> Key:
        """By which its copies are known; a hash in which the noun's own name has a part."""

    @property
    def fingerprint(self) -> Fingerprint:
        """The content that the key is bound to."""

    def shared_rows(self, entry: "Entry") -> Iterable[Hashable]:
        """Name rows, beside its key, that it may write and that somebody else may hold meanwhile.

        Where one is held, only those who name it wait.
        """

    def rows(self, entry: "Entry", verdict: Verdict) -> Iterable[Struct]:
        """Make what the commit writes; not called for a first that an earlier try has written.

        What copies and conflicts write may be written again: it needs a minted key, and no fold.
        """


class Entry(Struct, frozen=True, kw_only=True, gc=False):
    """A verified, parsed arrival on its way into the ledger."""

    id: ArrivalId
    workspace: str
    source: str
    # Provider and account together: the scope of messages, as it is of keys.
    account: str
    arrival_key: str
    body: bytes
    headers: bytes
    signs_body: bool
    # Other content under a known key is a revision, as its provider's record says.
    revises: bool = False
    events: tuple[Candidate, ...]
    # Where its events stand among all that the arrival tells; None where they are all of them.
    positions: tuple[int, ...] | None = None
    dead: tuple[Dead, ...] = ()
    items: tuple[Item, ...] = ()
    # Its items keep its bytes, so that its own row need not.
    items_keep_body: bool = False
    # False where it goes on with an arrival that was recorded before, as reading a mail does.
    is_arrival: bool = True
    # All of its items are written, or, where one of them is a conflict, none.
    is_whole: bool = False
    guard: tuple[Key, Fingerprint] | None = None
    # Which events suppress in its workspace.
    suppress: Suppress = SUPPRESS

    def row(self, status: Status, *, new: int, keeps_body: bool) -> "ArrivalRow":
        return ArrivalRow(
            self.id,
            self.workspace,
            self.source,
            self.arrival_key,
            str(status),
            len(self.events),
            new,
            self.headers,
            len(self.body),
            self.body if keeps_body else None,
        )

    def dead_row(self, dead: Dead) -> "DeadRow":
        return DeadRow(
            dead.id,
            self.workspace,
            self.source,
            self.id,
            self.arrival_key,
            dead.position,
            dead.reason,
            dead.attempts,
            self.headers,
            dead.raw,
        )


class ArrivalRow(Struct, frozen=True, gc=False):
    id: ArrivalId
    workspace: str
    source: str
    arrival_key: str
    status: str
    events: int
    new: int
    headers: bytes
    body_bytes: int
    # None where nothing in it was new: a copy costs a few dozen bytes.
    body: bytes | None


class EventFields(Struct, frozen=True, gc=False):
    """What the log has of an event, apart from its body."""

    id: EventId
    key: Key
    workspace: str
    source: str
    account: str
    type: str
    bounce: str | None
    message_id: str
    recipient: str
    occurred_ms: int | None
    arrival: ArrivalId
    position: int
    detail: bytes
    # The event whose key this one came under with other content.
    conflict_with: bytes | None


class EventRow(EventFields, frozen=True, gc=False):
    # The frozen bytes that plain routes send; None where it is owed to none.
    body: bytes | None


class CopyRow(Struct, frozen=True, gc=False):
    arrival: ArrivalId
    position: int
    event: bytes
    recognised_by: str


class FactRow(Struct, frozen=True, gc=False):
    workspace: str
    message_id: str
    recipient: str
    account: str
    kind: Kind
    times: int
    first: Stamp | None
    last: Stamp | None


class StatementRow(Struct, frozen=True, gc=False):
    workspace: str
    address: str
    stream: str
    cause: str
    event: bytes
    lifts: bool
    stamp: Stamp | None
    reason: str | None


class CountRow(Struct, frozen=True, gc=False):
    workspace: str
    source: str
    type: str
    times: int


class ConflictRow(Struct, frozen=True, gc=False):
    id: bytes
    workspace: str
    source: str
    key: Key
    # The event that holds the key, and the arrival and position of the other content.
    event: bytes
    arrival: ArrivalId
    position: int
    reason: str


class OwedRow(Struct, frozen=True, gc=False):
    key: WorkKey
    workspace: str
    route: str
    event: EventId
    # None where it sends the event's own frozen body.
    body: bytes | None
    deadline_s: int


class DeadRow(Struct, frozen=True, gc=False):
    id: bytes
    workspace: str
    source: str
    arrival: ArrivalId
    arrival_key: str
    position: int
    reason: str
    attempts: int
    headers: bytes
    raw: bytes


class TriedRow(Struct, frozen=True, gc=False):
    """One more arrival brought what a dead letter holds."""

    letter: bytes
    arrival: ArrivalId


class Rows:
    """All that one group commit writes, by class: one for each table.

    `store/` declares, for each class, how its rows are written.
    """

    __slots__ = ("by_class",)

    def __init__(self) -> None:
        self.by_class: dict[type[Struct], list[Any]] = {}

    def of(self, class_: type[R]) -> list[R]:
        """Give the rows of a class, to be read or added to."""
        return self.by_class.setdefault(class_, [])

    def add(self, rows: Iterable[Struct]) -> None:
        for row in rows:
            self.of(type(row)).append(row)


class ArrivalOutcome(Struct, frozen=True, gc=False):
    """The outcome of an arrival, once it is durable."""

    status: Status
    events: int
    new: int
    # Copies that came under an event id of their own and were known by their content alone.
    by_content: int = 0
    # How many dead letters it made.
    dead: int = 0
    # The outcomes of the items of further nouns, in their order.
    verdicts: tuple[Verdict, ...] = ()


@dataclass(frozen=True, slots=True)
class GuardBroken:
    """The arrival's guard had come before, with another body: it is not what was signed."""


# What becomes of an entry.
EntryOutcome = ArrivalOutcome | GuardBroken
