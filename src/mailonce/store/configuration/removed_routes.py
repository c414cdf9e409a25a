"""Routes that were removed: their ids and names, which the audit log keeps."""

from sqlalchemy import Connection, select

from mailonce.store.audit import objects_of
from mailonce.store.filters import equal
from mailonce.store.schema.tables import AUDIT, ROUTES

# The operation by which a route is removed, as the audit log has it.
REMOVAL = "DELETE /v1/routes/{route_id}"


def removal_of(name: str, route_id: str) -> str:
    """Write on what a removal was done: nothing else says afterwards which name a route had."""
    return f"{name} ({route_id})"


def removed_id(tx: Connection, workspace: str, name: str) -> str | None:
    """Find the id of the route that had a name; where several had it, of the one removed last."""
    objects = objects_of(tx, workspace, REMOVAL, f"{name} (rte_")
    return objects[0].removeprefix(f"{name} (").removesuffix(")") if objects else None


def free_id(tx: Connection, workspace: str, name: str) -> str | None:
    """Find the id that a route of this name had before it was removed, if nothing has it now."""
    id_ = removed_id(tx, workspace, name)
    is_taken = select(ROUTES.c.id).where(ROUTES.c.id == id_)
    return id_ if id_ is not None and tx.execute(is_taken).first() is None else None


def removed_name(tx: Connection, workspace: str, route_id: str) -> str | None:
    """Find the name that a removed route had; None where the audit log does not know it."""
    behind = f" ({route_id})"
    query = select(AUDIT.c.object).where(
        *equal(AUDIT, workspace=workspace, operation=REMOVAL),
        AUDIT.c.object.endswith(behind, autoescape=True),
    )
    last = tx.scalar(query.order_by(AUDIT.c.id.desc()).limit(1))
    return None if last is None else str(last).removesuffix(behind)
