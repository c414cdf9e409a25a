"""The timeline of a message: its send, events, deliveries, and the mail that answers it, in order.

A mail that we sent is known by two ids: the provider's, which its events carry, and our own
Message-ID, which an answer or a bounce refers to. Both are one message here.
"""

from collections.abc import Iterable, Mapping, Sequence
from itertools import groupby
from typing import Any, NamedTuple, cast

import orjson
from typing_extensions import TypedDict

from mailonce.core.deliveries.delivery import is_suspect
from mailonce.core.events.event import EventType
from mailonce.core.ids import minted_ms, public
from mailonce.core.mail.message_ids import read_message_id, thread_of
from mailonce.core.moment import moment
from mailonce.core.sends.dev_sender import find_dev_sender
from mailonce.core.sends.mail_content import own_message_id, read_content
from mailonce.core.sends.send_key import uuid_text
from mailonce.core.sends.sender import Sender
from mailonce.core.work.states import State
from mailonce.store.dialects.contract import Tx
from mailonce.store.inboxes import messages as inbox_messages
from mailonce.store.inboxes.messages import ThreadMessage
from mailonce.store.ledger import copies, dead_letters, events, messages
from mailonce.store.ledger.copies import NO_COPIES, Copies
from mailonce.store.ledger.dead_letters import StoredDismissal
from mailonce.store.ledger.events import LoggedEvent
from mailonce.store.sends import pages as send_pages
from mailonce.store.sends.pages import StoredSend
from mailonce.store.work import pages
from mailonce.store.work.pages import FirstSuccess, StoredDelivery
from mailonce.views.deliveries import (
    NONE_DOWN,
    EndpointsDown,
    Routes,
    delivery_json,
    made_ms_of,
)
from mailonce.views.origins import Origins, source_name

TIMELINE_ROWS_MAX = 1_000
THREAD_ROWS_MAX = 200

Senders = Mapping[str, Sender]
NO_SENDERS: Senders = {}

_RANKS = {type_.value: rank for rank, type_ in enumerate(EventType)}
# At the same moment: an event before the mail that answers it.
_EVENT, _MESSAGE = 0, 1


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
    # As in GET /v1/deliveries.
    redelivery: str | None
    reprocessing: str | None
    redelivery_pending: bool
    status: int | None
    error: str | None
    made_at: str
    # When it was delivered for the first time: before `done_at` where it was redelivered.
    first_delivered_at: str | None
    done_at: str | None
    # Of one that has not ended: when it was made, or made due again.
    pending_since: str | None
    # Of one that is pending: when it is tried; None where its route is off, removed or polled.
    next_attempt_at: str | None
    route_on: bool
    endpoint_down: bool
    # Of one that failed: when a person dismissed it, and why.
    dismissed_at: str | None
    dismissed_because: str | None


class SendEntryJson(TypedDict):
    """The send of a mail in its timeline, before all events."""

    kind: str
    id: str
    key: str
    state: str
    # Why it was not accepted; what was suppressed has its cause here.
    reason: str | None
    # None where the words were forgotten.
    subject: str | None
    sender: str
    sender_name: str | None
    calls: int
    created_at: str
    settled_at: str | None


class MessageEntryJson(TypedDict):
    """Mail in an inbox; `relation`: `reply`, `report` (a bounce), or `received` (it itself)."""

    kind: str
    id: str
    relation: str
    inbox: str
    from_address: str
    subject: str
    received_at: str


EntryJson = SendEntryJson | TimelineJson | DeliveryEntryJson | MessageEntryJson


class SendThread(NamedTuple):
    """A send, and the mail in inboxes that belongs to it."""

    send: StoredSend
    # Our own Message-ID, without brackets; None where the words were forgotten.
    own_id: str | None
    subject: str | None
    messages: list[ThreadMessage]
    # The events about our own id, whichever account knows them.
    log: list[LoggedEvent]


