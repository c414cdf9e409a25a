"""Inboxes, and which of them an address leads to."""

from collections.abc import Iterable, Mapping, Sequence
from typing import Any, NamedTuple

import orjson
from msgspec.structs import replace
from sqlalchemy import (
    BindParameter,
    Connection,
    bindparam,
    delete,
    exists,
    func,
    insert,
    or_,
    select,
    tuple_,
    union,
    update,
)

from mailonce.core.inboxes.inbox import Inbox
from mailonce.core.work.states import State
from mailonce.store.dialects.upsert import insert_missing
from mailonce.store.schema.mail_tables import ADDRESSES, INBOXES, MAILS

_I, _A = INBOXES.c, ADDRESSES.c

# Made once: each statement that is made anew leaves some twenty kilobytes to the garbage collector,
# and these are run for everybody who sends or waits for mail.
_IDS: BindParameter[Sequence[str]] = bindparam("ids", expanding=True)
# Of an id or an address in one condition both databases make a walk through all inboxes, and so
# they do of the inbox's workspace; an address is in the same one, and has no index by it.
_OWN, _LEADING = INBOXES.alias("own").c, ADDRESSES.alias("leading").c
_NAMED = union(
    select(_LEADING.inbox).where(_LEADING.address.in_(_IDS)),
    select(_OWN.id).where(_OWN.id.in_(_IDS)),
)
FIND = (
    select(_A.address, INBOXES)
    .join(ADDRESSES, _A.inbox == _I.id)
    .where(_I.id.in_(_NAMED), _A.workspace == bindparam("workspace"))
)
LEAD = (
    select(_A.address.label("spelling"), _A.until_ms, INBOXES)
    .join(INBOXES, _A.inbox == _I.id)
    .where(_A.address.in_(bindparam("addresses", expanding=True)))
)
_UNREAD = (
    select(MAILS.c.inbox, func.min(MAILS.c.seq).label("first"))
    .where(
        MAILS.c.inbox.in_(_IDS),
        MAILS.c.message.is_(None),
        MAILS.c.seq.is_not(None),
        # What was given up is a dead letter, and keeps nobody waiting.
        MAILS.c.state != State.DEAD,
    )
    .group_by(MAILS.c.inbox)
    .subquery()
)
RANGES = (
    select(_I.id, _I.seq, _I.forgotten_seq, _UNREAD.c.first)
    .join(_UNREAD, _UNREAD.c.inbox == _I.id, isouter=True)
    .where(_I.id.in_(_IDS), or_(_I.expires_ms.is_(None), _I.expires_ms > 0))
)


class AddressedInbox(NamedTuple):
    """An inbox, and until when the address leads to it; None: for as long as it lives."""

    address: str
    inbox: Inbox
    until_ms: int | None


class RequestedInbox(NamedTuple):
    """An inbox, and the fingerprint of the request that made it."""

    inbox: Inbox
    fingerprint: bytes


class OldAddress(NamedTuple):
    """An address that an inbox had, and until when it leads there."""

    inbox: str
    address: str
    until_ms: int


class InboxPosition(NamedTuple):
    """Where a page of inboxes ends."""

    created_ms: int
    id: str


class SeqRange(NamedTuple):
    """How far an inbox can be read: up to `readable`; `last` is the last number given."""

    readable: int
    last: int
    forgotten: int

    def has_nothing_behind(self, after: int) -> bool:
        """Say whether a reader behind this number, which was given, has read all there is."""
        return max(self.readable, self.forgotten) <= after <= self.last


class SeqGap(NamedTuple):
    """Numbers whose mail was deleted, the first and the last of them."""

    first: int
    last: int


def insert_all(
    tx: Connection,
    inboxes: Sequence[Inbox],
    *,
    request_keys: Sequence[bytes | None],
    fingerprint: bytes | None = None,
) -> list[str]:
    """Insert inboxes with their addresses, unless one of them leads to another inbox.

    Gives the addresses that do: then the caller lets nothing of this stand. `fingerprint` is of
    the request whose keys are given.
    """
    rows = [
        {**_fields(inbox), "request_key": key, "request_fingerprint": fingerprint}
        for inbox, key in zip(inboxes, request_keys, strict=True)
    ]
    wanted = {one.address: one.id for one in inboxes}
    owner_of = _claim(tx, inboxes)
    taken = [address for address, inbox in wanted.items() if owner_of[address] != inbox]
    if not taken:
        tx.execute(insert(INBOXES), rows)
    return taken


def _claim(tx: Connection, inboxes: Sequence[Inbox]) -> dict[str, str]:
    """Let addresses lead to their inboxes where they are free; give whom each leads to now."""
    rows = [
        {"address": one.address, "workspace": one.workspace, "inbox": one.id, "until_ms": None}
        for one in inboxes
    ]
    # Whoever inserts the same address at the same time waits here for the other's end.
    insert_missing(tx, ADDRESSES, rows)
    query = select(_A.address, _A.inbox).where(_A.address.in_([row["address"] for row in rows]))
    return {row.address: row.inbox for row in tx.execute(query)}


def of_request_keys(
    tx: Connection, workspace: str, keys: Sequence[bytes]
) -> dict[bytes, RequestedInbox]:
    """Find the inboxes that earlier requests with these keys made."""
    query = select(INBOXES).where(_I.workspace == workspace, _I.request_key.in_(keys))
    return {
        bytes(row["request_key"]): RequestedInbox(_read(row), bytes(row["request_fingerprint"]))
        for row in tx.execute(query).mappings()
    }


