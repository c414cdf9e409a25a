"""Workspaces: tenants."""

from dataclasses import asdict, dataclass

from sqlalchemy import Connection, insert, select

from mailonce.store.schema.tables import WORKSPACES

DEFAULT = "default"


@dataclass(frozen=True, slots=True)
class Workspace:
    """A tenant; every stored row has one."""

    id: str
    name: str
    created_ms: int


def list_all(tx: Connection) -> list[Workspace]:
    return [Workspace(*row) for row in tx.execute(select(WORKSPACES).order_by(WORKSPACES.c.name))]


def names_of_others(tx: Connection) -> dict[str, str]:
    """Give the names of all workspaces but the default one, by id."""
    return {one.id: one.name for one in list_all(tx) if one.id != DEFAULT}


def find(tx: Connection, id_or_name: str) -> Workspace | None:
    by = select(WORKSPACES).where(
        (WORKSPACES.c.id == id_or_name) | (WORKSPACES.c.name == id_or_name)
    )
    row = tx.execute(by).first()
    return Workspace(*row) if row else None


def put(tx: Connection, workspace: Workspace) -> None:
    """Insert a workspace; its name must be free."""
    tx.execute(insert(WORKSPACES).values(**asdict(workspace)))