class KnownDeliveries(NamedTuple):
    """What stands beside events in a timeline."""

    copies: dict[bytes, Copies]
    # Of each event.
    deliveries: dict[bytes, list[StoredDelivery]]
    # By delivery.
    dismissals: dict[bytes, StoredDismissal]
    # Of each that was sent again.
    first_successes: dict[bytes, FirstSuccess]
    routes: Routes
    origins: Origins
    senders: Senders
    # The routes whose endpoints are down, and when the next attempt is.
    down: EndpointsDown


def read_thread(tx: Tx, send: StoredSend, *, shows_mail: bool = True) -> SendThread:
    """Read what belongs to a send beside its provider's events; mail only where it may be shown."""
    content = send_pages.content_of(tx, send.content)
    if content is None:
        return SendThread(send, None, None, [], [])
    mail = read_content(content)
    own_id = own_message_id(mail, uuid_text(send.key)).strip("<>")
    log: list[LoggedEvent] = []
    for spelling in (own_id, f"<{own_id}>"):
        for account in messages.accounts_of(tx, send.workspace, spelling):
            log += events.of_message(
                tx, send.workspace, spelling, account=account, recipient=send.recipient,
                limit=TIMELINE_ROWS_MAX,
            )  # fmt: skip
    if not shows_mail:
        return SendThread(send, own_id, mail.subject, [], log)
    thread = _thread(own_id, mail.headers)
    candidates = inbox_messages.of_thread(
        tx, send.workspace, thread, mails=[event.arrival for event in log], limit=THREAD_ROWS_MAX
    )
    mails = [one for one in candidates if _is_about(one, own_id, log)]
    return SendThread(send, own_id, mail.subject, mails, log)


def read_deliveries(
    tx: Tx,
    workspace: str,
    log: Sequence[LoggedEvent],
    routes: Routes,
    origins: Origins,
    *,
    senders: Senders = NO_SENDERS,
    down: EndpointsDown = NONE_DOWN,
) -> KnownDeliveries:
    """Read how often each event came, and to whom it was delivered."""
    owed = pages.of_events(tx, workspace, ((row.received_ms, row.id) for row in log))
    by_event = {
        event: list(some)
        for event, some in groupby(
            sorted(owed, key=lambda row: (row.event, row.route, row.key)),
            key=lambda row: row.event,
        )
    }
    failed = [row.key for row in owed if row.state is State.DEAD]
    dismissals = dead_letters.dismissals_of(tx, failed)
    first = pages.first_successes(tx, [row.key for row in owed if row.redeliveries])
    repeats = copies.of_events(tx, log)
    return KnownDeliveries(repeats, by_event, dismissals, first, routes, origins, senders, down)


def timeline_of(
    log: Iterable[LoggedEvent], known: KnownDeliveries, threads: Sequence[SendThread] = ()
) -> list[EntryJson]:
    """Put all that happened into one order: sends, then the rest by its own time.

    The order of arrival does not show. Many providers tell whole seconds: within one, a mail is
    delivered before it is opened; and nothing comes before the send that it is about.
    """
    entries: list[EntryJson] = [send_entry(thread, known.senders) for thread in threads]
    first_ms = min((thread.send.made_ms for thread in threads), default=0)
    timed: list[tuple[tuple[int, int, int, bytes], list[EntryJson]]] = []
    for row in {row.id: row for row in log}.values():
        place = (max(_timeline_ms(row), first_ms), _EVENT, _RANKS.get(row.type, 0), row.key)
        deliveries = [_delivery_entry(one, known) for one in known.deliveries.get(row.id, ())]
        deliveries.sort(key=_began_at)
        timed.append((place, [_event_entry(row, known), *deliveries]))
    for thread in threads:
        for mail in thread.messages:
            entry = _message_entry(mail, thread)
            timed.append(((mail.accepted_ms, _MESSAGE, 0, mail.id.encode()), [entry]))
    for _, some in sorted(timed, key=lambda one: one[0]):
        entries += some
    return entries


