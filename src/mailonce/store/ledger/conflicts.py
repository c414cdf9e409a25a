"""Conflicts: other content that came under a known key."""

from typing import NamedTuple

from sqlalchemy import Connection, select

from mailonce.core.events.key import Key
from mailonce.core.ids import ArrivalId
from mailonce.store.schema.tables import CONFLICTS


class StoredConflict(NamedTuple):
    """A conflict: `event` holds the key, the other content is in `arrival` at `position`."""

    id: bytes
    workspace: str
    source: str
    key: Key
    event: bytes
    arrival: ArrivalId
    position: int
    reason: str
    received_ms: int


_COLUMNS = [CONFLICTS.c[name] for name in StoredConflict._fields]


def page(
    tx: Connection, workspace: str, *, source: str | None, below: bytes | None, limit: int
) -> list[StoredConflict]:
    """List conflicts, newest first."""
    query = select(*_COLUMNS).where(CONFLICTS.c.workspace == workspace)
    if source is not None:
        query = query.where(CONFLICTS.c.source == source)
    if below is not None:
        query = query.where(CONFLICTS.c.id < below)
    rows = tx.execute(query.order_by(CONFLICTS.c.id.desc()).limit(limit))
    return [StoredConflict(*row) for row in rows]
