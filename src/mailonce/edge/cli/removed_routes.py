"""Routes that were removed: their names, which the audit log keeps, beside what is left of them."""

from collections.abc import Iterable
from typing import Any

from mailonce.edge.cli.client import ApiSession

REMOVAL = "DELETE /v1/routes/{route_id}"
# For each of so many a question is asked; of further ones the id is shown.
ROUTES_MAX = 20
AUDIT_ROWS = 20


async def name_removed_routes(client: ApiSession, rows: Iterable[Any]) -> None:
    """Give deliveries and sums whose route was removed a name to be shown, with that word."""
    nameless = [row for row in rows if row.get("route") and row["route_name"] is None]
    names: dict[str, str] = {}
    for id_ in list(dict.fromkeys(row["route"] for row in nameless))[:ROUTES_MAX]:
        names[id_] = await _name_of(client, id_)
    for row in nameless:
        row["route_name"] = f"{names.get(row['route'], row['route'])} (removed)"
        row["route_removed"] = True


async def _name_of(client: ApiSession, id_: str) -> str:
    # A server of before has no audit log, or kept the name there without the id.
    log = await client.find("audit", object=id_, limit=AUDIT_ROWS) or {"data": []}
    for entry in log["data"]:
        if entry["operation"] == REMOVAL and (name := entry["object"].removesuffix(f" ({id_})")):
            return str(name)
    return id_
