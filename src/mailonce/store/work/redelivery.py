"""Make a delivery due again: the same row, the same bytes, the same key."""

from collections.abc import Mapping, Sequence
from typing import Any, NamedTuple

from sqlalchemy import (
    ColumnElement,
    Connection,
    and_,
    case,
    exists,
    false,
    func,
    or_,
    select,
    tuple_,
    update,
)

from mailonce.core.deliveries.rerun import RerunFilter
from mailonce.core.work.lifecycle import ENDS, MOVES, NEXT_ROUND, Act, Move
from mailonce.core.work.states import State
from mailonce.store.schema.tables import DEAD_LETTERS, DELIVERIES, EVENTS
from mailonce.store.work.pages import DeliveryPosition
from mailonce.store.work.rows import changes

BEGINNING = DeliveryPosition(0, b"")

_D = DELIVERIES.c


class RedeliveryRequest(NamedTuple):
    """The parameters of a redelivery; routes without a deadline here were deleted.

    The bodies of events received before `oldest_day` may be forgotten at any moment. A body that
    is empty was erased with its mail. `by` is the redelivery that asks; None: a letter's retry.
    """

    now_ms: int
    oldest_day: int
    deadlines_s: Mapping[str, int]
    by: bytes | None = None


def boundary(
    tx: Connection, *, after: DeliveryPosition, until_ms: int, rows: int
) -> DeliveryPosition | None:
    """Find where a slice of `rows` rows ends; None where fewer are left."""
    query = (
        select(_D.made_ms, _D.key)
        .where(
            tuple_(_D.made_ms, _D.key) > tuple_(*after),
            _D.made_ms >= after.made_ms,
            _D.made_ms < until_ms,
        )
        .order_by(_D.made_ms, _D.key)
        .offset(rows - 1)
        .limit(1)
    )
    row = tx.execute(query).first()
    return None if row is None else DeliveryPosition(row[0], bytes(row[1]))


def in_slice(
    after: DeliveryPosition, last: DeliveryPosition | None, until_ms: int
) -> ColumnElement[bool]:
    """Bound a slice: after `after`, up to and with `last` or to the end."""
    upper = (
        _D.made_ms < until_ms
        if last is None
        else and_(tuple_(_D.made_ms, _D.key) <= tuple_(*last), _D.made_ms <= last.made_ms)
    )
    return and_(tuple_(_D.made_ms, _D.key) > tuple_(*after), _D.made_ms >= after.made_ms, upper)


def by_keys(keys: Sequence[bytes]) -> ColumnElement[bool]:
    return _D.key.in_(keys)


def erased(tx: Connection, workspace: str, keys: Sequence[bytes]) -> set[bytes]:
    """Find which of these deliveries had their bodies erased with their mail."""
    gone = select(_D.key).where(by_keys(keys), _D.workspace == workspace, func.length(_D.body) == 0)
    return {bytes(key) for key in tx.scalars(gone)}


class RedeliveryCount(NamedTuple):
    """How many can be sent again, and how many cannot because their mail was deleted."""

    total: int
    erased: int = 0


def count(
    tx: Connection,
    workspace: str,
    where: RerunFilter,
    bounds: ColumnElement[bool],
    again: RedeliveryRequest,
) -> RedeliveryCount:
    """Count what `redeliver` would make due again, and what it would were it not erased."""
    counts = select(
        func.count().filter(_has_body(again)), func.count().filter(func.length(_D.body) == 0)
    )
    matches = _matches(workspace, where, bounds, again)
    states = _D.state.in_(_states(where))
    row = tx.execute(counts.select_from(DELIVERIES).where(matches, states)).one()
    return RedeliveryCount(row[0], row[1])


def redeliver(
    tx: Connection,
    workspace: str,
    where: RerunFilter,
    bounds: ColumnElement[bool],
    again: RedeliveryRequest,
) -> int:
    """Make what was finished due again, and what is on lease as soon as that ends; say how many.

    A dead delivery's letter is resolved in the same transaction. What is due already is only
    brought forward. Whatever it was doing, its deadline is counted from now, and it belongs to this
    redelivery until the next one.
    """
    if not again.deadlines_s:
        return 0
    condition = _wanted(workspace, where, bounds, again)
    states = set(_states(where))
    changed = 0
    if State.DEAD in states:
        _resolve_letters(tx, workspace, and_(condition, _D.state == State.DEAD), again.now_ms)
    deadline_ms = case(
        {route: again.now_ms + seconds * 1000 for route, seconds in again.deadlines_s.items()},
        value=_D.route,
        else_=_D.deadline_ms,
    )
    # What is due goes first: what the last of them makes due was counted already.
    counted = {"redeliveries": _D.redeliveries + 1}
    ways: tuple[tuple[set[State], Move, dict[str, Any]], ...] = (
        (states & {State.DUE}, MOVES[State.DUE, Act.REDELIVER], {}),
        (states & {State.LEASED}, MOVES[State.LEASED, Act.REDELIVER], counted),
        # A polled route numbers it anew.
        (states & set(ENDS), NEXT_ROUND, counted | {"seq": None}),
    )
    for of, move, more in ways:
        if of:
            values = changes(move, now_ms=again.now_ms) | more
            values |= {"deadline_ms": deadline_ms, "redelivery": again.by}
            statement = update(DELIVERIES).where(condition, _D.state.in_(of)).values(**values)
            changed += tx.execute(statement).rowcount
    return changed


def _states(where: RerunFilter) -> Sequence[State]:
    # A delivery that is named by its id is meant in any state.
    return tuple(State) if where.ids else where.states


def _wanted(
    workspace: str, where: RerunFilter, bounds: ColumnElement[bool], again: RedeliveryRequest
) -> ColumnElement[bool]:
    return and_(_matches(workspace, where, bounds, again), _has_body(again))


def _has_body(again: RedeliveryRequest) -> ColumnElement[bool]:
    return or_(func.length(_D.body) > 0, and_(_D.body.is_(None), _D.day >= again.oldest_day))


def _matches(
    workspace: str, where: RerunFilter, bounds: ColumnElement[bool], again: RedeliveryRequest
) -> ColumnElement[bool]:
    routes = [route for route in again.deadlines_s if where.route in {None, route}]
    conditions = [
        bounds,
        _D.workspace == workspace,
        _D.route.in_(routes) if routes else false(),
    ]
    if where.type is not None:
        of_type = select(EVENTS.c.id).where(
            EVENTS.c.day == _D.day, EVENTS.c.id == _D.event, EVENTS.c.type == str(where.type)
        )
        conditions.append(exists(of_type))
    return and_(*conditions)


def _resolve_letters(
    tx: Connection, workspace: str, dead: ColumnElement[bool], now_ms: int
) -> None:
    letters = DEAD_LETTERS.c
    tx.execute(
        update(DEAD_LETTERS)
        .where(
            letters.delivery.in_(select(_D.key).where(dead)),
            letters.workspace == workspace,
            letters.resolved_ms.is_(None),
        )
        .values(resolved_ms=now_ms)
    )
