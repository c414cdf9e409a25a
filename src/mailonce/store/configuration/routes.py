"""Routes, their secrets sealed, and the lanes that workers hold."""

from collections.abc import Callable

from sqlalchemy import Connection, delete, func, insert, select

from mailonce.core.deliveries.route import SETTINGS, Route, RouteKind, RouteSecret
from mailonce.core.signatures.sealing import Sealer
from mailonce.core.work.states import State
from mailonce.store.configuration import version
from mailonce.store.configuration.version import ConfiguredTable
from mailonce.store.schema.tables import DELIVERIES, LANES, ROUTES

_TABLE = ConfiguredTable(ROUTES, SETTINGS, ("kind", "url"), frozenset({"secrets", "headers"}))

other_of_name = _TABLE.other_of_name
count_of = _TABLE.count_of
origin_of = _TABLE.origin_of
names_of_origin = _TABLE.names_of_origin
adopt = _TABLE.adopt
switch = _TABLE.switch


def list_all(tx: Connection, sealer: Sealer) -> list[Route]:
    """List the routes of every workspace, oldest first; see `is_unreadable`."""
    return [_read(row, sealer) for row in _TABLE.rows(tx)]


def get(tx: Connection, route_id: str, sealer: Sealer) -> Route | None:
    row = tx.execute(select(ROUTES).where(ROUTES.c.id == route_id)).mappings().first()
    return None if row is None else _read(row, sealer)


def put(
    tx: Connection,
    route: Route,
    sealer: Sealer,
    *,
    origin: str,
    now_ms: int,
    chance: Callable[[int], bytes],
) -> None:
    """Insert a route, or change the one with its id; safe when several start at once.

    Whether it is on is not touched: `switch` does that.
    """
    is_new = _TABLE.put(
        tx, route, sealer, origin=origin, now_ms=now_ms, chance=chance, off=route.off
    )
    if is_new:
        lane = {"route": route.id, "owner": b"", "until_ms": 0, **_numbers_of(tx, route.id)}
        tx.execute(insert(LANES).values(**lane))


def remove(tx: Connection, workspace: str, route_id: str) -> bool:
    """Delete a route and its lane; its deliveries stay. Say whether there was one."""
    is_removed = _TABLE.remove(tx, workspace, route_id)
    if is_removed:
        tx.execute(delete(LANES).where(LANES.c.route == route_id))
    return is_removed


def _numbers_of(tx: Connection, route_id: str) -> dict[str, int]:
    """Give the numbers of a polled route that was removed and is put back; of a new one, none.

    It goes on behind those that were given, and with what of them was never acknowledged.
    """
    numbered = (DELIVERIES.c.route == route_id, DELIVERIES.c.seq.is_not(None))
    last = tx.scalar(select(func.max(DELIVERIES.c.seq)).where(*numbered)) or 0
    is_due = DELIVERIES.c.state == State.DUE
    first = tx.scalar(select(func.min(DELIVERIES.c.seq)).where(*numbered, is_due))
    return {"seq": last, "acknowledged": last if first is None else first - 1}


def _read(row: version.Row, sealer: Sealer) -> Route:
    fields = _TABLE.fields_of(row, sealer)
    secrets = tuple(RouteSecret(**one) for one in fields.get("secrets", ()))
    return Route(**fields | {"kind": RouteKind(row["kind"]), "off": row["off"], "secrets": secrets})