def send_entry(thread: SendThread, senders: Senders) -> SendEntryJson:
    """Show a send in a timeline."""
    row = thread.send
    return {
        "kind": "send",
        "id": public("snd", row.id),
        "key": row.send_key,
        "state": row.send_state.word,
        "reason": row.error,
        "subject": thread.subject,
        "sender": row.sender,
        "sender_name": sender_name(senders, row.sender),
        "calls": row.tries,
        "created_at": moment(row.made_ms),
        "settled_at": moment(row.done_ms),
    }


def sender_name(senders: Senders, id_: str) -> str | None:
    """Name a sender; None where it was deleted."""
    sender = senders.get(id_) or find_dev_sender(id_)
    return None if sender is None else sender.name


def _thread(own_id: str, headers: Iterable[tuple[str, str]]) -> str:
    """Name the conversation that a mail began, or that its own headers say it belongs to."""
    named = {name.lower(): value for name, value in headers}
    roots = [
        one
        for name in ("references", "in-reply-to")
        if (one := read_message_id(named.get(name))) is not None
    ]
    return thread_of(own_id, tuple(roots), ()) or ""


def _is_about(mail: ThreadMessage, own_id: str, log: Sequence[LoggedEvent]) -> bool:
    """Say whether a mail of the conversation is this one, answers it, or reports on it."""
    if mail.message_id == own_id or mail.mail in {event.arrival for event in log}:
        return True
    document = orjson.loads(mail.document)
    refers = {*document["in_reply_to"], *document["references"], document["about_message_id"]}
    return own_id in refers


def _message_entry(mail: ThreadMessage, thread: SendThread) -> MessageEntryJson:
    relation = "reply"
    if mail.message_id == thread.own_id:
        relation = "received"
    elif mail.mail in {event.arrival for event in thread.log}:
        relation = "report"
    return {
        "kind": "message",
        "id": mail.id,
        "relation": relation,
        "inbox": mail.inbox,
        "from_address": mail.sender,
        "subject": mail.subject,
        "received_at": moment(mail.accepted_ms),
    }


def _timeline_ms(row: LoggedEvent) -> int:
    if row.occurred_ms is None or is_suspect(row.occurred_ms, row.received_ms):
        return row.received_ms
    return row.occurred_ms


def _began_at(entry: DeliveryEntryJson) -> str:
    """Place a delivery among those of its event; times of this form sort as text."""
    return (
        entry["first_delivered_at"]
        or entry["done_at"]
        or entry["pending_since"]
        or entry["made_at"]
    )


def _first_delivered_ms(row: StoredDelivery, first: FirstSuccess | None) -> int | None:
    is_done = row.state is State.DONE
    if not row.redeliveries or (is_done and (first is None or first.attempt == row.attempts)):
        return row.done_ms if is_done else None
    return None if first is None else first.ended_ms


def _delivery_entry(row: StoredDelivery, known: KnownDeliveries) -> DeliveryEntryJson:
    route = known.routes.get(row.route)
    dismissal = known.dismissals.get(row.key)
    first_ms = _first_delivered_ms(row, known.first_successes.get(row.key))
    again_ms = None if row.redelivery is None else minted_ms(row.redelivery)
    since_ms = max(made_ms_of(row), again_ms or 0, first_ms or 0)
    is_open = row.state in {State.DUE, State.LEASED}
    whole = {
        "kind": "delivery",
        **delivery_json(row, known.routes, known.down),
        "first_delivered_at": moment(first_ms),
        "pending_since": moment(since_ms if is_open else None),
        "route_on": route is not None and route.off is None,
        "dismissed_at": None if dismissal is None else moment(dismissal.at_ms),
        "dismissed_because": None if dismissal is None else dismissal.because,
    }
    return cast(
        "DeliveryEntryJson", {name: whole[name] for name in DeliveryEntryJson.__annotations__}
    )


def _event_entry(row: LoggedEvent, known: KnownDeliveries) -> TimelineJson:
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
