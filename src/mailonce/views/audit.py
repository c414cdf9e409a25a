"""The audit log as users see it: names beside ids, and words beside operations."""

from collections.abc import Mapping

from typing_extensions import TypedDict

from mailonce.core.ids import public
from mailonce.core.moment import moment
from mailonce.store import audit
from mailonce.store.audit import AuditEntry
from mailonce.store.configuration import keys
from mailonce.store.dialects.contract import Database, Tx
from mailonce.views.paging import Page, PageQuery


class AuditJson(TypedDict):
    """A change: `by` is a key, `local:USER` for a command on the server, or `settings file`."""

    id: str
    at: str
    by: str
    by_name: str | None
    what: str
    object: str
    operation: str


async def list_changes(
    database: Database,
    workspace: str,
    page: PageQuery,
    *,
    words: Mapping[str, str],
    by: str | None = None,
    object_: str | None = None,
    since_ms: int | None = None,
    until_ms: int | None = None,
) -> Page[AuditJson]:
    """List changes, newest first; `by` is a part of a key's name or id, or of `local:USER`.

    `words` say what operations do.
    """

    def work(tx: Tx) -> tuple[list[AuditEntry], dict[str, str]]:
        names = keys.names(tx)
        rows = audit.page(
            tx,
            workspace,
            by=by,
            key_ids=[id_ for id_, name in names.items() if by is not None and by in name],
            object_=object_,
            since_ms=since_ms,
            until_ms=until_ms,
            below=page.position(bytes, bytes),
            limit=page.limit + 1,
        )
        return rows, names

    rows, names = await database.read(work)

    def show(row: AuditEntry) -> AuditJson:
        return {
            "id": public("aud", row.id),
            "at": moment(row.at_ms),
            "by": row.by,
            # A child key is written behind its parent.
            "by_name": names.get(row.by.partition("/")[0]),
            "what": words.get(row.operation, row.operation),
            "object": row.object,
            "operation": row.operation,
        }

    return page.of(rows, show, lambda last: (last.id,))
