"""Queries over deliveries: pages, attempts, and what is not delivered yet."""

from collections.abc import Iterable, Sequence
from typing import Any, NamedTuple

from sqlalchemy import (
    ColumnElement,
    Connection,
    Subquery,
    and_,
    false,
    func,
    select,
    tuple_,
    union_all,
)

from mailonce.core.ids import EventId
from mailonce.core.query import DeliveryFilter
from mailonce.core.work.states import AttemptKind, State, WorkKey
from mailonce.store.filters import between, equal
from mailonce.store.schema.tables import ATTEMPTS, DEAD_LETTERS, DELIVERIES, EVENTS, ROUTES
from mailonce.store.schema.work_table import DELIVERY_TABLE

ATTEMPTS_MAX = 200
IDS_MAX = 500

_D = DELIVERIES.c
is_state = DELIVERY_TABLE.is_state


class StoredDelivery(NamedTuple):
    """One event owed to one route."""

    key: WorkKey
    workspace: str
    route: str
    event: EventId
    day: int
    state: State
    lane: AttemptKind
    due_ms: int
    deadline_ms: int
    made_ms: int
    attempts: int
    redeliveries: int
    done_ms: int | None
    status: int | None
    error: str | None
    reprocessing: bytes | None
    redelivery: bytes | None
    # The number of its last attempt before it was asked for again.
    round_began: int
    # Its body was erased with its mail: it cannot be sent again.
    is_erased: bool


class StoredAttempt(NamedTuple):
    """One try, from 1."""

    attempt: int
    at_ms: int
    latency_ms: int
    status: int | None
    error: str | None
    answer: bytes | None


class FirstSuccess(NamedTuple):
    """The first attempt of a delivery that succeeded, and when it ended."""

    attempt: int
    ended_ms: int


class DeliveryPosition(NamedTuple):
    """Where a page ends: a delivery's time and key."""

    made_ms: int
    key: bytes


class Backlog(NamedTuple):
    """How many deliveries of a route are in a state, and since when the oldest is."""

    route: str
    state: State
    times: int
    oldest_ms: int


_COLUMNS = [_D[name] for name in StoredDelivery._fields if name != "is_erased"] + [
    func.coalesce(func.length(_D.body) == 0, false()).label("is_erased")
]
_ATTEMPT = [ATTEMPTS.c[name] for name in StoredAttempt._fields]


def page(
    tx: Connection,
    workspace: str,
    where: DeliveryFilter,
    *,
    below: DeliveryPosition | None,
    limit: int,
) -> list[StoredDelivery]:
    """List deliveries by the receipt of their events, newest first."""
    conditions = equal(DELIVERIES, workspace=workspace, route=where.route)
    if where.state is not None:
        conditions.append(is_state(where.state))
    conditions += between(_D.made_ms, where.since_ms, where.until_ms)
    if below is not None:
        conditions.append(tuple_(_D.made_ms, _D.key) < tuple_(below.made_ms, below.key))
        conditions.append(_D.made_ms <= below.made_ms)
    if where.event is not None:
        received = select(EVENTS.c.received_ms).where(EVENTS.c.id == where.event)
        conditions += [_D.event == where.event, _D.made_ms == received.scalar_subquery()]
    query = select(*_COLUMNS).where(*conditions).order_by(_D.made_ms.desc(), _D.key.desc())
    return _rows(tx, query.limit(limit))


def get(tx: Connection, workspace: str, key: bytes) -> StoredDelivery | None:
    rows = get_many(tx, workspace, [key])
    return rows[0] if rows else None


def get_many(tx: Connection, workspace: str, keys: Sequence[bytes]) -> list[StoredDelivery]:
    """Find several deliveries of a workspace, oldest first."""
    query = select(*_COLUMNS).where(_D.key.in_(keys), _D.workspace == workspace)
    return _rows(tx, query.order_by(_D.made_ms, _D.key))


def body_of(tx: Connection, delivery: StoredDelivery) -> bytes | None:
    """Give the bytes that are sent; None where they were forgotten with their day."""
    own: bytes | None = tx.scalar(select(_D.body).where(_D.key == delivery.key))
    if own is not None:
        return bytes(own)
    shared: bytes | None = tx.scalar(
        select(EVENTS.c.body).where(EVENTS.c.day == delivery.day, EVENTS.c.id == delivery.event)
    )
    return None if shared is None else bytes(shared)


def attempts_of(tx: Connection, key: bytes) -> list[StoredAttempt]:
    """List the newest attempts of a delivery, in their order."""
    query = select(*_ATTEMPT).where(ATTEMPTS.c.delivery == key)
    rows = tx.execute(query.order_by(ATTEMPTS.c.attempt.desc()).limit(ATTEMPTS_MAX)).all()
    return [StoredAttempt(*row) for row in reversed(rows)]


def first_successes(tx: Connection, keys: Sequence[bytes]) -> dict[bytes, FirstSuccess]:
    """Find the first attempt that succeeded of each delivery; without one it is left out."""
    of = ATTEMPTS.c
    by_key: dict[bytes, FirstSuccess] = {}
    for at in range(0, len(keys), IDS_MAX):
        is_success = (of.delivery.in_(keys[at : at + IDS_MAX]), of.error.is_(None))
        attempts = select(of.delivery, func.min(of.attempt).label("attempt")).where(*is_success)
        first = attempts.group_by(of.delivery).subquery()
        is_first = and_(first.c.delivery == of.delivery, first.c.attempt == of.attempt)
        query = select(of.delivery, of.attempt, of.at_ms + of.latency_ms).join(first, is_first)
        by_key |= {bytes(key): FirstSuccess(*rest) for key, *rest in tx.execute(query)}
    return by_key


