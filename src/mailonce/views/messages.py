"""A message as users see it: status, facts and timeline of each recipient."""

from collections.abc import Iterable, Sequence
from itertools import groupby
from typing import Any, NamedTuple, NotRequired, cast

import orjson
from typing_extensions import TypedDict

from mailonce import providers
from mailonce.core.deliveries.delivery import is_suspect
from mailonce.core.events.event import EventType
from mailonce.core.events.facts import (
    IMPLY_DELIVERED,
    RANKED,
    TYPE_OF_KIND,
    Fact,
    Kind,
    join,
    status,
)
from mailonce.core.ids import public
from mailonce.core.ledger.entry import FactRow
from mailonce.core.moment import moment
from mailonce.errors import ClashError, MissingError
from mailonce.store.dialects.contract import Database, Tx
from mailonce.store.ledger import events, messages, origins
from mailonce.store.ledger.events import NO_COPIES, Copies, LoggedEvent
from mailonce.store.sends import pages as send_pages
from mailonce.store.sends.pages import StoredSend
from mailonce.store.work import pages
from mailonce.store.work.pages import StoredDelivery
from mailonce.views.deliveries import Routes, delivery_json
from mailonce.views.moments import moment_of
from mailonce.views.origins import Origins, account_of, source_name

FACT_ROWS_MAX = 5_000
TIMELINE_ROWS_MAX = 1_000

_NO_ROUTES: Routes = {}
_CLASSED = frozenset({EventType.BOUNCED, EventType.REJECTED})
_RANKS = {type_.value: rank for rank, type_ in enumerate(EventType)}


class FactJson(TypedDict):
    """When a type of event first and last happened; null where no copy had a usable time."""

    first: str | None
    last: str | None
    # Of bounces and rejections: which classes came, by rank.
    classes: NotRequired[list[str]]


class TimelineJson(TypedDict):
    """One entry of a timeline."""

    kind: str
    id: str
    type: str
    bounce: str | None
    occurred_at: str | None
    received_at: str
    reason: str | None
    url: str | None
    source: str
    source_name: str | None
    copies: int
    conflict_with: str | None
    suspect: bool


class DeliveryEntryJson(TypedDict):
    """A delivery in a timeline, after the event that it delivers."""

    kind: str
    id: str
    event: str
    route: str
    route_name: str | None
    state: str
    attempts: int
    redeliveries: int
    status: int | None
    error: str | None
    made_at: str
    done_at: str | None


class SendEntryJson(TypedDict):
    """The send of a mail in its timeline, before all events."""

    kind: str
    id: str
    key: str
    state: str
    sender: str
    calls: int
    created_at: str
    settled_at: str | None


EntryJson = SendEntryJson | TimelineJson | DeliveryEntryJson


class FactsJson(TypedDict):
    """What is known of a message where no recipient was named."""

    status: str | None
    engagement: str | None
    facts: dict[str, FactJson]
    counts: dict[str, int]
    delivered_inferred: bool
    timeline: list[EntryJson]


class RecipientJson(FactsJson):
    """What is known of a message for one recipient."""

    recipient: str


class MessageJson(TypedDict):
    """A message; `truncated` where it has more recipients or events than one answer holds."""

    message_id: str
    account: str
    recipients: list[RecipientJson]
    message_facts: NotRequired[FactsJson]
    truncated: bool


class _KnownEvents(NamedTuple):
    message_id: str
    account: str
    origins: Origins
    facts: list[FactRow]
    log: list[LoggedEvent]
    copies: dict[bytes, Copies]
    # Of each event.
    deliveries: dict[bytes, list[StoredDelivery]]
    routes: Routes
    # By recipient.
    sends: dict[str, list[StoredSend]]


async def show_message(
    database: Database,
    workspace: str,
    message_id: str,
    *,
    routes: Routes = _NO_ROUTES,
    source: str | None = None,
    recipient: str | None = None,
) -> MessageJson:
    """Show a message with its recipients, or one of them; `routes` give the names of routes.

    Its id is known with and without angle brackets; a mail that we sent has our own as well.

    Raises: MissingError where nothing is known of it, ClashError where two accounts know a
    message of this id and `source` does not say which is meant.
    """

    def work(tx: Tx) -> _KnownEvents:
        known = origins.of_workspace(tx, workspace)
        account = account_of(known, source)
        sent = send_pages.of_message(tx, workspace, message_id, recipient=recipient)
        # Its events have the id that the provider gave it.
        given = next((row.message_id for row in sent if row.message_id), message_id)
        id_ = messages.known_id(tx, workspace, given, account=account)
        sends = {one: list(some) for one, some in groupby(sent, key=lambda row: row.recipient)}
        accounts = messages.accounts_of(tx, workspace, id_)
        if sends and not accounts:
            return _KnownEvents(id_, "", known, [], [], {}, {}, routes, sends)
        account = _account(accounts, known, source, message_id)
        facts = messages.facts_of(
            tx, workspace, id_, account=account, recipient=recipient, limit=FACT_ROWS_MAX + 1
        )
        log = events.of_message(
            tx,
            workspace,
            id_,
            account=account,
            recipient=recipient,
            limit=TIMELINE_ROWS_MAX + 1,
        )
        owed = pages.of_events(tx, workspace, ((row.received_ms, row.id) for row in log))
        by_event = {
            event: list(some)
            for event, some in groupby(
                sorted(owed, key=lambda row: (row.event, row.route, row.key)),
                key=lambda row: row.event,
            )
        }
        copies = events.copies_of(tx, log)
        return _KnownEvents(id_, account, known, facts, log, copies, by_event, routes, sends)

    return _message_json(await database.read(work))


