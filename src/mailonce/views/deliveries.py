"""Deliveries as users see them: sent, pending, or given up."""

import asyncio
from base64 import b64encode
from collections.abc import Mapping
from dataclasses import replace
from typing import NamedTuple, NotRequired

from typing_extensions import TypedDict

from mailonce.core.access import Caller
from mailonce.core.deliveries.delivery import delivery_id, delivery_key_of
from mailonce.core.deliveries.rerun import RerunKind
from mailonce.core.deliveries.route import Route, RouteKind
from mailonce.core.ids import minted_ms, public
from mailonce.core.moment import moment
from mailonce.core.query import DeliveryFilter, EventFilter
from mailonce.core.work.states import State
from mailonce.errors import MissingError, ParseError
from mailonce.store.dialects.contract import Database, Tx
from mailonce.store.ledger import events, messages
from mailonce.store.work import pages
from mailonce.store.work.pages import Backlog, DeliveryPosition, StoredAttempt, StoredDelivery
from mailonce.views.paging import FOREIGN_CURSOR, Page, PageQuery
from mailonce.views.reader_body import body_for_reader, is_limited

_MS_BYTES = 6
# Deliveries about an address or a message are those of so many events, the newest ones.
EVENTS_MAX = 1_000
# And no more than a statement can name.
ABOUT_ROWS_MAX = 10_000

Routes = Mapping[str, Route]
# By route: when the next attempt is made at an endpoint that is down.
EndpointsDown = Mapping[str, int]
NONE_DOWN: EndpointsDown = {}
_ALL = DeliveryFilter()


class AttemptJson(TypedDict):
    """One try of a delivery, from 1."""

    attempt: int
    at: str
    latency_ms: int
    status: int | None
    error: str | None
    answer: str | None


class DeliveryJson(TypedDict):
    """One event for one route. `key` is the X-Idempotency-Key of each of its attempts."""

    id: str
    key: str
    route: str
    route_name: str | None
    event: str
    state: str
    lane: str
    # When its event was received; lists are by this time, and filters are, too.
    received_at: str
    # The same, or when the reprocessing began that made it.
    made_at: str
    due_at: str | None
    # When it is tried: not before it is due, nor before an endpoint that is down is tried again.
    # None where its route is off, was removed, or is read by its consumer.
    next_attempt_at: str | None
    # Whether it waits for an endpoint that is taken to be down. Then one delivery of the route is
    # tried at a time: this one at that time or later, since that attempt may be another's.
    endpoint_down: bool
    deadline_at: str
    done_at: str | None
    attempts: int
    redeliveries: int
    # The last redelivery that made it due; None also where its dead letter was retried since.
    redelivery: str | None
    reprocessing: str | None
    # Whether it was asked for again and has no outcome since: what `status` and `error` say is of
    # an attempt before that.
    redelivery_pending: bool
    status: int | None
    error: str | None
    # Its body was erased with its mail: it cannot be sent again.
    mail_deleted: bool
    # In lists, and where one is shown: whom the event is about; None also once that was pruned.
    recipient: NotRequired[str | None]
    # Only where one delivery is shown: the outcome of each attempt, and the bytes that are sent.
    history: NotRequired[list[AttemptJson]]
    body: NotRequired[str | None]


class BacklogJson(TypedDict):
    """How many deliveries of a route are pending, in progress or failed."""

    route: str
    route_name: str | None
    on: bool
    off_reason: str | None
    # Of a route with something pending: whether the endpoint is taken to be down, and when one
    # attempt is made then.
    endpoint_down: bool
    next_attempt_at: str | None
    pending: int
    in_progress: int
    failed: int
    oldest_at: str


class UndeliveredJson(Page[DeliveryJson]):
    """Everything pending, in progress or failed, oldest first, with the sums by route."""

    total: int
    oldest_at: str | None
    routes: list[BacklogJson]


class _Detail(NamedTuple):
    row: StoredDelivery
    recipient: str | None
    tries: list[StoredAttempt]
    body: bytes | None


async def list_deliveries(
    database: Database,
    workspace: str,
    routes: Routes,
    query: DeliveryFilter,
    page: PageQuery,
    *,
    down: EndpointsDown = NONE_DOWN,
) -> Page[DeliveryJson]:
    """List deliveries by the receipt of their events, newest first."""
    below = page.position(_position, bytes, bytes)

    def work(tx: Tx) -> tuple[list[StoredDelivery], dict[bytes, str | None]]:
        limit = page.limit + 1
        if query.recipient is None and query.message_id is None:
            rows = pages.page(tx, workspace, query, below=below, limit=limit)
        else:
            rows = deliveries_about(tx, workspace, query, below)[:limit]
        return rows, pages.recipients_of(tx, rows)

    rows, recipients = await database.read(work)
    return page.of(
        rows,
        lambda row: {**delivery_json(row, routes, down), "recipient": recipients.get(row.event)},
        _end,
    )


