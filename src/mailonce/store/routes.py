"""Routes, their secrets sealed, and the lanes that workers hold."""

from collections.abc import Callable
from dataclasses import asdict

import orjson
from sqlalchemy import Connection, delete, func, insert, select, update

from mailonce.core.route import Route, RouteKind, RouteSecret
from mailonce.core.seal import NONCE_BYTES, Sealer
from mailonce.store import configuration, locks
from mailonce.store.tables import LANES, ROUTES

# What must not be shown is sealed.
SECRET = ("secrets", "headers")
PLAIN = (
    "events",
    "sources",
    "domains",
    "tags",
    "metadata",
    "expression",
    "mapping",
    "waits_s",
    "deadline_s",
    "blamed_attempts_max",
    "timeout_s",
    "concurrency",
    "rate_per_s",
)
_LISTS = ("events", "sources", "domains", "tags", "waits_s")


def list_all(tx: Connection, sealer: Sealer) -> list[Route]:
    """List the routes of every workspace, oldest first; see `is_unreadable`."""
    rows = tx.execute(select(ROUTES).order_by(ROUTES.c.created_ms, ROUTES.c.id)).mappings()
    return [_read(row, sealer) for row in rows]


def get(tx: Connection, route_id: str, sealer: Sealer) -> Route | None:
    """Find a route by its id."""
    row = tx.execute(select(ROUTES).where(ROUTES.c.id == route_id)).mappings().first()
    return None if row is None else _read(row, sealer)


def other_of_name(tx: Connection, route: Route) -> str | None:
    """Find another route of the same name in the same workspace, by its id."""
    return tx.scalar(
        select(ROUTES.c.id).where(
            ROUTES.c.workspace == route.workspace,
            ROUTES.c.name == route.name,
            ROUTES.c.id != route.id,
        )
    )


def count_of(tx: Connection, workspace: str) -> int:
    """Count the routes of a workspace."""
    return tx.scalar(select(func.count()).where(ROUTES.c.workspace == workspace)) or 0


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
    locks.take(tx, locks.CONFIGURATION)
    fields = asdict(route)
    secret = orjson.dumps({name: fields[name] for name in SECRET})
    values = {
        "name": route.name,
        "kind": str(route.kind),
        "url": route.url,
        "settings": orjson.dumps({name: fields[name] for name in PLAIN}),
        "sealed": sealer.seal(secret, place=_place(route), nonce=chance(NONCE_BYTES)),
        "origin": origin,
    }
    changed = tx.execute(update(ROUTES).where(ROUTES.c.id == route.id).values(**values))
    if not changed.rowcount:
        tx.execute(
            insert(ROUTES).values(
                id=route.id, workspace=route.workspace, created_ms=now_ms, off=route.off, **values
            )
        )
        tx.execute(
            insert(LANES).values(route=route.id, owner=b"", until_ms=0, seq=0, acknowledged=0)
        )
    configuration.bump(tx)


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
        configuration.bump(tx)
    return changed.rowcount > 0


def remove(tx: Connection, workspace: str, route_id: str) -> bool:
    """Delete a route and its lane; what is owed to it stays. Say whether there was one."""
    locks.take(tx, locks.CONFIGURATION)
    done = tx.execute(
        delete(ROUTES).where(ROUTES.c.workspace == workspace, ROUTES.c.id == route_id)
    )
    if done.rowcount:
        tx.execute(delete(LANES).where(LANES.c.route == route_id))
        configuration.bump(tx)
    return done.rowcount > 0


def _place(route: Route) -> str:
    return f"{route.workspace}/routes/{route.id}"


def _read(row: configuration.Row, sealer: Sealer) -> Route:
    place = f"{row['workspace']}/routes/{row['id']}"
    opened = sealer.try_open(bytes(row["sealed"]), place=place)
    secret = {"secrets": [], "headers": {}} if opened is None else orjson.loads(opened)
    plain = orjson.loads(bytes(row["settings"]))
    plain |= {name: tuple(plain[name]) for name in _LISTS}
    return Route(
        id=row["id"],
        workspace=row["workspace"],
        name=row["name"],
        kind=RouteKind(row["kind"]),
        url=row["url"],
        secrets=tuple(RouteSecret(**one) for one in secret["secrets"]),
        headers=secret["headers"],
        off=row["off"],
        is_unreadable=opened is None,
        **plain,
    )
