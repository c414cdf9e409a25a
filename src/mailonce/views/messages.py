"""A message as users see it: status, facts and timeline of each recipient."""

import re
from collections.abc import Iterable, Sequence
from itertools import groupby
from typing import NamedTuple, NotRequired

from typing_extensions import TypedDict

from mailonce import providers
from mailonce.core.arrivals.source import SMTP_ACCOUNT
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
from mailonce.core.ids import private
from mailonce.core.ledger.entry import FactRow
from mailonce.errors import ClashError, MissingError
from mailonce.store.dialects.contract import Database, Tx
from mailonce.store.inboxes.messages import ThreadMessage
from mailonce.store.ledger import events, messages, origins
from mailonce.store.ledger.events import LoggedEvent
from mailonce.store.sends import pages as send_pages
from mailonce.store.sends.pages import StoredSend
from mailonce.views.deliveries import NONE_DOWN, EndpointsDown, Routes
from mailonce.views.inbox_mails import (
    InboxMailJson,
    events_of_mails,
    facts_of_events,
    find_mails,
    mail_json,
)
from mailonce.views.moments import moment_of
from mailonce.views.origins import Origins, account_of
from mailonce.views.timelines import (
    NO_SENDERS,
    TIMELINE_ROWS_MAX,
    EntryJson,
    KnownDeliveries,
    Senders,
    SendThread,
    read_deliveries,
    read_thread,
    timeline_of,
)

FACT_ROWS_MAX = 5_000

_NO_ROUTES: Routes = {}
_SEND_ID = re.compile(r"snd_[0-9a-f]{32}")
_CLASSED = frozenset({EventType.BOUNCED, EventType.REJECTED})


class FactJson(TypedDict):
    """When a type of event first and last happened; null where no copy had a usable time."""

    first: str | None
    last: str | None
    # Of bounces and rejections: which classes came, by rank.
    classes: NotRequired[list[str]]


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
    """A message; `truncated` where it has more recipients or events than one answer holds.

    `mails` are its copies in inboxes, the newest first; none where they were deleted.
    """

    message_id: str
    account: str
    mails: list[InboxMailJson]
    recipients: list[RecipientJson]
    message_facts: NotRequired[FactsJson]
    truncated: bool


class _KnownEvents(NamedTuple):
    message_id: str
    account: str
    facts: list[FactRow]
    log: list[LoggedEvent]
    mails: list[ThreadMessage]
    beside: KnownDeliveries
    # By recipient.
    threads: dict[str, list[SendThread]]


async def show_message(
    database: Database,
    workspace: str,
    message_id: str,
    *,
    routes: Routes = _NO_ROUTES,
    senders: Senders = NO_SENDERS,
    down: EndpointsDown = NONE_DOWN,
    source: str | None = None,
    recipient: str | None = None,
) -> MessageJson:
    """Show a message with its recipients, or one of them; `routes` and `senders` give names.

    Its id is known with and without angle brackets; a mail that we sent has our own as well, and
    the id of its send, and one that an inbox took has the Message-ID of its header.

    Raises: MissingError where nothing is known of it, ClashError where two accounts know a
    message of this id and `source` does not say which is meant.
    """

    def work(tx: Tx) -> _KnownEvents:
        known = origins.of_workspace(tx, workspace)
        account = account_of(known, source)
        sent = _sends_of(tx, workspace, message_id, recipient)
        # Its events have the id that the provider gave it.
        given = next((row.message_id for row in sent if row.message_id), message_id)
        id_ = messages.known_id(tx, workspace, given, account=account)
        threads = {
            one: [read_thread(tx, row) for row in some]
            for one, some in groupby(sent, key=lambda row: row.recipient)
        }
        accounts = messages.accounts_of(tx, workspace, id_)
        mails = find_mails(tx, workspace, id_, recipient)
        facts: list[FactRow] = []
        log: list[LoggedEvent] = []
        if mails and source is None and not accounts and not threads:
            # In each inbox it is a message of its own.
            log = events_of_mails(tx, workspace, mails)[:TIMELINE_ROWS_MAX]
            facts = facts_of_events(tx, workspace, log)
        elif accounts or not threads:
            if source is None:
                # What a bounce in an inbox says stands beside what the provider says.
                accounts = [one for one in accounts if one != SMTP_ACCOUNT] or accounts
            account = _account(accounts, known, source, message_id)
            facts = messages.facts_of(
                tx, workspace, id_, account=account, recipient=recipient, limit=FACT_ROWS_MAX + 1
            )
            log = events.of_message(
                tx, workspace, id_, account=account, recipient=recipient,
                limit=TIMELINE_ROWS_MAX + 1,
            )  # fmt: skip
        all_of_it = [*log, *(row for some in threads.values() for one in some for row in one.log)]
        beside = read_deliveries(
            tx, workspace, all_of_it, routes, known, senders=senders, down=down
        )
        return _KnownEvents(id_, account or "", facts, log, mails, beside, threads)

    return _message_json(await database.read(work))


def _sends_of(tx: Tx, workspace: str, message_id: str, recipient: str | None) -> list[StoredSend]:
    if _SEND_ID.fullmatch(message_id):
        send = send_pages.get(tx, workspace, private("snd", message_id))
        return [send] if send is not None and recipient in {None, send.recipient} else []
    return send_pages.of_message(tx, workspace, message_id, recipient=recipient)


def _account(accounts: Sequence[str], known: Origins, source: str | None, message_id: str) -> str:
    """Choose the account whose message is meant."""
    if source is not None:
        accounts = [account for account in accounts if account == account_of(known, source)]
    if not accounts:
        raise MissingError(f"message {message_id[:200]!r} not found; see GET /v1/events")
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
        "mails": [mail_json(one) for one in known.mails],
        "recipients": [],
        "truncated": len(facts) < len(known.facts) or len(log) < len(known.log),
    }
    for recipient, rows in groupby(facts, key=lambda row: row.recipient):
        threads = known.threads.pop(recipient, [])
        of_both = [*timelines.get(recipient, []), *(row for one in threads for row in one.log)]
        facts_json = _facts_json(list(rows), timeline_of(of_both, known.beside, threads))
        if recipient:
            shown["recipients"].append({"recipient": recipient, **facts_json})
        else:
            shown["message_facts"] = facts_json
    for recipient, threads in known.threads.items():
        # Its provider has told nothing of it yet.
        log = [row for one in threads for row in one.log]
        alone = _facts_json([], timeline_of(log, known.beside, threads))
        shown["recipients"].append({"recipient": recipient, **alone})
    return shown


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
