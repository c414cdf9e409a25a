"""Inboxes and mail domains as users see them."""

from collections.abc import Sequence
from typing import Any, NotRequired

from typing_extensions import TypedDict

from mailonce.core.ids import public
from mailonce.core.inboxes.inbox import Inbox
from mailonce.core.mail.incoming import read_facts
from mailonce.core.moment import moment
from mailonce.store.dialects.contract import Database, Tx
from mailonce.store.inboxes import inboxes, pending_mails, refusals, unmatched
from mailonce.store.inboxes.domains import MailDomain
from mailonce.store.inboxes.inboxes import InboxPosition, OldAddress
from mailonce.store.inboxes.purge import PurgeCounts
from mailonce.store.inboxes.refusals import RefusedMail
from mailonce.store.inboxes.unmatched import UnmatchedMail
from mailonce.views.paging import Page, PageQuery, cursor_of, cut, place_of

MINUTE_MS = 60_000
REFUSALS_MAX = 100


class FormerAddressJson(TypedDict):
    """An address that an inbox had; until then it takes mail, later it refuses."""

    address: str
    until: str


class InboxJson(TypedDict):
    """An inbox; `seq` is the last number that it gave, `mails` and `bytes` what it holds now."""

    id: str
    address: str
    created_at: str
    expires_at: str | None
    metadata: dict[str, Any]
    seq: int
    mails: int
    bytes: int
    mails_max: int
    bytes_max: int
    former_addresses: list[FormerAddressJson]


class RefusedMailJson(TypedDict):
    """Mail that was refused to an address for one reason, and how often."""

    address: str
    reason: str
    code: int
    times: int
    # To the minute.
    first_at: str
    last_at: str


class PendingMailsJson(TypedDict):
    """Mails that arrived and were not read yet, when the first came, and what is in the way."""

    mails: int
    oldest_at: str | None
    last_error: str | None


class ShownInboxJson(InboxJson):
    """An inbox, what it holds unread, since when an SMTP door listens, and what was refused."""

    pending: PendingMailsJson
    listening_since: str | None
    refused: list[RefusedMailJson]


class DomainJson(TypedDict):
    """A mail domain; the built-in one is for a first try."""

    domain: str
    origin: str
    created_at: str


class DeletionJson(TypedDict):
    """What a deletion deleted; where it is not complete, the server goes on with it by itself."""

    complete: bool
    inboxes: int
    addresses: int
    mails: int
    messages: int
    attachments: int
    refusals: int
    # Bytes that no other inbox has.
    blobs: int
    bytes: int
    # Deliveries to routes that keep their row and lost their body; providers' posts likewise.
    deliveries: int
    posts: int
    # Of several: those that are not there.
    missing: NotRequired[list[str]]


class UnmatchedJson(TypedDict):
    """A mail that no inbox took; `inbox` is one that was deleted before the mail came."""

    id: str
    received_at: str
    source: str
    inbox: str | None
    mail_from: str | None
    recipients: list[str]
    bytes: int
    format: str


async def list_inboxes(
    database: Database, workspace: str, page: PageQuery, *, now_ms: int
) -> Page[InboxJson]:
    """List inboxes, the newest first."""
    after = None
    if page.cursor is not None:
        created, id_ = place_of(page.cursor, str, str)
        after = InboxPosition(int(created) if created.isdecimal() else 0, id_)

    def work(tx: Tx) -> tuple[list[Inbox], list[OldAddress]]:
        rows = inboxes.page(tx, workspace, after=after, limit=page.limit + 1, now_ms=now_ms)
        return rows, inboxes.old_addresses(tx, [one.id for one in rows])

    rows, old = await database.read(work)
    kept, last = cut(rows, page.limit)
    # As text: the number of milliseconds is larger than what other lists have in their cursors.
    following = None if last is None else cursor_of(str(last.created_ms), last.id)
    return {"data": inboxes_json(kept, old), "next": following}


