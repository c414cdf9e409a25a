"""Reruns as users see them: what they go through, and how far they got."""

from typing import Any

from typing_extensions import TypedDict

from mailonce.core.deliveries.delivery import delivery_id
from mailonce.core.deliveries.rerun import Rerun, RerunKind
from mailonce.core.ids import public
from mailonce.core.moment import moment
from mailonce.store.dialects.contract import Database
from mailonce.store.work import reruns
from mailonce.views.paging import Page, PageQuery


class RerunJson(TypedDict):
    """A redelivery or a reprocessing. `done` counts up to `total`, which is what it began with."""

    id: str
    kind: str
    state: str
    filter: dict[str, Any]
    total: int
    done: int
    created_at: str
    changed_at: str


async def list_reruns(
    database: Database, workspace: str, kind: RerunKind, page: PageQuery
) -> Page[RerunJson]:
    """List reruns of one kind, newest first."""
    below = page.position(bytes, bytes)
    rows = await database.read(
        lambda tx: reruns.page(tx, workspace, kind, below=below, limit=page.limit + 1)
    )
    return page.of(rows, rerun_json, lambda last: (last.id,))


def rerun_json(rerun: Rerun) -> RerunJson:
    query = rerun.filter
    is_redelivery = rerun.kind is RerunKind.REDELIVERY
    shown: dict[str, Any] = {
        "route": query.route,
        "type": None if query.type is None else query.type.value,
        "since": moment(query.since_ms),
        "until": moment(query.until_ms),
        "ids": [delivery_id(id_) if is_redelivery else public("evt", id_) for id_ in query.ids],
    }
    if is_redelivery:
        shown["state"] = [state.public_name for state in query.states]
    else:
        shown["missing"] = query.missing
    return {
        "id": public(rerun.kind.prefix, rerun.id),
        "kind": rerun.kind.value,
        "state": rerun.state.value,
        "filter": shown,
        "total": rerun.total,
        "done": rerun.done,
        "created_at": moment(rerun.created_ms),
        "changed_at": moment(max(rerun.changed_ms, rerun.created_ms)),
    }
