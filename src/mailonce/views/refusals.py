"""Refusals as users see them."""

import orjson
from typing_extensions import TypedDict

from mailonce.core.moment import moment
from mailonce.store.dialects.contract import Database, Tx
from mailonce.store.ledger import origins, refusals
from mailonce.store.ledger.refusals import RefusalCount, RefusalPosition
from mailonce.views.origins import Origins, source_id, source_name
from mailonce.views.paging import Page, check_limit, cursor_of, cut, place_of

MINUTE_MS = 60_000


class RefusalJson(TypedDict):
    """What was refused for one reason in one minute, with the first of them as a sample."""

    source: str
    source_name: str | None
    reason: str
    minute: str
    count: int
    body_bytes: int
    headers: dict[str, str]
    sample: str


async def list_refusals(
    database: Database,
    workspace: str,
    *,
    source: str | None = None,
    cursor: str | None,
    limit: int,
) -> Page[RefusalJson]:
    """List refusals, the newest minute first; each process counts for itself."""
    rows_max = check_limit(limit)
    below = None if cursor is None else RefusalPosition(*place_of(cursor, int, str, str, bytes))

    def work(tx: Tx) -> tuple[Origins, list[RefusalCount]]:
        known = origins.of_workspace(tx, workspace)
        id_ = source_id(known, source)
        rows = refusals.page(tx, workspace, source=id_, below=below, limit=rows_max + 1)
        return known, rows

    known, rows = await database.read(work)
    kept, last = cut(rows, rows_max)
    following = None
    if last is not None:
        following = cursor_of(last.minute, last.source, last.reason, last.process)
    return {"data": [_refusal_json(row, known) for row in kept], "next": following}


def _refusal_json(row: RefusalCount, known: Origins) -> RefusalJson:
    return {
        "source": row.source,
        "source_name": source_name(known, row.source),
        "reason": row.reason,
        "minute": moment(row.minute * MINUTE_MS),
        "count": row.count,
        "body_bytes": row.body_bytes,
        "headers": orjson.loads(row.headers) if row.headers else {},
        "sample": row.sample.decode("utf-8", "replace"),
    }
