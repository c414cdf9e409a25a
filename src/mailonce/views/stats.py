"""Counts as users see them: first events by source, type and day."""

from dataclasses import replace

from typing_extensions import TypedDict

from mailonce.core.moment import day_text
from mailonce.core.query import CountFilter
from mailonce.store.dialects.contract import Database, Tx
from mailonce.store.ledger import counts, origins
from mailonce.store.ledger.counts import Count, CountPosition
from mailonce.views.origins import Origins, source_id, source_name
from mailonce.views.paging import Page, check_limit, cursor_of, cut, place_of


class StatJson(TypedDict):
    """How many first events of a type a source brought on a day of receipt, UTC."""

    source: str
    source_name: str | None
    type: str
    day: str
    count: int


async def list_stats(
    database: Database, workspace: str, query: CountFilter, *, cursor: str | None, limit: int
) -> Page[StatJson]:
    """List counts, newest day first."""
    rows_max = check_limit(limit)
    after = None if cursor is None else CountPosition(*place_of(cursor, int, str, str))

    def work(tx: Tx) -> tuple[Origins, list[Count]]:
        known = origins.of_workspace(tx, workspace)
        wanted = replace(query, source=source_id(known, query.source))
        return known, counts.page(tx, workspace, wanted, after=after, limit=rows_max + 1)

    known, rows = await database.read(work)
    kept, last = cut(rows, rows_max)
    data: list[StatJson] = [
        {
            "source": row.source,
            "source_name": source_name(known, row.source),
            "type": row.type,
            "day": day_text(row.day),
            "count": row.times,
        }
        for row in kept
    ]
    following = None if last is None else cursor_of(last.day, last.source, last.type)
    return {"data": data, "next": following}
