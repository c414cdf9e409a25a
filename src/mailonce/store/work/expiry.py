"""Expiry: give up undeliverable deliveries, keep the bodies of pending ones, delete old rows."""

from typing import NamedTuple

import orjson
from sqlalchemy import Connection, and_, delete, exists, or_, select, update

from mailonce.core.work.states import State
from mailonce.store.schema.tables import ATTEMPTS, DEAD_LETTERS, DELIVERIES, EVENTS, ROUTES
from mailonce.store.work.pages import is_state

_D = DELIVERIES.c
_DEAD = DEAD_LETTERS.c
_OPEN = and_(_DEAD.resolved_ms.is_(None), _DEAD.delivery == _D.key)


class ExpiringRoute(NamedTuple):
    """What burying must know of a route."""

    off: str | None
    deadline_s: int


def lanes(tx: Connection) -> dict[str, ExpiringRoute]:
    """Tell of every route whether it is on, and when it gives up."""
    rows = tx.execute(select(ROUTES.c.id, ROUTES.c.off, ROUTES.c.settings))
    return {
        row[0]: ExpiringRoute(row[1], orjson.loads(bytes(row[2]))["deadline_s"]) for row in rows
    }


def is_there(tx: Connection, route: str) -> bool:
    return tx.scalar(select(ROUTES.c.id).where(ROUTES.c.id == route)) is not None


_EVENT = and_(EVENTS.c.day == _D.day, EVENTS.c.id == _D.event, EVENTS.c.body.is_not(None))
# The body lies in the log alone.
_HAS_BODY = and_(_D.body.is_(None), exists(select(EVENTS.c.id).where(_EVENT)))


def bodies_owed(tx: Connection, *, before_day: int, most: int) -> list[bytes]:
    """Find what is not done and has its body in days that are about to be dropped."""
    waiting = select(_DEAD.delivery).where(_DEAD.resolved_ms.is_(None), _DEAD.delivery.is_not(None))
    is_dead = and_(_D.state == State.DEAD, _D.key.in_(waiting))
    owed: list[bytes] = []
    for place in (is_state(State.DUE), is_state(State.LEASED), is_dead):
        keys = select(_D.key).where(place, _D.day < before_day, _HAS_BODY).limit(most)
        owed += (bytes(key) for key in tx.scalars(keys))
    return owed


def keep_bodies(tx: Connection, *, owed: list[bytes]) -> int:
    """Move bodies from the log to the deliveries that owe them; say how many.

    Where another process was quicker, the day may be gone already, and the body is kept.
    """
    body = select(EVENTS.c.body).where(_EVENT).scalar_subquery()
    statement = update(DELIVERIES).where(_D.key.in_(owed), _HAS_BODY).values(body=body)
    return tx.execute(statement).rowcount


def forget(tx: Connection, *, before_ms: int, most: int) -> int:
    """Delete finished deliveries with their attempts, unless an open letter waits for a person."""
    is_finished = and_(
        _D.made_ms < before_ms,
        _D.done_ms < before_ms,
        or_(
            _D.state == State.DONE,
            and_(_D.state == State.DEAD, ~exists(select(_DEAD.id).where(_OPEN))),
        ),
    )
    keys = list(tx.scalars(select(_D.key).where(is_finished).order_by(_D.made_ms).limit(most)))
    if not keys:
        return 0
    gone = tx.scalars(
        delete(DELIVERIES).where(_D.key.in_(keys), is_finished).returning(_D.key)
    ).all()
    tx.execute(delete(ATTEMPTS).where(ATTEMPTS.c.delivery.in_(gone)))
    return len(gone)
