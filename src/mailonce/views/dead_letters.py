"""Dead letters as users see them."""

from base64 import b64encode
from codecs import getincrementaldecoder
from collections.abc import Mapping
from dataclasses import replace
from typing import NotRequired

from typing_extensions import TypedDict

from mailonce.core.deliveries.delivery import delivery_id
from mailonce.core.ids import private, public
from mailonce.core.moment import moment
from mailonce.core.query import DeadLetterFilter
from mailonce.errors import MissingError
from mailonce.store.configuration import keys
from mailonce.store.dialects.contract import Database, Tx
from mailonce.store.ledger import dead_letters, origins
from mailonce.store.ledger.dead_letters import DeadLetter
from mailonce.store.work import pages
from mailonce.store.work.pages import StoredAttempt
from mailonce.views.deliveries import AttemptJson, attempt_json
from mailonce.views.origins import Origins, source_id, source_name
from mailonce.views.paging import Page, PageQuery

# A dead letter may be as large as a body: a page is never larger than this.
ROWS_MAX = 100


class DeadLetterJson(TypedDict):
    """What we gave up on; its bytes are in `raw`, or in `raw_base64` where they are no text."""

    id: str
    kind: str
    key: str
    source: str
    source_name: str | None
    route: str | None
    reason: str
    # Of a delivery: what its endpoint answered last.
    status: int | None
    last_error: str | None
    attempts: int
    failed_at: str
    resolved_at: str | None
    # Of one that a person dismissed: the key's id and name, and why.
    dismissed_by: str | None
    dismissed_by_name: str | None
    dismissed_because: str | None
    # A list shows the beginning of a long one; `raw_bytes` is the size of the whole.
    raw: str | None
    raw_bytes: int
    raw_base64: NotRequired[str]
    # Of a delivery, where one letter is shown.
    delivery: NotRequired[str]
    history: NotRequired[list[AttemptJson]]


async def list_dead_letters(
    database: Database,
    workspace: str,
    query: DeadLetterFilter,
    page: PageQuery,
    *,
    has_raw: bool = True,
) -> Page[DeadLetterJson]:
    """List dead letters, newest first: the open ones, or those that were resolved."""
    page = page.at_most(ROWS_MAX)
    below = page.position(bytes, bytes)

    def work(
        tx: Tx,
    ) -> tuple[Origins, list[DeadLetter], dict[str, str], dict[bytes, int | None]]:
        known = origins.of_workspace(tx, workspace)
        wanted = replace(query, source=source_id(known, query.source))
        rows = dead_letters.page(tx, workspace, wanted, below=below, limit=page.limit + 1)
        names = keys.names_of(tx, workspace, (row.dismissed_by for row in rows))
        owed = [row.delivery for row in rows if row.delivery is not None]
        deliveries = pages.get_many(tx, workspace, owed) if owed else []
        return known, rows, names, {bytes(one.key): one.status for one in deliveries}

    known, rows, names, statuses = await database.read(work)

    def shown(row: DeadLetter) -> DeadLetterJson:
        status = None if row.delivery is None else statuses.get(bytes(row.delivery))
        return dead_letter_json(row, known, names, status=status, has_raw=has_raw)

    return page.of(rows, shown, lambda last: (last.id,))


async def show_dead_letter(
    database: Database, workspace: str, letter_id: str, *, has_raw: bool = True
) -> DeadLetterJson:
    """Show one dead letter.

    Raises: MissingError where this workspace has none of that id.
    """
    id_ = private("dead", letter_id)

    def work(tx: Tx) -> tuple[Origins, DeadLetter | None, list[StoredAttempt], dict[str, str]]:
        row = dead_letters.get(tx, workspace, id_)
        key = None if row is None else row.delivery
        tries = [] if key is None else pages.attempts_of(tx, key)
        names = {} if row is None else keys.names_of(tx, workspace, [row.dismissed_by])
        return origins.of_workspace(tx, workspace), row, tries, names

    known, row, tries, names = await database.read(work)
    if row is None:
        raise MissingError(f"there is no dead letter {letter_id!r}; see GET /v1/dead-letters")
    status = tries[-1].status if tries else None
    shown = dead_letter_json(row, known, names, status=status, has_raw=has_raw)
    if row.delivery is not None:
        shown["delivery"] = delivery_id(row.delivery)
        shown["history"] = [attempt_json(attempt) for attempt in tries]
    return shown


def dead_letter_json(
    row: DeadLetter,
    known: Origins,
    key_names: Mapping[str, str],
    *,
    status: int | None,
    has_raw: bool,
) -> DeadLetterJson:
    shown: DeadLetterJson = {
        "id": public("dead", row.id),
        "kind": row.kind,
        "key": row.arrival_key,
        "source": row.source,
        "source_name": source_name(known, row.source),
        # An arrival was on its way to us, not to a route.
        "route": row.route,
        "reason": row.reason,
        "status": status,
        "last_error": row.last_error if row.kind == "delivery" else row.last_error or row.reason,
        "attempts": row.attempts,
        "failed_at": moment(row.failed_ms),
        "resolved_at": moment(row.resolved_ms),
        "dismissed_by": row.dismissed_by,
        "dismissed_by_name": key_names.get(row.dismissed_by or ""),
        "dismissed_because": row.dismissed_because,
        "raw": None,
        "raw_bytes": row.raw_bytes,
    }
    # An empty body of a delivery was erased with its mail; a mail's bytes are in its inbox.
    if not has_raw or (row.raw_bytes == 0 and row.kind != "arrival"):
        return shown
    # What was cut may end inside a character.
    is_cut = len(row.raw) < row.raw_bytes
    try:
        shown["raw"] = getincrementaldecoder("utf-8")().decode(row.raw, final=not is_cut)
    except UnicodeDecodeError:
        shown["raw_base64"] = b64encode(row.raw).decode()
    return shown