def deliveries_about(
    tx: Tx, workspace: str, query: DeliveryFilter, below: DeliveryPosition | None = None
) -> list[StoredDelivery]:
    """List the deliveries of the newest events about an address or a message, newest first."""
    message_id = query.message_id
    if message_id is not None:
        message_id = messages.known_id(tx, workspace, message_id, account=None)
    wanted = EventFilter(
        recipient=query.recipient,
        message_id=message_id,
        since_ms=query.since_ms,
        until_ms=query.until_ms,
    )
    log = events.page(tx, workspace, wanted, below=None, limit=EVENTS_MAX)
    owed = pages.of_events(tx, workspace, ((row.received_ms, row.id) for row in log))
    return sorted(
        (
            row
            for row in owed
            if query.route in {None, row.route}
            and query.state in {None, row.state}
            and query.event in {None, row.event}
            and (below is None or (row.made_ms, row.key) < below)
        ),
        key=lambda row: (row.made_ms, row.key),
        reverse=True,
    )[:ABOUT_ROWS_MAX]


async def show_delivery(
    database: Database,
    caller: Caller,
    routes: Routes,
    text: str,
    *,
    down: EndpointsDown = NONE_DOWN,
) -> DeliveryJson:
    """Show one delivery with its attempts and its body, as the caller may see it.

    Raises: MissingError where this workspace has none of that id.
    """
    key = delivery_key_of(text)

    def work(tx: Tx) -> _Detail | None:
        row = pages.get(tx, caller.workspace, key)
        if row is None:
            return None
        recipient = pages.recipients_of(tx, [row]).get(row.event)
        return _Detail(row, recipient, pages.attempts_of(tx, key), pages.body_of(tx, row))

    detail = await database.read(work)
    if detail is None:
        raise MissingError(f"there is no delivery {text[:80]!r}; see GET /v1/deliveries")
    row, recipient, tries, body = detail
    if body is not None and is_limited(caller):
        body = await asyncio.to_thread(body_for_reader, body)
    shown = delivery_json(row, routes, down)
    shown["recipient"] = recipient
    shown["history"] = [attempt_json(attempt) for attempt in tries]
    # An empty one was erased with its mail.
    shown["body"] = body.decode("utf-8", "replace") if body else None
    return shown


async def list_undelivered(
    database: Database,
    workspace: str,
    routes: Routes,
    page: PageQuery,
    *,
    query: DeliveryFilter = _ALL,
    down: EndpointsDown = NONE_DOWN,
) -> UndeliveredJson:
    """List everything that is pending, in progress or failed, of the route and state asked for.

    `down` has the routes whose endpoints are taken to be down, and when one attempt is made.
    """
    after = page.position(_position, bytes, bytes)

    def work(tx: Tx) -> tuple[list[Backlog], list[StoredDelivery], dict[bytes, str | None]]:
        wanted = query
        if query.recipient is not None or query.message_id is not None:
            about = deliveries_about(tx, workspace, query)
            wanted = replace(query, keys=tuple(row.key for row in about))
        rows = pages.undelivered(tx, workspace, wanted, after=after, limit=page.limit + 1)
        sums = pages.count_undelivered(tx, workspace, wanted)
        return sums, rows, pages.recipients_of(tx, rows)

    owed, rows, recipients = await database.read(work)
    return {
        "total": sum(attempt.times for attempt in owed),
        "oldest_at": moment(min((attempt.oldest_ms for attempt in owed), default=None)),
        "routes": _by_route(owed, routes, down),
        **page.of(
            rows,
            lambda row: {
                **delivery_json(row, routes, down),
                "recipient": recipients.get(row.event),
            },
            _end,
        ),
    }


