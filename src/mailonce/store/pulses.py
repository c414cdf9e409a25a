"""Pulses: how much each source sent in each minute, taken or refused."""

from collections.abc import Iterable

from sqlalchemy import Connection, select

from mailonce.core.alarm import Pulse
from mailonce.store.dialects.upsert import insert_or_add
from mailonce.store.tables import PULSES


def add_all(tx: Connection, pulses: Iterable[tuple[str, Pulse]]) -> None:
    """Add counts of this process, by source and minute, to those of the others."""
    rows = [
        {"source": source, "minute": one.minute, "taken": one.taken, "refused": one.refused}
        for source, one in pulses
    ]
    insert_or_add(tx, PULSES, rows, add=("taken", "refused"))


def of_source(tx: Connection, source: str, *, since_minute: int) -> list[Pulse]:
    """List the pulses of a source, oldest first."""
    query = (
        select(PULSES.c.minute, PULSES.c.taken, PULSES.c.refused)
        .where(PULSES.c.source == source, PULSES.c.minute >= since_minute)
        .order_by(PULSES.c.minute)
    )
    return [Pulse(*row) for row in tx.execute(query)]
