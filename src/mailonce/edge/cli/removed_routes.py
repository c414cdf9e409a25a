"""Routes that were removed: their names, which the audit log keeps, beside what is left of them."""

from collections.abc import Iterable
from typing import Any

from mailonce.core.deliveries.removed_route import removed_route_words
from mailonce.edge.cli.client import ApiSession

REMOVAL = "DELETE /v1/routes/{route_id}"
# For each of so many a question is asked; of further ones the id is shown.
ROUTES_MAX = 20
AUDIT_ROWS = 20


async def name_removed_routes(client: ApiSession, rows: Iterable[Any]) -> None:
    """Give deliveries and sums whose route was removed a name to be shown, with that word."""
    nameless = [row for row in rows if row.get("route") and row["route_name"] is None]
    if not nameless:
        return
    there = {one["name"] for one in (await client.get("routes"))["data"]}
    names: dict[str, str] = {}
    for id_ in list(dict.fromkeys(row["route"] for row in nameless))[:ROUTES_MAX]:
        names[id_] = await _name_of(client, id_)
    for row in nameless:
        name = names.get(row["route"], row["route"])
        row["route_name"] = f"{name} (removed)"
        row["route_removed"] = True
        # Without a name it cannot be put back as it was.
        row["removed_name"] = None if name == row["route"] else name
        row["name_taken"] = name in there


def removed_words(row: Any, *, delivery: str | None = None) -> str:
    """Say that the route of a delivery or dead letter was removed, and what to do about it."""
    name, is_taken = row.get("removed_name"), bool(row.get("name_taken"))
    return removed_route_words(name, is_taken=is_taken, delivery=delivery)


async def giving_up_words(client: ApiSession, route: str | None = None) -> list[str]:
    """Say what is still pending of routes that were removed: soon it is a dead letter."""
    page = await client.get("undelivered", route=route, state="pending", limit=1)
    rows = [row for row in page["routes"] if row["pending"] and row["route_name"] is None]
    await name_removed_routes(client, rows)
    return [
        f"{row['pending']:,} {'delivery' if row['pending'] == 1 else 'deliveries'} of the removed "
        f"route {row['removed_name'] or row['route']} "
        f"{'is' if row['pending'] == 1 else 'are'} being given up"
        for row in rows
    ]


async def _name_of(client: ApiSession, id_: str) -> str:
    # A server of before has no audit log, or kept the name there without the id.
    log = await client.find("audit", object=id_, limit=AUDIT_ROWS) or {"data": []}
    for entry in log["data"]:
        if entry["operation"] == REMOVAL and (name := entry["object"].removesuffix(f" ({id_})")):
            return str(name)
    return id_