def recipients_of(tx: Connection, rows: Sequence[StoredDelivery]) -> dict[bytes, str | None]:
    """Find whom the events of deliveries are about; those that were pruned are left out."""
    query = select(EVENTS.c.id, EVENTS.c.recipient).where(
        EVENTS.c.day.in_({row.day for row in rows}), EVENTS.c.id.in_({row.event for row in rows})
    )
    return {bytes(id_): recipient for id_, recipient in tx.execute(query)} if rows else {}


def of_events(
    tx: Connection, workspace: str, events: Iterable[tuple[int, bytes]]
) -> list[StoredDelivery]:
    """List the deliveries of events, given by their receipt and id.

    A delivery has the time of its event's receipt, which the index is on.
    """
    pairs = list(events)
    rows: list[StoredDelivery] = []
    for some in (pairs[at : at + IDS_MAX] for at in range(0, len(pairs), IDS_MAX)):
        query = select(*_COLUMNS).where(
            _D.made_ms.in_({received_ms for received_ms, _ in some}),
            _D.event.in_([id_ for _, id_ in some]),
            _D.workspace == workspace,
        )
        rows += _rows(tx, query.order_by(_D.made_ms, _D.key))
    return rows


def undelivered(
    tx: Connection,
    workspace: str,
    where: DeliveryFilter,
    *,
    after: DeliveryPosition | None,
    limit: int,
) -> list[StoredDelivery]:
    """List what is pending or dead, oldest first, of the route, state and time asked for."""
    open_ = _undelivered(tx, workspace, where)
    query = select(open_.c.key).where(*_filters(open_, where))
    if after is not None:
        query = query.where(tuple_(open_.c.made_ms, open_.c.key) > tuple_(*after))
    keys = list(tx.scalars(query.order_by(open_.c.made_ms, open_.c.key).limit(limit)))
    return get_many(tx, workspace, keys) if keys else []


def count_undelivered(tx: Connection, workspace: str, where: DeliveryFilter) -> list[Backlog]:
    """Count what is pending or dead, by route and state, of those that `where` names."""
    open_ = _undelivered(tx, workspace, where)
    query = select(open_.c.route, open_.c.state, func.count(), func.min(open_.c.made_ms))
    query = query.where(*_filters(open_, where))
    rows = tx.execute(query.group_by(open_.c.route, open_.c.state).order_by(open_.c.route))
    return [Backlog(row[0], State(row[1]), row[2], row[3]) for row in rows]


def _filters(open_: Subquery, where: DeliveryFilter) -> list[ColumnElement[bool]]:
    conditions = between(open_.c.made_ms, where.since_ms, where.until_ms)
    if where.route is not None:
        conditions.append(open_.c.route == where.route)
    if where.keys is not None:
        conditions.append(open_.c.key.in_(where.keys))
    return conditions if where.state is None else [*conditions, open_.c.state == where.state]


def _undelivered(tx: Connection, workspace: str, where: DeliveryFilter) -> Subquery:
    """Find what is pending or dead by its three partial indexes, never by a scan of all rows."""
    columns = (_D.key, _D.route, _D.state, _D.made_ms)
    ours = select(ROUTES.c.id).where(ROUTES.c.workspace == workspace)
    is_open = and_(
        DEAD_LETTERS.c.workspace == workspace,
        DEAD_LETTERS.c.resolved_ms.is_(None),
        DEAD_LETTERS.c.delivery.is_not(None),
    )
    dead = select(DEAD_LETTERS.c.delivery).where(is_open)
    # Within each part: without it, the indexes alone have all that is counted.
    of_rerun = equal(DELIVERIES, redelivery=where.redelivery, reprocessing=where.reprocessing)
    parts = [
        select(*columns).where(is_state(State.DUE), _D.route.in_(ours), *of_rerun),
        select(*columns).where(is_state(State.LEASED), _D.workspace == workspace, *of_rerun),
        select(*columns).where(_D.key.in_(dead), _D.state == State.DEAD, *of_rerun),
    ]
    if removed := removed_routes_owed(tx):
        # Until they are given up, within seconds, they belong to no route of anybody.
        is_left = (is_state(State.DUE), _D.route.in_(removed), _D.workspace == workspace)
        parts.append(select(*columns).where(*is_left, *of_rerun))
    return union_all(*parts).subquery()


def routes_owed(tx: Connection) -> list[str]:
    """List the routes that something is due to, by a look at the index for each."""
    due = is_state(State.DUE)
    first = select(func.min(_D.route).label("route")).where(due).cte("owed", recursive=True)
    following = select(func.min(_D.route)).where(due, _D.route > first.c.route).scalar_subquery()
    every = first.union_all(select(following).where(first.c.route.is_not(None)))
    return [route for route in tx.scalars(select(every.c.route)) if route is not None]


def removed_routes_owed(tx: Connection) -> list[str]:
    """List the routes, of any workspace, that were removed while something was due to them."""
    there = set(tx.scalars(select(ROUTES.c.id)))
    return [route for route in routes_owed(tx) if route not in there]


def _rows(tx: Connection, query: Any) -> list[StoredDelivery]:
    return [
        StoredDelivery(*row)._replace(
            state=State(row.state), lane=AttemptKind(row.lane), is_erased=bool(row.is_erased)
        )
        for row in tx.execute(query)
    ]
