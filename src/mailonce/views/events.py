"""Events as users see them."""

import asyncio
from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import Any, NotRequired, cast

import orjson
from typing_extensions import TypedDict

from mailonce.core.deliveries.delivery import processed_ms, shown
from mailonce.core.events.event import EventType
from mailonce.core.ids import private
from mailonce.core.mail.reader_view import reader_view
from mailonce.core.moment import moment
from mailonce.core.query import EventFilter
from mailonce.core.work.states import State
from mailonce.errors import MissingError
from mailonce.store.dialects.contract import Database, Tx
from mailonce.store.ledger import conflicts, copies, events, messages, origins
from mailonce.store.ledger.copies import NO_COPIES, Copies
from mailonce.store.ledger.events import LoggedEvent, LogPosition
from mailonce.store.work import pages
from mailonce.views.inbox_messages import find_message, known_message
from mailonce.views.origins import Origins, account_of, source_id, source_name
from mailonce.views.paging import Page, PageQuery
from mailonce.views.reread import Reread, read_again

# Each raw element costs reading an arrival again: a page with them is smaller than its limit.
RAW_ROWS_MAX = 100


class EventJson(TypedDict):
    """One thing that happened to one message for one recipient."""

    id: str
    key: str
    identity: str
    source: str
    source_name: str | None
    provider: str
    # The provider's own id of the event, as its first copy had it.
    provider_event_id: str | None
    type: str
    bounce: str | None
    # Why it was rejected before SMTP.
    reject: str | None
    message_id: str | None
    recipient: str | None
    occurred_at: str | None
    received_at: str
    # When the last delivery or handler was done; null while one is owed, or became a dead letter.
    processed_at: str | None
    reason: str | None
    # The class of mail that an unsubscribe is limited to.
    stream: str | None
    tags: list[str]
    metadata: dict[str, Any]
    url: str | None
    user_agent: str | None
    ip: str | None
    machine: bool | None
    # A bounce that came after the receiving server had accepted the mail.
    late: bool
    # False where the provider names candidates only.
    certain: bool
    copies: int
    recognised_by: list[str]
    conflict_with: str | None
    suspect: bool
    # Of an event that is shown by itself: how many of the newest 10,000 conflicts are about it.
    conflicts: NotRequired[int]
    raw: NotRequired[Any]
    # Of an `inbound` event that is shown by itself: the mail, where an inbox has it.
    message: NotRequired[dict[str, Any] | None]


async def list_events(
    database: Database,
    workspace: str,
    query: EventFilter,
    page: PageQuery,
    *,
    raw: bool = False,
    whole: bool = True,
) -> Page[EventJson]:
    """List events, newest first; with `raw`, also the elements they were read from.

    Unless it is `whole`, what a provider said of a mail that came in is left out: it has the mail.
    Raises: ParseError where the cursor or the limit is not as documented.
    """
    below = page.position(LogPosition, int, bytes)
    page = page.at_most(RAW_ROWS_MAX) if raw else page

    def work(
        tx: Tx,
    ) -> tuple[Origins, list[LoggedEvent], dict[bytes, Copies], dict[bytes, int | None]]:
        known = origins.of_workspace(tx, workspace)
        source, message_id = source_id(known, query.source), query.message_id
        if message_id is not None:
            account = account_of(known, source)
            message_id = messages.known_id(tx, workspace, message_id, account=account)
        wanted = replace(query, source=source, message_id=message_id)
        rows = events.page(tx, workspace, wanted, below=below, limit=page.limit + 1)
        kept = rows[: page.limit]
        return known, rows, copies.of_events(tx, kept), _processed(tx, workspace, kept)

    known, rows, repeats, done = await database.read(work)
    arrivals = [row.arrival for row in rows[: page.limit]] if raw else []
    again = await read_again(database, workspace, known, arrivals)

    def show(row: LoggedEvent) -> EventJson:
        event = event_json(row, known, repeats.get(row.id, NO_COPIES), done[row.id])
        return _with_raw(event, row, again, whole=whole) if raw else event

    return page.of(rows, show, lambda last: (last.day, last.id))


async def show_event(
    database: Database, workspace: str, event_id: str, *, whole: bool = True
) -> EventJson:
    """Show one event, with the element it was read from, and the mail that it is about.

    Unless it is `whole`, a mail is shown as a `reader` key may see it, and its element is left out.
    Raises: MissingError where this workspace has no such event.
    """
    id_ = private("evt", event_id)

    def work(tx: Tx) -> tuple[Origins, LoggedEvent | None, Copies, int | None, int]:
        row = events.get(tx, workspace, id_)
        repeats = {} if row is None else copies.of_events(tx, [row])
        done = {} if row is None else _processed(tx, workspace, [row])
        known = origins.of_workspace(tx, workspace)
        differing = conflicts.count_of(tx, workspace, id_)
        return known, row, repeats.get(id_, NO_COPIES), done.get(id_), differing

    known, row, repeats, done_ms, differing = await database.read(work)
    if row is None:
        raise MissingError(f"there is no event {event_id!r}, or it was pruned; see GET /v1/events")
    event = event_json(row, known, repeats, done_ms)
    event["conflicts"] = differing
    again = await read_again(database, workspace, known, [row.arrival])
    event = _with_raw(event, row, again, whole=whole)
    if row.type == EventType.INBOUND:
        message = await _message_of(database, workspace, event)
        if message is not None and not whole:
            message = await asyncio.to_thread(reader_view, message)
        event["message"] = message
    return event


async def _message_of(
    database: Database, workspace: str, event: EventJson
) -> dict[str, Any] | None:
    """Find the mail of an `inbound` event: one that was read here, or one that a hook tells of."""
    if event["identity"] != event["key"]:
        return await known_message(database, workspace, event["identity"])
    message_id, recipient = event["message_id"] or "", event["recipient"] or ""
    return await find_message(database, workspace, message_id, recipient)


def _with_raw(
    event: EventJson, row: LoggedEvent, again: Mapping[bytes, Reread], *, whole: bool
) -> EventJson:
    read = again.get(row.arrival)
    is_hidden = row.type == EventType.INBOUND and not whole
    event["raw"] = None if read is None or is_hidden else read.raw(row.position)
    return event


def _processed(tx: Tx, workspace: str, rows: Sequence[LoggedEvent]) -> dict[bytes, int | None]:
    """Say of each event when the last of its deliveries was done."""
    owed: dict[bytes, list[tuple[State, int | None]]] = {}
    pairs = [(row.received_ms, row.id) for row in rows]
    for delivery in pages.of_events(tx, workspace, pairs):
        owed.setdefault(delivery.event, []).append((State(delivery.state), delivery.done_ms))
    return {row.id: processed_ms(row.received_ms, owed.get(row.id, ())) for row in rows}


def event_json(
    row: LoggedEvent, known: Origins, repeats: Copies, processed_at_ms: int | None
) -> EventJson:
    """Write an event as the public contract has it, without its raw element."""
    detail: dict[str, Any] = orjson.loads(row.detail) if row.detail else {}
    event = shown(
        id_=row.id,
        key=row.key,
        source=row.source,
        account=row.account,
        type_=row.type,
        bounce=row.bounce,
        message_id=row.message_id,
        recipient=row.recipient,
        occurred_ms=row.occurred_ms,
        received_ms=row.received_ms,
        conflict_with=row.conflict_with,
        detail=detail,
    )
    del event["schema"]
    return cast(
        "EventJson",
        {
            **event,
            "processed_at": moment(processed_at_ms),
            "source_name": source_name(known, row.source),
            "copies": repeats.times,
            "recognised_by": list(repeats.recognised_by),
        },
    )
