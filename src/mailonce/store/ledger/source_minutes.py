"""Pulses: how much each source sent in each minute, taken or refused."""

from collections.abc import Iterable, Sequence

from sqlalchemy import Connection, func, select

from mailonce.core.health.alarm import Pulse, Rhythm
from mailonce.store.dialects.upsert import insert_or_add
from mailonce.store.schema.tables import PULSES


def add_all(tx: Connection, pulses: Iterable[tuple[str, Pulse]]) -> None:
    """Add counts of this process, by source and minute, to those of the others."""
    rows = [
        {"source": source, "minute": one.minute, "taken": one.taken, "refused": one.refused}
        for source, one in pulses
    ]
    insert_or_add(tx, PULSES, rows, add=("taken", "refused"))


def since(tx: Connection, sources: Sequence[str], *, minute: int) -> dict[str, list[Pulse]]:
    """List the pulses of sources from a minute on, oldest first."""
    columns = (PULSES.c.source, PULSES.c.minute, PULSES.c.taken, PULSES.c.refused)
    query = (
        select(*columns)
        .where(PULSES.c.source.in_(sources), PULSES.c.minute >= minute)
        .order_by(PULSES.c.source, PULSES.c.minute)
    )
    pulses: dict[str, list[Pulse]] = {}
    for source, *pulse in tx.execute(query):
        pulses.setdefault(source, []).append(Pulse(*pulse))
    return pulses


def rhythms(tx: Connection, sources: Sequence[str], *, minute: int) -> dict[str, Rhythm]:
    """Learn the rhythm of sources from a minute on; the rows stay in the database."""
    before = func.lag(PULSES.c.minute).over(partition_by=PULSES.c.source, order_by=PULSES.c.minute)
    pause = PULSES.c.minute - before
    busy = (
        select(PULSES.c.source, PULSES.c.minute, pause.label("pause"))
        .where(PULSES.c.source.in_(sources), PULSES.c.minute >= minute, PULSES.c.taken > 0)
        .subquery()
    )
    query = select(
        busy.c.source,
        func.count(),
        func.min(busy.c.minute),
        func.max(busy.c.minute),
        func.coalesce(func.max(busy.c.pause), 0),
    ).group_by(busy.c.source)
    learned = {source: Rhythm(*rest) for source, *rest in tx.execute(query)}
    return {source: learned.get(source, Rhythm()) for source in sources}