def _account(accounts: Sequence[str], known: Origins, source: str | None, message_id: str) -> str:
    """Choose the account whose message is meant."""
    if source is not None:
        accounts = [account for account in accounts if account == account_of(known, source)]
    if not accounts:
        raise MissingError(
            f"nothing is known of a message {message_id[:200]!r}; see GET /v1/events"
        )
    if len(accounts) > 1:
        names = sorted(row.name for row in known.values() if providers.account_of(row) in accounts)
        raise ClashError(
            f"{len(accounts)} accounts know a message of this id; "
            f"add ?source= with one of {', '.join(names)}"
        )
    return accounts[0]


def _message_json(known: _KnownEvents) -> MessageJson:
    facts, log = known.facts[:FACT_ROWS_MAX], known.log[:TIMELINE_ROWS_MAX]
    timelines: dict[str, list[LoggedEvent]] = {}
    for event in log:
        timelines.setdefault(event.recipient, []).append(event)
    shown: MessageJson = {
        "message_id": known.message_id,
        "account": known.account,
        "recipients": [],
        "truncated": len(facts) < len(known.facts) or len(log) < len(known.log),
    }
    for recipient, rows in groupby(facts, key=lambda row: row.recipient):
        sent = known.sends.pop(recipient, [])
        timeline = [*map(_send_json, sent), *_timeline(timelines.get(recipient, []), known)]
        facts_json = _facts_json(list(rows), timeline)
        if recipient:
            shown["recipients"].append({"recipient": recipient, **facts_json})
        else:
            shown["message_facts"] = facts_json
    for recipient, sent in known.sends.items():
        # Nothing was told of it yet.
        alone = _facts_json([], [_send_json(row) for row in sent])
        shown["recipients"].append({"recipient": recipient, **alone})
    return shown


def _send_json(row: StoredSend) -> SendEntryJson:
    return {
        "kind": "send",
        "id": public("snd", row.id),
        "key": row.send_key,
        "state": row.send_state.word,
        "sender": row.sender,
        "calls": row.tries,
        "created_at": moment(row.made_ms),
        "settled_at": moment(row.done_ms),
    }


def _facts_json(rows: Sequence[FactRow], timeline: list[EntryJson]) -> FactsJson:
    kinds = {row.kind for row in rows}
    facts: dict[str, FactJson] = {}
    counts: dict[str, int] = {}
    for type_, some in groupby(
        sorted(rows, key=lambda row: (TYPE_OF_KIND[row.kind], row.kind)),
        key=lambda row: TYPE_OF_KIND[row.kind],
    ):
        same_type = list(some)
        fact = _joined(same_type)
        facts[type_.value] = {"first": moment_of(fact.first), "last": moment_of(fact.last)}
        counts[type_.value] = fact.count
        if type_ in _CLASSED:
            own = {row.kind for row in same_type}
            facts[type_.value]["classes"] = [kind.name.lower() for kind in RANKED if kind in own]
    return {
        "status": status(kinds),
        "engagement": _engagement(kinds),
        "facts": facts,
        "counts": counts,
        "delivered_inferred": Kind.DELIVERED not in kinds and bool(kinds & IMPLY_DELIVERED),
        "timeline": timeline,
    }


def _joined(rows: Iterable[FactRow]) -> Fact:
    joined = Fact(0, None, None)
    for row in rows:
        joined = join(joined, Fact(row.times, row.first, row.last))
    return joined


def _engagement(kinds: set[Kind]) -> str | None:
    highest = max(kinds & {Kind.OPENED, Kind.CLICKED}, default=None)
    return None if highest is None else highest.name.lower()


def _timeline(log: Iterable[LoggedEvent], known: _KnownEvents) -> list[EntryJson]:
    # By the events' own times, so that the order of arrival does not show. Many
    # providers tell whole seconds: within one, a mail is delivered before it is opened.
    ordered = sorted(log, key=lambda row: (_timeline_ms(row), _RANKS.get(row.type, 0), row.key))
    timeline: list[EntryJson] = []
    for row in ordered:
        timeline.append(_entry_json(row, known))
        timeline += [_delivery_json(one, known) for one in known.deliveries.get(row.id, ())]
    return timeline


def _timeline_ms(row: LoggedEvent) -> int:
    if row.occurred_ms is None or is_suspect(row.occurred_ms, row.received_ms):
        return row.received_ms
    return row.occurred_ms


def _delivery_json(row: StoredDelivery, known: _KnownEvents) -> DeliveryEntryJson:
    whole = {"kind": "delivery", **delivery_json(row, known.routes)}
    return cast(
        "DeliveryEntryJson", {name: whole[name] for name in DeliveryEntryJson.__annotations__}
    )


def _entry_json(row: LoggedEvent, known: _KnownEvents) -> TimelineJson:
    detail: dict[str, Any] = orjson.loads(row.detail) if row.detail else {}
    return {
        "kind": "event",
        "id": public("evt", row.id),
        "type": row.type,
        "bounce": row.bounce,
        "occurred_at": moment(row.occurred_ms),
        "received_at": moment(row.received_ms),
        "reason": detail.get("reason"),
        "url": detail.get("url"),
        "source": row.source,
        "source_name": source_name(known.origins, row.source),
        "copies": known.copies.get(row.id, NO_COPIES).times,
        "conflict_with": None if row.conflict_with is None else public("evt", row.conflict_with),
        "suspect": is_suspect(row.occurred_ms, row.received_ms),
    }