def is_full(tx: Connection, workspace: str, *, inboxes_max: int, more: int) -> bool:
    """Say whether a workspace would have more inboxes than it may with so many more."""
    if more > inboxes_max:
        return True
    query = select(_I.id).where(_I.workspace == workspace).order_by(_I.created_ms, _I.id)
    return tx.execute(query.offset(inboxes_max - more).limit(1)).first() is not None


def find(tx: Connection, workspace: str, ids: Sequence[str]) -> dict[str, Inbox]:
    """Find inboxes of a workspace by id, or by the address that leads to them, as given."""
    by_name: dict[str, Inbox] = {}
    for row in tx.execute(FIND, {"workspace": workspace, "ids": ids}).mappings():
        inbox = _read(row)
        by_name |= {name: inbox for name in (inbox.id, row["address"]) if name in ids}
    return by_name


def lead(tx: Connection, addresses: Iterable[str]) -> dict[str, AddressedInbox]:
    """Find which inbox each of these addresses leads to, in any workspace."""
    return {
        row["spelling"]: AddressedInbox(row["spelling"], _read(row), row["until_ms"])
        for row in tx.execute(LEAD, {"addresses": list(addresses)}).mappings()
    }


def page(
    tx: Connection, workspace: str, *, after: InboxPosition | None, limit: int, now_ms: int
) -> list[Inbox]:
    """List inboxes that are not past their time, the newest first."""
    order = (_I.created_ms, _I.id)
    lives = or_(_I.expires_ms.is_(None), _I.expires_ms > now_ms)
    query = select(INBOXES).where(_I.workspace == workspace, lives)
    if after is not None:
        query = query.where(tuple_(*order) < tuple_(*after))
    query = query.order_by(*(column.desc() for column in order)).limit(limit)
    return [_read(row) for row in tx.execute(query).mappings()]


def old_addresses(tx: Connection, ids: Sequence[str]) -> list[OldAddress]:
    """List the addresses that were rotated out, by inbox, the latest first."""
    query = select(_A.inbox, _A.address, _A.until_ms).where(
        _A.inbox.in_(ids), _A.until_ms.is_not(None)
    )
    return [OldAddress(*row) for row in tx.execute(query.order_by(_A.inbox, _A.until_ms.desc()))]


def ranges(tx: Connection, ids: Sequence[str]) -> dict[str, SeqRange]:
    """Say how far each of these inboxes can be read; one that is being deleted is none of them.

    Mail is shown in the order of its numbers: what comes behind a mail that is still to be read
    waits for it, or a reader would pass it by.
    """
    return {
        id_: SeqRange(seq if first is None else first - 1, seq, forgotten)
        for id_, seq, forgotten, first in tx.execute(RANGES, {"ids": ids})
    }


def first_gap(tx: Connection, inbox: str, *, after: int, until: int) -> SeqGap | None:
    """Find the first numbers behind `after`, up to `until`, whose mail was deleted."""
    of = MAILS.c
    own = (of.inbox == inbox, of.seq > after, of.seq <= until)
    first = tx.scalar(select(func.min(of.seq)).where(*own))
    if first is None:
        return SeqGap(after + 1, until) if after < until else None
    if first > after + 1:
        return SeqGap(after + 1, first - 1)
    other = MAILS.alias()
    follows = exists().where(other.c.inbox == inbox, other.c.seq == of.seq + 1)
    last = tx.scalar(select(of.seq).where(*own, ~follows).order_by(of.seq).limit(1))
    if last is None or last >= until:
        return None
    following = tx.scalar(select(func.min(of.seq)).where(*own, of.seq > last))
    return SeqGap(last + 1, until if following is None else following - 1)


def is_deleted(tx: Connection, inbox: str, *, seq: int) -> bool:
    """Say whether mail had a number of an inbox, and was deleted."""
    known = ranges(tx, [inbox]).get(inbox)
    is_behind = known is None or not 0 < seq <= known.forgotten
    return not is_behind and first_gap(tx, inbox, after=seq - 1, until=seq) is not None


def rotate(tx: Connection, inbox: Inbox, *, address: str, until_ms: int) -> bool:
    """Let a new address lead to an inbox, and the old one until `until_ms`; False: it is taken."""
    if _claim(tx, [replace(inbox, address=address)])[address] != inbox.id:
        return False
    is_other = (_A.inbox == inbox.id) & (_A.address != address)
    tx.execute(update(ADDRESSES).where(is_other, _A.until_ms.is_(None)).values(until_ms=until_ms))
    tx.execute(update(INBOXES).where(_I.id == inbox.id).values(address=address))
    return True


def forget_addresses(tx: Connection, addresses: Sequence[str]) -> None:
    """Free addresses that were rotated out."""
    tx.execute(delete(ADDRESSES).where(_A.address.in_(addresses), _A.until_ms.is_not(None)))


def has_addresses_at(tx: Connection, workspace: str, domain: str) -> bool:
    """Say whether an address of this domain leads to an inbox, or did until lately."""
    is_there = _A.address.endswith(f"@{domain}", autoescape=True)
    query = (
        select(_A.address)
        .join(INBOXES, _A.inbox == _I.id)
        .where(_I.workspace == workspace, is_there)
        .limit(1)
    )
    return tx.execute(query).first() is not None


def _fields(inbox: Inbox) -> dict[str, Any]:
    fields = {name: getattr(inbox, name) for name in inbox.__struct_fields__}
    return fields | {"metadata": orjson.dumps(inbox.metadata)}


def _read(row: Mapping[Any, Any]) -> Inbox:
    fields = {name: row[name] for name in Inbox.__struct_fields__}
    return Inbox(**fields | {"metadata": orjson.loads(bytes(row["metadata"]))})
