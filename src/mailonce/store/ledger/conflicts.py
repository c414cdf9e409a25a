"""Conflicts: other content that came under a known key."""

from sqlalchemy import Connection, select

from mailonce.core.ledger.entry import ConflictRow
from mailonce.core.query import ConflictFilter
from mailonce.store.filters import between, equal
from mailonce.store.schema.tables import CONFLICTS


class StoredConflict(ConflictRow, frozen=True, gc=False):
    """A conflict, and when it was received."""

    received_ms: int


_COLUMNS = [CONFLICTS.c[name] for name in StoredConflict.__struct_fields__]


def page(
    tx: Connection, workspace: str, where: ConflictFilter, *, below: bytes | None, limit: int
) -> list[StoredConflict]:
    """List conflicts, newest first."""
    query = select(*_COLUMNS).where(
        *equal(CONFLICTS, workspace=workspace, source=where.source),
        *between(CONFLICTS.c.received_ms, where.since_ms, where.until_ms),
    )
    if below is not None:
        query = query.where(CONFLICTS.c.id < below)
    rows = tx.execute(query.order_by(CONFLICTS.c.id.desc()).limit(limit))
    return [StoredConflict(*row) for row in rows]
