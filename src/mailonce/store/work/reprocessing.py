"""Deliver events as today's code reads them: slices of the log, and the rows they make."""

from collections.abc import Iterable, Iterator
from typing import NamedTuple

from sqlalchemy import ColumnElement, Connection, func, select

from mailonce.core.deliveries.rerun import RerunFilter
from mailonce.core.work.states import AttemptKind, State, WorkKey
from mailonce.store.dialects.contract import DAY_MS
from mailonce.store.dialects.upsert import insert_missing
from mailonce.store.ledger import events
from mailonce.store.ledger.events import LoggedEvent
from mailonce.store.schema.tables import DELIVERIES, EVENTS

_E = EVENTS.c
_D = DELIVERIES.c
_COLUMNS = [_E[name] for name in LoggedEvent.__struct_fields__]


class LogSlice(NamedTuple):
    """Some events in the order of the log, and where the next slice begins."""

    events: list[LoggedEvent]
    day: int
    id: bytes


class NewDelivery(NamedTuple):
    """A delivery to insert: an event read anew, for a route."""

    key: WorkKey
    route: str
    event: LoggedEvent
    body: bytes
    deadline_ms: int


def first_day(tx: Connection, where: RerunFilter, *, today: int) -> int:
    oldest: int = tx.scalar(select(func.min(_E.day))) or today
    return oldest if where.since_ms is None else max(oldest, where.since_ms // DAY_MS)


def count_on(tx: Connection, workspace: str, where: RerunFilter, day: int) -> int:
    conditions = _wanted(workspace, where)
    return tx.scalar(select(func.count()).where(_E.day == day, *conditions)) or 0


def next_slice(
    tx: Connection, workspace: str, where: RerunFilter, *, day: int, after: bytes, rows: int
) -> LogSlice:
    """Look at the next `rows` events of a day, and give those that match."""
    behind = (_E.day == day, _E.id > after)
    last = tx.scalar(select(_E.id).where(*behind).order_by(_E.id).offset(rows - 1).limit(1))
    within = behind if last is None else (*behind, _E.id <= last)
    query = select(*_COLUMNS).where(*within, *_wanted(workspace, where)).order_by(_E.id)
    rows_ = [LoggedEvent(*row) for row in tx.execute(query)]
    return LogSlice(rows_, day + 1, b"") if last is None else LogSlice(rows_, day, bytes(last))


def get_named(
    tx: Connection, workspace: str, where: RerunFilter
) -> tuple[dict[bytes, LoggedEvent], int]:
    """Give the events of a filter that names them, and how many of the names are there."""
    known = events.get_many(tx, workspace, where.ids)
    if not where.missing or not known:
        return known, len(known)
    times = {event.received_ms for event in known.values()}
    query = select(_D.event).where(
        _D.made_ms.in_(times), _D.event.in_(known), _D.route == where.route
    )
    had = {bytes(one) for one in tx.scalars(query)}
    return {id_: event for id_, event in known.items() if id_ not in had}, len(known)


def owe(tx: Connection, rows: Iterable[NewDelivery], *, reprocessing: bytes, now_ms: int) -> None:
    """Insert deliveries beside the existing ones, which keep their keys and bodies.

    One whose key stands already is left out: two who ask for what is missing make one.
    """
    insert_missing(
        tx,
        DELIVERIES,
        [
            {
                "key": row.key,
                "workspace": row.event.workspace,
                "route": row.route,
                "event": row.event.id,
                "day": row.event.day,
                "body": row.body,
                "state": State.DUE,
                "lane": AttemptKind.REDELIVERY,
                "due_ms": now_ms,
                "deadline_ms": row.deadline_ms,
                # Lists and timelines go by the event's receipt.
                "made_ms": row.event.received_ms,
                "attempts": 0,
                "round_began": 0,
                "redeliveries": 0,
                "again": False,
                "token": 0,
                "reprocessing": reprocessing,
            }
            for row in rows
        ],
    )


def _wanted(workspace: str, where: RerunFilter) -> Iterator[ColumnElement[bool]]:
    yield _E.workspace == workspace
    if where.type is not None:
        yield _E.type == str(where.type)
    if where.since_ms is not None:
        yield _E.received_ms >= where.since_ms
    if where.until_ms is not None:
        yield _E.received_ms < where.until_ms
    if where.missing:
        # All deliveries of an event have the time of its receipt, by which they are found.
        of_route = (_D.made_ms == _E.received_ms, _D.event == _E.id, _D.route == where.route)
        yield ~select(_D.key).where(*of_route).exists()
