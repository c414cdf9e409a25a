"""Counts as users see them: first events by source, type and day."""

from dataclasses import replace

from typing_extensions import TypedDict

from mailonce.core.moment import day_text
from mailonce.core.query import CountFilter
from mailonce.store.dialects.contract import Database, Tx
from mailonce.store.ledger import counts, origins
from mailonce.store.ledger.counts import Count, CountPosition
from mailonce.views.origins import Origins, source_id, source_name
from mailonce.views.paging import Page, PageQuery


class StatJson(TypedDict):
    """How many first events of a type a source brought on a day of receipt, UTC."""

    source: str
    source_name: str | None
    type: str
    day: str
    count: int


async def list_stats(
    database: Database, workspace: str, query: CountFilter, page: PageQuery
) -> Page[StatJson]:
    """List counts, newest day first."""
    after = page.position(CountPosition, int, str, str)

    def work(tx: Tx) -> tuple[Origins, list[Count]]:
        known = origins.of_workspace(tx, workspace)
        wanted = replace(query, source=source_id(known, query.source))
        return known, counts.page(tx, workspace, wanted, after=after, limit=page.limit + 1)

    known, rows = await database.read(work)

    def shown(row: Count) -> StatJson:
        return {
            "source": row.source,
            "source_name": source_name(known, row.source),
            "type": row.type,
            "day": day_text(row.day),
            "count": row.times,
        }

    return page.of(rows, shown, lambda last: (last.day, last.source, last.type))