def delivery_json(
    row: StoredDelivery, routes: Routes, down: EndpointsDown = NONE_DOWN
) -> DeliveryJson:
    route = routes.get(row.route)
    due_ms = row.due_ms if row.state is State.DUE else None
    next_ms = _next_attempt(due_ms, row.route, route, down)
    return {
        "id": delivery_id(row.key),
        "key": row.key.hex(),
        "route": row.route,
        "route_name": None if route is None else route.name,
        "event": public("evt", row.event),
        "state": row.state.public_name,
        "lane": row.lane.name.lower(),
        "received_at": moment(row.made_ms),
        "made_at": moment(made_ms_of(row)),
        "due_at": moment(due_ms),
        "next_attempt_at": moment(next_ms),
        "endpoint_down": next_ms is not None and row.route in down,
        "deadline_at": moment(row.deadline_ms),
        "done_at": moment(row.done_ms),
        "attempts": row.attempts,
        "redeliveries": row.redeliveries,
        "redelivery": _rerun_id(RerunKind.REDELIVERY, row.redelivery),
        "reprocessing": _rerun_id(RerunKind.REPROCESSING, row.reprocessing),
        "redelivery_pending": _is_redelivery_pending(row),
        "status": row.status,
        "error": row.error,
        "mail_deleted": row.is_erased,
    }


def _is_redelivery_pending(row: StoredDelivery) -> bool:
    # An attempt is counted when it begins.
    began = row.round_began + (row.state is State.LEASED)
    is_open = row.state in {State.DUE, State.LEASED}
    return is_open and row.redeliveries > 0 and row.attempts == began


def made_ms_of(row: StoredDelivery) -> int:
    """Say when a delivery was made: with its event, or by a reprocessing."""
    # A row has the time of its event's receipt, whenever it was made.
    return row.made_ms if row.reprocessing is None else minted_ms(row.reprocessing)


def _rerun_id(kind: RerunKind, id_: bytes | None) -> str | None:
    return None if id_ is None else public(kind.prefix, id_)


def _next_attempt(
    due_ms: int | None, id_: str, route: Route | None, down: EndpointsDown
) -> int | None:
    """Say when a delivery is tried; None: not by itself, as long as its route stays as it is."""
    if due_ms is None or not _sends_by_itself(route):
        return None
    return max(due_ms, down.get(id_, due_ms))


def _sends_by_itself(route: Route | None) -> bool:
    """Say whether a route is there, on, and not read by its consumer."""
    return route is not None and route.off is None and route.kind is not RouteKind.POLL


def _add_next_attempt(backlog: BacklogJson, route: Route | None, down: EndpointsDown) -> None:
    """Say of a route with something pending whether its endpoint is down, and when it is asked."""
    next_ms = down.get(backlog["route"])
    if backlog["pending"] and next_ms is not None and _sends_by_itself(route):
        backlog |= {"endpoint_down": True, "next_attempt_at": moment(next_ms)}


def attempt_json(attempt: StoredAttempt) -> AttemptJson:
    """Write an attempt, with the stored part of the endpoint's answer."""
    return {
        "attempt": attempt.attempt,
        "at": moment(attempt.at_ms),
        "latency_ms": attempt.latency_ms,
        "status": attempt.status,
        "error": attempt.error,
        "answer": None if attempt.answer is None else _text(bytes(attempt.answer)),
    }


def _by_route(owed: list[Backlog], routes: Routes, down: EndpointsDown) -> list[BacklogJson]:
    shown: dict[str, BacklogJson] = {}
    for group in sorted(owed, key=lambda group: group.oldest_ms):
        route = routes.get(group.route)
        counts = shown.setdefault(
            group.route,
            {
                "route": group.route,
                "route_name": None if route is None else route.name,
                "on": route is not None and route.off is None,
                "off_reason": None if route is None else route.off,
                "endpoint_down": False,
                "next_attempt_at": None,
                "pending": 0,
                "in_progress": 0,
                "failed": 0,
                "oldest_at": moment(group.oldest_ms),
            },
        )
        match group.state:
            case State.DUE:
                counts["pending"] += group.times
            case State.LEASED:
                counts["in_progress"] += group.times
            case State.DEAD:
                counts["failed"] += group.times
            case State.DONE:
                pass
    for id_, backlog in shown.items():
        _add_next_attempt(backlog, routes.get(id_), down)
    return list(shown.values())


def _text(raw: bytes) -> str:
    try:
        return raw.decode()
    except UnicodeDecodeError:
        return f"base64:{b64encode(raw).decode()}"


def _end(last: StoredDelivery) -> tuple[bytes, bytes]:
    return last.made_ms.to_bytes(_MS_BYTES, "big"), last.key


def _position(made: bytes, key: bytes) -> DeliveryPosition:
    if len(made) != _MS_BYTES:
        raise ParseError(FOREIGN_CURSOR)
    return DeliveryPosition(int.from_bytes(made, "big"), key)
