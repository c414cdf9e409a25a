"""Conflicts as users see them: the kept content, the other content, and the difference."""

from collections.abc import Mapping
from dataclasses import replace
from typing import Any, NamedTuple

from typing_extensions import TypedDict

from mailonce.core.ids import public
from mailonce.core.moment import moment
from mailonce.core.query import ConflictFilter
from mailonce.store.dialects.contract import Database, Tx
from mailonce.store.ledger import conflicts, events, origins
from mailonce.store.ledger.conflicts import StoredConflict
from mailonce.store.ledger.events import LoggedEvent
from mailonce.views.origins import Origins, source_id, source_name
from mailonce.views.paging import Page, PageQuery
from mailonce.views.reread import Reread, read_again, writable

_ALL = ConflictFilter()
# Each conflict costs reading two arrivals again: a page is never larger than this.
ROWS_MAX = 100


class DifferenceJson(TypedDict):
    """A field in the provider's words: the value that was kept, and the value of the other copy."""

    field: str
    kept: Any
    other: Any


class ConflictJson(TypedDict):
    """Other content that came under a known key; `differs` is empty once a body was pruned."""

    id: str
    key: str
    # The event that was kept under the key, and that of the other content: None where nothing
    # signs the body, so that it changed nothing, and once it was pruned.
    event: str
    other_event: str | None
    source: str
    source_name: str | None
    reason: str
    received_at: str
    differs: list[DifferenceJson]


class _Read(NamedTuple):
    origins: Origins
    rows: list[StoredConflict]
    # The events that were kept, and those of the other content.
    events: dict[bytes, LoggedEvent]


async def list_conflicts(
    database: Database, workspace: str, page: PageQuery, query: ConflictFilter = _ALL
) -> Page[ConflictJson]:
    """List conflicts, newest first."""
    page = page.at_most(ROWS_MAX)
    below = page.position(bytes, bytes)

    def work(tx: Tx) -> _Read:
        known = origins.of_workspace(tx, workspace)
        wanted = replace(query, source=source_id(known, query.source))
        rows = conflicts.page(tx, workspace, wanted, below=below, limit=page.limit + 1)
        # The event of the other content has the id of its conflict.
        ids = [id_ for row in rows[: page.limit] for id_ in (row.event, row.id)]
        return _Read(known, rows, events.get_many(tx, workspace, ids))

    read = await database.read(work)
    wanted = {row.arrival for row in read.rows[: page.limit]}
    wanted |= {event.arrival for event in read.events.values()}
    again = await read_again(database, workspace, read.origins, wanted)
    return page.of(read.rows, lambda row: _conflict_json(row, read, again), lambda last: (last.id,))


def _conflict_json(row: StoredConflict, read: _Read, again: Mapping[bytes, Reread]) -> ConflictJson:
    return {
        "id": public("con", row.id),
        "key": row.key.hex(),
        "event": public("evt", row.event),
        "other_event": public("evt", row.id) if row.id in read.events else None,
        "source": row.source,
        "source_name": source_name(read.origins, row.source),
        "reason": row.reason,
        "received_at": moment(row.received_ms),
        "differs": _differences(row, read.events.get(row.event), again),
    }


def _differences(
    row: StoredConflict, holder: LoggedEvent | None, again: Mapping[bytes, Reread]
) -> list[DifferenceJson]:
    if holder is None or holder.arrival not in again or row.arrival not in again:
        return []
    kept = again[holder.arrival].event(holder.position)
    other = again[row.arrival].event(row.position)
    if kept is None or other is None or kept.identity.recipe != other.identity.recipe:
        return []
    ours, theirs = kept.identity.fields, other.identity.fields
    return [
        {
            "field": name,
            "kept": writable(ours.get(name)),
            "other": writable(theirs.get(name)),
        }
        for name in kept.identity.recipe.differing(ours, theirs)
    ]
