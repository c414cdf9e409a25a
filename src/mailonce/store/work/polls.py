"""Deliveries of polled routes: numbered under the lane's row lock, read after a cursor.

A number is given after the row is committed, by whoever holds the lane's row. So numbers become
visible in their order, and a cursor never passes a row that a slow transaction commits later.
Rows that wait for a number are in the lanes FIRST and REDELIVERY; numbered ones are in RETRY.
"""

from collections.abc import Collection
from typing import Any, NamedTuple

from sqlalchemy import ColumnElement, Connection, and_, exists, func, literal_column, select, update

from mailonce.core.work.lifecycle import MOVES, Act
from mailonce.core.work.states import AttemptKind, State, WorkKey
from mailonce.store.schema.tables import DELIVERIES, EVENTS, LANES
from mailonce.store.work.rows import changes

_D = DELIVERIES.c


def _is(column: ColumnElement[Any], number: int) -> ColumnElement[bool]:
    """Compare with a literal number: a partial index is not used for a parameter."""
    return column == literal_column(str(int(number)))


_DUE = _is(_D.state, State.DUE)
_NEW = (AttemptKind.FIRST, AttemptKind.REDELIVERY)


class Mark(NamedTuple):
    """How far a polled route is: numbers given, numbers acknowledged, and whether some wait."""

    route: str
    seq: int
    acknowledged: int
    has_new: bool


class NumberedEvent(NamedTuple):
    """One event in a polled route's order."""

    seq: int
    key: WorkKey
    made_ms: int
    redeliveries: int
    body: bytes


class Read(NamedTuple):
    """The events after a cursor, and the last number that was read."""

    rows: list[NumberedEvent]
    cursor: int


def marks(tx: Connection, routes: Collection[str]) -> dict[str, Mark]:
    """Say for each of these routes how far it is, in one statement."""
    is_new = [exists().where(_D.route == LANES.c.route, _DUE, _is(_D.lane, lane)) for lane in _NEW]
    query = select(
        LANES.c.route, LANES.c.seq, LANES.c.acknowledged, (is_new[0] | is_new[1]).label("has_new")
    ).where(LANES.c.route.in_(routes))
    return {row.route: Mark(*row) for row in tx.execute(query)}


def number(tx: Connection, route: str, *, most: int) -> int:
    """Number what is new to a route, at most `most`; say how many there were."""
    # Changing nothing takes the row's lock on both databases: one numbers at a time, and only
    # what its predecessor has committed is visible to it.
    held = tx.execute(
        update(LANES).where(LANES.c.route == route).values(seq=LANES.c.seq).returning(LANES.c.seq)
    ).scalar_one_or_none()
    if held is None:
        return 0
    last = held
    for lane in _NEW:
        last = _number_lane(tx, route, lane, behind=last, most=most - (last - held))
    if last > held:
        tx.execute(update(LANES).where(LANES.c.route == route).values(seq=last))
    return int(last - held)


def read_behind(tx: Connection, route: str, *, after: int, limit: int, bytes_max: int) -> Read:
    """Read what has a higher number than `after`, in order, within a bound of rows and bytes.

    A row whose body was forgotten, or erased with its mail, is passed over; the cursor moves on.
    """
    # Read first: all numbers up to this one are visible to the next query.
    top = tx.execute(select(LANES.c.seq).where(LANES.c.route == route)).scalar_one_or_none() or 0
    body = func.coalesce(_D.body, EVENTS.c.body)
    joined = DELIVERIES.outerjoin(EVENTS, and_(EVENTS.c.day == _D.day, EVENTS.c.id == _D.event))
    behind = (_D.route == route, _D.seq > after, _D.state.in_((State.DUE, State.DONE)))
    sizes = (
        select(_D.seq, func.length(body)).select_from(joined)
        .where(*behind).order_by(_D.seq).limit(limit)
    )  # fmt: skip
    cursor, size = after, 0
    rows = tx.execute(sizes).all()
    for seq, body_bytes in rows:
        size += body_bytes or 0
        if cursor > after and size > bytes_max:
            break
        cursor = seq
    else:
        if len(rows) < limit:
            cursor = max(cursor, top)
    query = (
        select(_D.seq, _D.key, _D.made_ms, _D.redeliveries, body).select_from(joined)
        .where(*behind, _D.seq <= cursor, func.length(body) > 0).order_by(_D.seq)
    )  # fmt: skip
    return Read([NumberedEvent(*row) for row in tx.execute(query)], cursor)


def acknowledge(tx: Connection, route: str, *, cursor: int, most: int, now_ms: int) -> Mark | None:
    """Mark the next `most` numbers up to `cursor` as done; say how far the route is then.

    Nothing is taken where `cursor` was never given.
    """
    held = tx.execute(
        update(LANES)
        .where(LANES.c.route == route)
        .values(seq=LANES.c.seq)
        .returning(LANES.c.seq, LANES.c.acknowledged)
    ).one_or_none()
    if held is None:
        return None
    upto = min(cursor, held.acknowledged + most)
    if held.seq < cursor or upto <= held.acknowledged:
        return Mark(route, held.seq, held.acknowledged, has_new=False)
    # A row in another lane was redelivered since it was read: it is still pending.
    tx.execute(
        update(DELIVERIES)
        .where(
            _D.route == route,
            _D.seq > held.acknowledged,
            _D.seq <= upto,
            _DUE,
            _is(_D.lane, AttemptKind.RETRY),
        )
        .values(**changes(MOVES[State.DUE, Act.ACKNOWLEDGE], now_ms=now_ms))
    )
    tx.execute(update(LANES).where(LANES.c.route == route).values(acknowledged=upto))
    return Mark(route, held.seq, upto, has_new=False)


def _number_lane(tx: Connection, route: str, lane: AttemptKind, *, behind: int, most: int) -> int:
    waits = (_D.route == route, _DUE, _is(_D.lane, lane))
    first = (
        select(_D.key, _D.due_ms).where(*waits).order_by(_D.due_ms, _D.key).limit(most).subquery()
    )
    order = func.row_number().over(order_by=(first.c.due_ms, first.c.key))
    numbers = select(first.c.key, order.label("number")).subquery()
    given = tx.execute(
        update(DELIVERIES)
        .where(_D.key == numbers.c.key, *waits)
        .values(seq=numbers.c.number + behind, lane=AttemptKind.RETRY)
        .returning(_D.seq)
    )
    return max((seq for (seq,) in given), default=behind)
