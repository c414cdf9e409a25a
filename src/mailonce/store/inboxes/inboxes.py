"""Inboxes, and which of them an address leads to."""

from collections.abc import Iterable, Mapping, Sequence
from typing import Any, NamedTuple

import orjson
from sqlalchemy import Connection, delete, func, insert, or_, select, tuple_, update

from mailonce.core.inboxes.inbox import Inbox
from mailonce.core.work.states import State
from mailonce.store.schema.mail_tables import ADDRESSES, INBOXES, MAILS

_I, _A = INBOXES.c, ADDRESSES.c


class AddressedInbox(NamedTuple):
    """An inbox, and until when the address leads to it; None: for as long as it lives."""

    address: str
    inbox: Inbox
    until_ms: int | None


class InboxPosition(NamedTuple):
    """Where a page of inboxes ends."""

    created_ms: int
    id: str


class SeqRange(NamedTuple):
    """How far an inbox can be read: up to `readable`; `last` is the last number given."""

    readable: int
    last: int
    forgotten: int


def insert_all(
    tx: Connection, inboxes: Sequence[Inbox], *, request_keys: Sequence[bytes | None]
) -> None:
    """Insert inboxes with their addresses.

    Raises: IntegrityError where an address or a request's key is taken.
    """
    rows = [
        {**_fields(inbox), "request_key": key}
        for inbox, key in zip(inboxes, request_keys, strict=True)
    ]
    addresses = [
        {"address": one.address, "workspace": one.workspace, "inbox": one.id} for one in inboxes
    ]
    tx.execute(insert(INBOXES), rows)
    tx.execute(insert(ADDRESSES), addresses)


def taken_addresses(tx: Connection, addresses: Iterable[str]) -> set[str]:
    """Say which of these addresses lead to an inbox, or did until lately."""
    return set(tx.scalars(select(_A.address).where(_A.address.in_(list(addresses)))))


def of_request_keys(tx: Connection, workspace: str, keys: Sequence[bytes]) -> dict[bytes, Inbox]:
    """Find the inboxes that earlier requests with these keys made."""
    query = select(INBOXES).where(_I.workspace == workspace, _I.request_key.in_(keys))
    return {bytes(row["request_key"]): _read(row) for row in tx.execute(query).mappings()}


def find(tx: Connection, workspace: str, ids: Sequence[str]) -> dict[str, Inbox]:
    """Find inboxes of a workspace by id, or by the address that leads to them, as given."""
    query = (
        select(_A.address, INBOXES)
        .join(ADDRESSES, _A.inbox == _I.id)
        .where(_I.workspace == workspace, or_(_I.id.in_(ids), _A.address.in_(ids)))
    )
    by_name: dict[str, Inbox] = {}
    for row in tx.execute(query).mappings():
        inbox = _read(row)
        by_name |= {name: inbox for name in (inbox.id, row["address"]) if name in ids}
    return by_name


def lead(tx: Connection, addresses: Iterable[str]) -> dict[str, AddressedInbox]:
    """Find which inbox each of these addresses leads to, in any workspace."""
    query = (
        select(_A.address.label("spelling"), _A.until_ms, INBOXES)
        .join(INBOXES, _A.inbox == _I.id)
        .where(_A.address.in_(list(addresses)))
    )
    return {
        row["spelling"]: AddressedInbox(row["spelling"], _read(row), row["until_ms"])
        for row in tx.execute(query).mappings()
    }


def page(tx: Connection, workspace: str, *, after: InboxPosition | None, limit: int) -> list[Inbox]:
    """List inboxes, the newest first."""
    order = (_I.created_ms, _I.id)
    query = select(INBOXES).where(_I.workspace == workspace)
    if after is not None:
        query = query.where(tuple_(*order) < tuple_(*after))
    query = query.order_by(*(column.desc() for column in order)).limit(limit)
    return [_read(row) for row in tx.execute(query).mappings()]


def ranges(tx: Connection, ids: Sequence[str]) -> dict[str, SeqRange]:
    """Say how far each of these inboxes can be read.

    Mail is shown in the order of its numbers: what comes behind a mail that is still to be read
    waits for it, or a reader would pass it by.
    """
    unread = (
        select(MAILS.c.inbox, func.min(MAILS.c.seq).label("first"))
        .where(
            MAILS.c.inbox.in_(ids),
            MAILS.c.message.is_(None),
            MAILS.c.seq.is_not(None),
            # What was given up is a dead letter, and keeps nobody waiting.
            MAILS.c.state != State.DEAD,
        )
        .group_by(MAILS.c.inbox)
        .subquery()
    )
    query = (
        select(_I.id, _I.seq, _I.forgotten_seq, unread.c.first)
        .join(unread, unread.c.inbox == _I.id, isouter=True)
        .where(_I.id.in_(ids))
    )
    return {
        id_: SeqRange(seq if first is None else first - 1, seq, forgotten)
        for id_, seq, forgotten, first in tx.execute(query)
    }


def rotate(tx: Connection, inbox: Inbox, *, address: str, until_ms: int) -> None:
    """Let a new address lead to an inbox; the old one leads there until `until_ms`."""
    tx.execute(
        update(ADDRESSES)
        .where(_A.inbox == inbox.id, _A.until_ms.is_(None))
        .values(until_ms=until_ms)
    )
    row = {"address": address, "workspace": inbox.workspace, "inbox": inbox.id}
    tx.execute(insert(ADDRESSES).values(row))
    tx.execute(update(INBOXES).where(_I.id == inbox.id).values(address=address))


def remove(tx: Connection, workspace: str, ids: Sequence[str]) -> list[str]:
    """Delete inboxes and what leads to them; their mail is deleted by `forget`."""
    gone = delete(INBOXES).where(_I.workspace == workspace, _I.id.in_(ids)).returning(_I.id)
    removed = list(tx.scalars(gone))
    tx.execute(delete(ADDRESSES).where(_A.inbox.in_(removed)))
    return removed


def expired(tx: Connection, *, now_ms: int, most: int) -> list[tuple[str, str]]:
    """Find inboxes whose time is over, by workspace and id."""
    query = select(_I.workspace, _I.id).where(_I.expires_ms <= now_ms).limit(most)
    return [(row[0], row[1]) for row in tx.execute(query)]


def _fields(inbox: Inbox) -> dict[str, Any]:
    fields = {name: getattr(inbox, name) for name in inbox.__struct_fields__}
    return fields | {"metadata": orjson.dumps(inbox.metadata)}


def _read(row: Mapping[Any, Any]) -> Inbox:
    fields = {name: row[name] for name in Inbox.__struct_fields__}
    return Inbox(**fields | {"metadata": orjson.loads(bytes(row["metadata"]))})
