"""Counts: first events by source, type and day, as deltas of batches and their fold."""

from collections import Counter
from typing import NamedTuple

from sqlalchemy import Connection, and_, delete, func, or_, select, tuple_

from mailonce.core.query import CountFilter
from mailonce.store.dialects.upsert import insert_or_add
from mailonce.store.filters import equal
from mailonce.store.schema.tables import COUNTS, WORKSPACES

FOLD_ROWS_MAX = 2_000
FOLDED = b""


class Count(NamedTuple):
    """How many first events of a type a source brought on a day."""

    day: int
    source: str
    type: str
    times: int


class CountPosition(NamedTuple):
    """Where a page of counts ends."""

    day: int
    source: str
    type: str


def page(
    tx: Connection, workspace: str, where: CountFilter, *, after: CountPosition | None, limit: int
) -> list[Count]:
    """Sum the counts, newest day first, then by source and type."""
    query = select(COUNTS.c.day, COUNTS.c.source, COUNTS.c.type, func.sum(COUNTS.c.count)).where(
        *equal(COUNTS, workspace=workspace, source=where.source, type=where.type)
    )
    if where.since_day is not None:
        query = query.where(COUNTS.c.day >= where.since_day)
    if where.until_day is not None:
        query = query.where(COUNTS.c.day < where.until_day)
    if after is not None:
        same_day = tuple_(COUNTS.c.source, COUNTS.c.type) > tuple_(after.source, after.type)
        query = query.where(
            COUNTS.c.day <= after.day,
            or_(COUNTS.c.day < after.day, and_(COUNTS.c.day == after.day, same_day)),
        )
    query = query.group_by(COUNTS.c.day, COUNTS.c.source, COUNTS.c.type)
    query = query.order_by(COUNTS.c.day.desc(), COUNTS.c.source, COUNTS.c.type)
    # PostgreSQL sums bigint to numeric; a count is a whole number all the same.
    return [Count(row[0], row[1], row[2], int(row[3])) for row in tx.execute(query.limit(limit))]


def fold(tx: Connection, before_day: int, *, rows_max: int = FOLD_ROWS_MAX) -> int:
    """Fold some deltas of days before `before_day` into one row per count; say how many.

    Call it until it folds none. Invariant: what leaves as deltas joins the fold in the same
    transaction, so every sum stays as it was. A delta written meanwhile has a batch of its own
    and is left for the next slice; of two concurrent folds, each adds only what it has deleted.
    A batch that is run again after its deltas were folded adds none: it finds its own events.
    """
    folded = 0
    for workspace in tx.scalars(select(WORKSPACES.c.id).order_by(WORKSPACES.c.id)).all():
        folded += _fold_some(tx, workspace, before_day, rows_max - folded)
        if folded >= rows_max:
            break
    return folded


def _fold_some(tx: Connection, workspace: str, before_day: int, rows_max: int) -> int:
    place = (COUNTS.c.workspace, COUNTS.c.day, COUNTS.c.source, COUNTS.c.type)
    some = (
        select(*place, COUNTS.c.batch)
        .where(
            COUNTS.c.workspace == workspace,
            COUNTS.c.day < before_day,
            COUNTS.c.batch != FOLDED,
        )
        .order_by(*place, COUNTS.c.batch)
        .limit(rows_max)
    )
    gone = tx.execute(
        delete(COUNTS)
        .where(tuple_(*place, COUNTS.c.batch).in_(some))
        .returning(*place, COUNTS.c.count)
    ).all()
    sums: Counter[tuple[str, int, str, str]] = Counter()
    for workspace_, day, source, type_, count in gone:
        sums[workspace_, day, source, type_] += count
    names = ("workspace", "day", "source", "type")
    rows = [
        {**dict(zip(names, where, strict=True)), "batch": FOLDED, "count": count}
        for where, count in sums.items()
    ]
    insert_or_add(tx, COUNTS, rows, add=("count",))
    return len(gone)
