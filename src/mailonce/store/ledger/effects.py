"""Effects of all workspaces, in the order of their keys, to compare two databases."""

from typing import NamedTuple

from sqlalchemy import Connection, func, literal, select, tuple_, union_all

from mailonce.core.events.facts import Fact, Kind, Stamp
from mailonce.core.events.suppression import Cause
from mailonce.core.ledger.comparison import FactPlace, SuppressionPlace
from mailonce.core.ledger.entry import CountRow
from mailonce.store.days import ids_from
from mailonce.store.dialects.contract import DAY_MS
from mailonce.store.schema.tables import ARRIVALS, CONFLICTS, COUNTS, EVENTS, FACTS, SUPPRESSIONS

# Among the newest arrivals by id stands the one that was received last.
NEWEST_ROWS = 1_000

_FACT_KEY = tuple(FACTS.c[name] for name in FactPlace._fields)
_SUPPRESSION_KEY = tuple(
    SUPPRESSIONS.c[name] for name in ("workspace", "address", "stream", "cause", "event")
)


class StoredFact(NamedTuple):
    """A fact and when it last changed."""

    place: FactPlace
    fact: Fact
    changed_ms: int


class StoredStatement(NamedTuple):
    """An event's statement about an address; `logged` where the log still has that event."""

    register: SuppressionPlace
    event: bytes
    lifts: bool
    stamp: Stamp | None
    said_ms: int
    logged: bool


class Extent(NamedTuple):
    """What the log spans: its first day, whether older ones were pruned, its last receipt."""

    first_day: int
    pruned: bool
    last_ms: int


def extent(tx: Connection) -> Extent | None:
    """Say what the log spans, or None where it is empty."""
    first_day = tx.scalar(select(ARRIVALS.c.day).order_by(ARRIVALS.c.id).limit(1))
    if first_day is None:
        return None
    newest = select(ARRIVALS.c.received_ms).order_by(ARRIVALS.c.id.desc()).limit(NEWEST_ROWS)
    last_ms = tx.scalar(select(func.max(newest.subquery().c.received_ms)))
    # Counts outlive the days that they count.
    counted_day = tx.scalar(select(func.min(COUNTS.c.day)))
    pruned = counted_day is not None and counted_day < first_day
    return Extent(first_day, pruned, last_ms or 0)


def facts_page(tx: Connection, *, after: FactPlace | None, limit: int) -> list[StoredFact]:
    query = select(*_FACT_KEY, FACTS.c.count, FACTS.c.first, FACTS.c.last, FACTS.c.changed_ms)
    if after is not None:
        query = query.where(tuple_(*_FACT_KEY) > tuple_(*after))
    rows = tx.execute(query.order_by(*_FACT_KEY).limit(limit))
    return [StoredFact(FactPlace(*row[:4], Kind(row[4])), Fact(*row[5:8]), row[8]) for row in rows]


def suppressions_page(
    tx: Connection, *, after: tuple[SuppressionPlace, bytes] | None, limit: int
) -> list[StoredStatement]:
    """Read the statements of events about addresses; those of people are left out."""
    logged = select(EVENTS.c.id).where(EVENTS.c.id == SUPPRESSIONS.c.event).exists()
    columns = (SUPPRESSIONS.c.lifts, SUPPRESSIONS.c.stamp, SUPPRESSIONS.c.said_ms, logged)
    query = select(*_SUPPRESSION_KEY, *columns).where(
        SUPPRESSIONS.c.cause != Cause.MANUAL.value,
        # A row that lifts and is lifted is a person's lift.
        ~(SUPPRESSIONS.c.lifts & SUPPRESSIONS.c.lifted),
    )
    if after is not None:
        query = query.where(tuple_(*_SUPPRESSION_KEY) > tuple_(*after[0], after[1]))
    rows = tx.execute(query.order_by(*_SUPPRESSION_KEY).limit(limit))
    return [StoredStatement(SuppressionPlace(*row[:4]), *row[4:8], bool(row[8])) for row in rows]


def counts(tx: Connection, *, since_day: int, until_ms: int) -> list[CountRow]:
    """Sum the counts of days from `since_day` on, without what was received after `until_ms`.

    One statement, so that counts and log are those of one moment.
    """
    totals = select(COUNTS.c.workspace, COUNTS.c.source, COUNTS.c.type, COUNTS.c.count).where(
        COUNTS.c.day >= since_day
    )
    later = select(EVENTS.c.workspace, EVENTS.c.source, EVENTS.c.type, literal(-1)).where(
        EVENTS.c.received_ms > until_ms,
        EVENTS.c.conflict_with.is_(None),
        EVENTS.c.day >= until_ms // DAY_MS,
        EVENTS.c.id >= ids_from(until_ms // DAY_MS),
    )
    both = union_all(totals, later).subquery()
    place = (both.c.workspace, both.c.source, both.c.type)
    query = select(*place, func.sum(both.c.count)).group_by(*place)
    return [CountRow(*row[:3], int(row[3])) for row in tx.execute(query)]


def conflicts(tx: Connection) -> list[tuple[bytes, bytes, int]]:
    """List event id, arrival and position of all other content under a known key."""
    query = select(CONFLICTS.c.id, CONFLICTS.c.arrival, CONFLICTS.c.position)
    return [(row[0], row[1], row[2]) for row in tx.execute(query)]
