"""Routes, their secrets sealed, and the lanes that workers hold."""

from collections.abc import Callable

from sqlalchemy import Connection, delete, insert, select, update

from mailonce.core.deliveries.route import SETTINGS, Route, RouteKind, RouteSecret
from mailonce.core.signatures.sealing import Sealer
from mailonce.store.configuration import locks, version
from mailonce.store.configuration.version import ConfiguredTable
from mailonce.store.schema.tables import LANES, ROUTES

_TABLE = ConfiguredTable(ROUTES, SETTINGS, ("kind", "url"), frozenset({"secrets", "headers"}))

other_of_name = _TABLE.other_of_name
count_of = _TABLE.count_of


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
        lane = {"route": route.id, "owner": b"", "until_ms": 0, "seq": 0, "acknowledged": 0}
        tx.execute(insert(LANES).values(**lane))


def origin_of(tx: Connection, route_id: str) -> str | None:
    """Say where a route's settings came from; None where there is no such route."""
    return tx.scalar(select(ROUTES.c.origin).where(ROUTES.c.id == route_id))


def switch(tx: Connection, route_id: str, *, off: str | None, now_ms: int) -> bool:
    """Switch a route off for a reason, or on again; say whether that changed anything."""
    locks.take(tx, locks.CONFIGURATION)
    is_on = ROUTES.c.off.is_(None)
    changed = tx.execute(
        update(ROUTES)
        .where(ROUTES.c.id == route_id, ~is_on if off is None else is_on)
        .values(off=off, off_ms=None if off is None else now_ms)
    )
    if changed.rowcount:
        version.bump(tx)
    return changed.rowcount > 0


def remove(tx: Connection, workspace: str, route_id: str) -> bool:
    """Delete a route and its lane; its deliveries stay. Say whether there was one."""
    is_removed = _TABLE.remove(tx, workspace, route_id)
    if is_removed:
        tx.execute(delete(LANES).where(LANES.c.route == route_id))
    return is_removed


def _read(row: version.Row, sealer: Sealer) -> Route:
    fields = _TABLE.fields_of(row, sealer)
    secrets = tuple(RouteSecret(**one) for one in fields.get("secrets", ()))
    return Route(**fields | {"kind": RouteKind(row["kind"]), "off": row["off"], "secrets": secrets})