async def show_inbox(database: Database, inbox: Inbox) -> InboxJson:
    """Show one inbox with its former addresses."""
    old = await database.read(lambda tx: inboxes.old_addresses(tx, [inbox.id]))
    return inboxes_json([inbox], old)[0]


async def show_pending(database: Database, inbox: Inbox) -> PendingMailsJson:
    """Show how many mails of an inbox arrived and were not read yet."""
    pending = await database.read(lambda tx: pending_mails.of_inbox(tx, inbox.id))
    return {
        "mails": pending.mails,
        "oldest_at": moment(pending.oldest_ms),
        "last_error": pending.error,
    }


def inboxes_json(rows: Sequence[Inbox], old: Sequence[OldAddress] = ()) -> list[InboxJson]:
    """Write inboxes with the addresses that they had."""
    former: dict[str, list[FormerAddressJson]] = {}
    for one in old:
        shown: FormerAddressJson = {"address": one.address, "until": moment(one.until_ms)}
        former.setdefault(one.inbox, []).append(shown)
    return [_inbox_json(row, former.get(row.id, [])) for row in rows]


def _inbox_json(inbox: Inbox, former: list[FormerAddressJson]) -> InboxJson:
    # A catch-all is shown as it is asked for.
    address = f"*{inbox.address}" if inbox.address.startswith("@") else inbox.address
    return {
        "id": inbox.id,
        "address": address,
        "created_at": moment(inbox.created_ms),
        "expires_at": moment(inbox.expires_ms),
        "metadata": dict(inbox.metadata),
        "seq": inbox.seq,
        "mails": inbox.mails,
        "bytes": inbox.bytes,
        "mails_max": inbox.mails_max,
        "bytes_max": inbox.bytes_max,
        "former_addresses": former,
    }


def domain_json(domain: MailDomain) -> DomainJson:
    return {
        "domain": domain.domain,
        "origin": domain.origin,
        "created_at": moment(domain.created_ms),
    }


async def list_domain_refusals(
    database: Database, workspace: str, domain: str, *, since_ms: int
) -> list[RefusedMailJson]:
    """List what was refused to addresses of a domain that lead to no inbox, the latest first."""
    rows = await database.read(
        lambda tx: refusals.of_domain(
            tx, workspace, domain, since_minute=since_ms // MINUTE_MS, most=REFUSALS_MAX
        )
    )
    return [refused_json(row) for row in rows]


def refused_json(row: RefusedMail) -> RefusedMailJson:
    return {
        "address": row.address,
        "reason": row.reason,
        "code": row.code,
        "times": row.times,
        "first_at": moment(row.first_minute * MINUTE_MS),
        "last_at": moment(row.last_minute * MINUTE_MS),
    }


def deletion_json(counts: PurgeCounts, *, is_complete: bool = True) -> DeletionJson:
    return {
        "complete": is_complete,
        "inboxes": counts.inboxes,
        "addresses": counts.addresses,
        "mails": counts.mails,
        "messages": counts.messages,
        "attachments": counts.attachments,
        "refusals": counts.refusals,
        "blobs": counts.blobs,
        "bytes": counts.content_bytes,
        "deliveries": counts.deliveries,
        "posts": counts.posts,
    }


async def list_unmatched(
    database: Database, workspace: str, page: PageQuery
) -> Page[UnmatchedJson]:
    """List mail that no inbox took, the newest first."""
    below = page.position(bytes, bytes)
    rows = await database.read(
        lambda tx: unmatched.page(tx, workspace, below=below, limit=page.limit + 1)
    )
    return page.of(rows, _unmatched_json, lambda last: (last.key,))


def _unmatched_json(row: UnmatchedMail) -> UnmatchedJson:
    envelope = read_facts(row.facts).envelope
    return {
        "id": public("mail", row.key),
        "received_at": moment(row.made_ms),
        "source": row.source,
        "inbox": row.inbox or None,
        "mail_from": envelope.mail_from,
        "recipients": list(envelope.recipients),
        "bytes": row.mail_bytes,
        "format": row.format,
    }
