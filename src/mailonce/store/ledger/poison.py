"""Poison: how often an unreadable arrival was sent to us, while it is answered "retry"."""

from sqlalchemy import Connection, select

from mailonce.store.dialects.upsert import insert_or_add
from mailonce.store.schema.tables import POISON


def count_try(tx: Connection, source: str, arrival_key: str, *, now_ms: int) -> int:
    """Count one more try of an arrival; say which one it is, from 1."""
    row = {"source": source, "arrival_key": arrival_key, "attempts": 1, "first_ms": now_ms}
    insert_or_add(tx, POISON, [row], add=("attempts",))
    # The upsert holds the row until we commit, so nobody else has counted in between.
    attempts: int = tx.execute(
        select(POISON.c.attempts).where(
            POISON.c.source == source, POISON.c.arrival_key == arrival_key
        )
    ).scalar_one()
    return attempts
