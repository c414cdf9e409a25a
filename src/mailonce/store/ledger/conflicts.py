"""Conflicts: other content that came under a known key."""

from sqlalchemy import Connection, func, select

from mailonce.core.ledger.entry import ConflictRow
from mailonce.core.query import ConflictFilter
from mailonce.store.filters import between, equal
from mailonce.store.schema.tables import CONFLICTS


class StoredConflict(ConflictRow, frozen=True, gc=False):
    """A conflict, and when it was received."""

    received_ms: int


# No index leads from an event to its conflicts: of so many, the newest, they are counted.
COUNTED_MAX = 10_000

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


def count_of(tx: Connection, workspace: str, event: bytes) -> int:
    """Count the conflicts about an event, among the newest of all."""
    newest = (
        select(CONFLICTS.c.workspace, CONFLICTS.c.event)
        .order_by(CONFLICTS.c.id.desc())
        .limit(COUNTED_MAX)
        .subquery()
    )
    is_ours = (newest.c.workspace == workspace, newest.c.event == event)
    return tx.scalar(select(func.count()).select_from(newest).where(*is_ours)) or 0
