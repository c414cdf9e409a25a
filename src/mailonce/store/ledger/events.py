"""Events: the log, newest first."""

from collections.abc import Iterable, Iterator, Sequence
from typing import Any, NamedTuple, TypeVar

from sqlalchemy import ColumnElement, Connection, Select, and_, select, tuple_

from mailonce.core.ledger.entry import EventFields
from mailonce.core.query import EventFilter
from mailonce.store.days import SKEW_DAYS, days_of, ids_below, ids_from
from mailonce.store.dialects.contract import DAY_MS
from mailonce.store.filters import equal
from mailonce.store.schema.tables import ARRIVALS, EVENTS

T = TypeVar("T")

IDS_MAX = 500


class LoggedEvent(EventFields, frozen=True, gc=False):
    """One row of the log, and when it was received; its body is read where it is needed."""

    day: int
    received_ms: int


class LogPosition(NamedTuple):
    """Where a page of the log ends: the next one goes on below it."""

    day: int
    id: bytes


_Query = Select[*tuple[Any, ...]]

_COLUMNS = [EVENTS.c[name] for name in LoggedEvent.__struct_fields__]


def page(
    tx: Connection, workspace: str, where: EventFilter, *, below: LogPosition | None, limit: int
) -> list[LoggedEvent]:
    """List events by day and id, newest first.

    Where an index answers (a message, a recipient) all days are searched at once. Otherwise one
    day after the other, so that a page of today's events opens today's partition and no other:
    the index of a partition begins with the id, which sorts within one day.
    """
    conditions = [EVENTS.c.workspace == workspace, *_conditions(where)]
    if where.message_id is not None or where.recipient is not None:
        if below is not None:
            conditions.append(tuple_(EVENTS.c.day, EVENTS.c.id) < tuple_(below.day, below.id))
            conditions.append(EVENTS.c.day <= below.day)
        query = _select(conditions).order_by(EVENTS.c.day.desc(), EVENTS.c.id.desc())
        return _rows(tx, query.limit(limit))
    rows: list[LoggedEvent] = []
    for day in _days(tx, where, below):
        bound = below.id if below is not None and below.day == day else ids_below(day)
        within = [EVENTS.c.day == day, EVENTS.c.id < bound, EVENTS.c.id >= ids_from(day)]
        query = _select([*conditions, *within]).order_by(EVENTS.c.id.desc())
        rows += _rows(tx, query.limit(limit - len(rows)))
        if len(rows) == limit:
            break
    return rows


def get(tx: Connection, workspace: str, event: bytes) -> LoggedEvent | None:
    return get_many(tx, workspace, [event]).get(event)


def get_many(tx: Connection, workspace: str, events: Sequence[bytes]) -> dict[bytes, LoggedEvent]:
    rows: dict[bytes, LoggedEvent] = {}
    for some in _chunks(events):
        first, last = days_of(min(some))[0], days_of(max(some))[1]
        query = _select(
            [
                EVENTS.c.id.in_(some),
                EVENTS.c.day.between(first, last),
                EVENTS.c.workspace == workspace,
            ]
        )
        rows |= {row.id: row for row in _rows(tx, query)}
    return rows


def without_arrival(tx: Connection, *, after: LogPosition | None, limit: int) -> list[LoggedEvent]:
    """List events that no arrival of the log brought, by day and id: reading a mail made them."""
    brought = and_(ARRIVALS.c.day == EVENTS.c.day, ARRIVALS.c.id == EVENTS.c.arrival)
    conditions = [~select(ARRIVALS.c.id).where(brought).exists()]
    if after is not None:
        conditions.append(tuple_(EVENTS.c.day, EVENTS.c.id) > tuple_(after.day, after.id))
    return _rows(tx, _select(conditions).order_by(EVENTS.c.day, EVENTS.c.id).limit(limit))


def of_arrival(tx: Connection, workspace: str, arrival: bytes) -> list[LoggedEvent]:
    """List the events of which an arrival was the first copy, in its own order.

    They were minted and recorded with it, so both their ids and their days lie near its own.
    """
    first, last = days_of(arrival)
    query = _select(
        [
            EVENTS.c.day.between(first, last),
            EVENTS.c.id.between(ids_from(first), ids_below(last)),
            EVENTS.c.arrival == arrival,
            EVENTS.c.workspace == workspace,
        ]
    )
    return _rows(tx, query.order_by(EVENTS.c.position))


def of_message(
    tx: Connection,
    workspace: str,
    message_id: str,
    *,
    account: str | None,
    recipient: str | None,
    limit: int,
) -> list[LoggedEvent]:
    """List the newest events of a message."""
    wanted = {"message_id": message_id, "account": account, "recipient": recipient}
    query = _select(equal(EVENTS, workspace=workspace, **wanted))
    query = query.order_by(EVENTS.c.day.desc(), EVENTS.c.id.desc())
    return _rows(tx, query.limit(limit))


def _conditions(where: EventFilter) -> Iterator[ColumnElement[bool]]:
    names = ("source", "type", "recipient", "message_id")
    yield from equal(EVENTS, **{name: getattr(where, name) for name in names})
    if where.since_ms is not None:
        yield and_(EVENTS.c.received_ms >= where.since_ms, EVENTS.c.day >= where.since_ms // DAY_MS)
    if where.until_ms is not None:
        yield and_(EVENTS.c.received_ms < where.until_ms, EVENTS.c.day <= where.until_ms // DAY_MS)


def _days(tx: Connection, where: EventFilter, below: LogPosition | None) -> Iterable[int]:
    """Count down the days that may hold a match, from the newest to the oldest of the log."""
    ends = (EVENTS.c.id.asc(), EVENTS.c.id.desc())
    first, last = (tx.scalar(select(EVENTS.c.day).order_by(end).limit(1)) for end in ends)
    if first is None or last is None:
        return ()
    oldest, newest = first - SKEW_DAYS, last + SKEW_DAYS
    if where.since_ms is not None:
        oldest = max(oldest, where.since_ms // DAY_MS)
    if where.until_ms is not None:
        newest = min(newest, where.until_ms // DAY_MS)
    if below is not None:
        newest = min(newest, below.day)
    return range(newest, oldest - 1, -1)


def _select(wanted: Iterable[ColumnElement[bool]]) -> _Query:
    return select(*_COLUMNS).where(*wanted)


def _rows(tx: Connection, query: _Query) -> list[LoggedEvent]:
    return [LoggedEvent(*row) for row in tx.execute(query)]


def _chunks(items: Sequence[T]) -> Iterator[Sequence[T]]:
    return (items[start : start + IDS_MAX] for start in range(0, len(items), IDS_MAX))
