"""Dead letters as users see them."""

from base64 import b64encode
from codecs import getincrementaldecoder
from collections.abc import Sequence
from dataclasses import replace
from typing import NamedTuple, NotRequired

from typing_extensions import TypedDict

from mailonce.core.deliveries.delivery import delivery_id
from mailonce.core.ids import private, public
from mailonce.core.moment import moment
from mailonce.core.query import DeadLetterFilter, DeliveryFilter
from mailonce.core.work.states import State
from mailonce.errors import MissingError
from mailonce.store.configuration import keys
from mailonce.store.dialects.contract import Database, Tx
from mailonce.store.ledger import dead_letters, origins
from mailonce.store.ledger.dead_letters import DeadLetter
from mailonce.store.work import pages
from mailonce.store.work.pages import StoredAttempt
from mailonce.views.deliveries import AttemptJson, attempt_json, deliveries_about
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
    # Of a delivery: its id, and whom its event is about, until that is pruned.
    delivery: str | None
    recipient: str | None
    # Of a delivery: when it was delivered all the same, as after a redelivery; else None.
    delivered_at: str | None
    reason: str
    # Of a delivery: what its endpoint had answered when it was given up.
    status: int | None
    last_error: str | None
    attempts: int
    failed_at: str
    resolved_at: str | None
    # `retried` or `dismissed`, once it is resolved.
    resolution: str | None
    # Of one that a person dismissed: the key's id and name, and why.
    dismissed_by: str | None
    dismissed_by_name: str | None
    dismissed_because: str | None
    # A list shows the beginning of a long one; `raw_bytes` is the size of the whole.
    raw: str | None
    raw_bytes: int
    raw_base64: NotRequired[str]
    # Of a delivery, where one letter is shown.
    history: NotRequired[list[AttemptJson]]


class RetriedLetterJson(DeadLetterJson):
    """A dead letter after somebody asked for its retry."""

    # Whether it had been retried before: that retry is pending, and nothing more is sent.
    already_retried: bool


class _LetterContext(NamedTuple):
    """What stands beside dead letters."""

    origins: Origins
    key_names: dict[str, str]
    # By letter.
    statuses: dict[bytes, int | None]
    # By delivery.
    recipients: dict[bytes, str | None]
    delivered_ms: dict[bytes, int | None]


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

    def work(tx: Tx) -> tuple[list[DeadLetter], _LetterContext]:
        known = origins.of_workspace(tx, workspace)
        wanted = replace(query, source=source_id(known, query.source))
        if query.recipient is not None or query.message_id is not None:
            mail = DeliveryFilter(recipient=query.recipient, message_id=query.message_id)
            about = tuple(row.key for row in deliveries_about(tx, workspace, mail))
            named = query.deliveries
            both = about if named is None else tuple(key for key in about if key in named)
            wanted = replace(wanted, deliveries=both)
        rows = dead_letters.page(tx, workspace, wanted, below=below, limit=page.limit + 1)
        return rows, _read_context(tx, workspace, known, rows)

    rows, known = await database.read(work)
    return page.of(
        rows, lambda row: dead_letter_json(row, known, has_raw=has_raw), lambda last: (last.id,)
    )


async def show_dead_letter(
    database: Database, workspace: str, letter_id: str, *, has_raw: bool = True
) -> DeadLetterJson:
    """Show one dead letter.

    Raises: MissingError where this workspace has none of that id.
    """
    id_ = private("dead", letter_id)

    def work(tx: Tx) -> tuple[DeadLetter, list[StoredAttempt], _LetterContext] | None:
        row = dead_letters.get(tx, workspace, id_)
        if row is None:
            return None
        tries = [] if row.delivery is None else pages.attempts_of(tx, row.delivery)
        known = origins.of_workspace(tx, workspace)
        return row, tries, _read_context(tx, workspace, known, [row])

    detail = await database.read(work)
    if detail is None:
        raise MissingError(f"there is no dead letter {letter_id!r}; see GET /v1/dead-letters")
    row, tries, known = detail
    shown = dead_letter_json(row, known, has_raw=has_raw)
    if row.delivery is not None:
        shown["history"] = [attempt_json(attempt) for attempt in tries]
    return shown


def _read_context(
    tx: Tx, workspace: str, known: Origins, letters: Sequence[DeadLetter]
) -> _LetterContext:
    owed = [row.delivery for row in letters if row.delivery is not None]
    deliveries = pages.get_many(tx, workspace, owed) if owed else []
    recipients = pages.recipients_of(tx, deliveries)
    return _LetterContext(
        known,
        keys.names_of(tx, workspace, (row.dismissed_by for row in letters)),
        dead_letters.statuses_of(tx, letters),
        {bytes(one.key): recipients.get(one.event) for one in deliveries},
        {bytes(one.key): one.done_ms for one in deliveries if one.state is State.DONE},
    )


def _resolution(row: DeadLetter) -> str | None:
    if row.resolved_ms is None:
        return None
    return "dismissed" if row.is_dismissed else "retried"


def dead_letter_json(row: DeadLetter, known: _LetterContext, *, has_raw: bool) -> DeadLetterJson:
    delivery = None if row.delivery is None else bytes(row.delivery)
    shown: DeadLetterJson = {
        "id": public("dead", row.id),
        "kind": row.kind,
        "key": row.arrival_key,
        "source": row.source,
        "source_name": source_name(known.origins, row.source),
        # An arrival was on its way to us, not to a route.
        "route": row.route,
        "delivery": None if delivery is None else delivery_id(delivery),
        "recipient": None if delivery is None else known.recipients.get(delivery),
        "delivered_at": moment(known.delivered_ms.get(delivery or b"")),
        "reason": row.reason,
        "status": known.statuses.get(row.id),
        "last_error": row.last_error if row.kind == "delivery" else row.last_error or row.reason,
        "attempts": row.attempts,
        "failed_at": moment(row.failed_ms),
        "resolved_at": moment(row.resolved_ms),
        "resolution": _resolution(row),
        "dismissed_by": row.dismissed_by,
        "dismissed_by_name": known.key_names.get(row.dismissed_by or ""),
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
