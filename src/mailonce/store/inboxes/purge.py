"""Deletion of inboxes and of mail, in slices of which a crash leaves some done and some to do.

An inbox is marked first: nothing leads to it any more, and its end is 0, by which whoever prunes
finds it. Then its mail goes, slice by slice, each with its messages, attachments and bytes in one
transaction. Its own row goes last, unless mail has come meanwhile. What comes after that finds no
inbox and is kept as mail that no inbox takes.

Bytes are kept once in a workspace, so others may refer to them. Their rows are locked first, then
looked at in a later statement: a mail with the same bytes that is being accepted at the same time
either has committed, and is seen, or waits for us and then inserts its bytes anew. Bytes before
mails before the inbox: the group commit takes its locks in the same order. Deliveries come last:
whoever holds one of these waits for none of the others.
"""

from collections.abc import Collection, Sequence
from typing import Any, NamedTuple

from sqlalchemy import (
    BigInteger,
    ColumnElement,
    Connection,
    Exists,
    Select,
    bindparam,
    case,
    delete,
    exists,
    func,
    literal_column,
    or_,
    select,
    tuple_,
    update,
)

from mailonce.store.configuration import locks
from mailonce.store.dialects.row_locks import lock_rows
from mailonce.store.expectations.forgetting import forget_inbox
from mailonce.store.filters import is_pair
from mailonce.store.inboxes.delivery_bodies import erase_arrivals, erase_bodies
from mailonce.store.schema.mail_tables import (
    ADDRESSES,
    ATTACHMENTS,
    BLOBS,
    DIGEST_ATTEMPTS,
    INBOXES,
    MAIL_REFUSALS,
    MAILS,
    MESSAGES,
)

_A, _B, _I, _M, _MAIL = ADDRESSES.c, BLOBS.c, INBOXES.c, MESSAGES.c, MAILS.c
# An inbox that is marked for deletion was over at the beginning of time.
MARKED_MS = 0
_IS_OVERDUE: ColumnElement[bool] = _I.expires_ms <= bindparam("now_ms", type_=BigInteger)
# Asked every other second by each process, usually in vain.
HAS_OVERDUE: Select[Any] = select(exists().where(_IS_OVERDUE))


class InboxPlace(NamedTuple):
    """An inbox, and whose it is."""

    workspace: str
    id: str


class BlobKey(NamedTuple):
    """Some bytes of a workspace."""

    workspace: str
    sha256: bytes


class PurgeCounts(NamedTuple):
    """What a deletion deleted; `content_bytes` are those that nobody else refers to."""

    inboxes: int = 0
    addresses: int = 0
    mails: int = 0
    messages: int = 0
    attachments: int = 0
    refusals: int = 0
    blobs: int = 0
    content_bytes: int = 0
    # Of deliveries to routes, and of providers' posts: bodies that held the mail, and hold nothing.
    deliveries: int = 0
    posts: int = 0

    def plus(self, other: "PurgeCounts") -> "PurgeCounts":
        return PurgeCounts(*(one + more for one, more in zip(self, other, strict=True)))


class PurgeSlice(NamedTuple):
    """What one slice deleted, and whether the inbox is gone; some bytes may be left to look at."""

    counts: PurgeCounts
    is_gone: bool = False
    unlocked: frozenset[BlobKey] = frozenset()


class DoomedMail(NamedTuple):
    """A mail that is about to be deleted."""

    key: bytes
    seq: int | None
    workspace: str
    sha256: bytes
    mail_bytes: int
    arrival: bytes


_DOOMED = select(*(_MAIL[name] for name in DoomedMail._fields))


def mark(tx: Connection, places: Collection[InboxPlace]) -> PurgeCounts:
    """Mark inboxes for deletion: from now on nothing finds them and no address leads to them.

    Who marks an inbox counts it: maintenance may be the one that deletes its row.
    """
    lock_rows(tx, INBOXES, {(place.id,) for place in places})
    named = is_pair(_I.workspace, _I.id, places)
    end = {"expires_ms": MARKED_MS, "request_key": None}
    unmarked = named & _I.expires_ms.is_distinct_from(MARKED_MS)
    marked = list(tx.scalars(update(INBOXES).where(unmarked).values(end).returning(_I.id)))
    gone = delete(ADDRESSES).where(_A.inbox.in_(marked))
    return PurgeCounts(inboxes=len(marked), addresses=tx.execute(gone).rowcount)


def overdue(tx: Connection, *, now_ms: int, most: int) -> list[InboxPlace]:
    """Find inboxes whose time is over, those that were marked first."""
    query = select(_I.workspace, _I.id).where(_IS_OVERDUE).order_by(_I.expires_ms).limit(most)
    return [InboxPlace(*row) for row in tx.execute(query, {"now_ms": now_ms})]


def purge(tx: Connection, inbox: str, *, most: int) -> PurgeSlice:
    """Delete some mail of a marked inbox; where none is left, the inbox itself."""
    # One at a time: two who delete the same rows would wait for each other in a circle.
    locks.take(tx, locks.number_of("inbox", inbox))
    row = tx.execute(select(_I.seq, _I.workspace).where(_I.id == inbox)).first()
    # In this order: a mail that is read in between is found by the second look.
    doomed = _read(tx, of_inbox(inbox, is_read=False).limit(most))
    doomed = doomed or _read(tx, of_inbox(inbox, is_read=True).limit(most))
    if doomed:
        return _delete_mail(tx, inbox, doomed)
    # A mail that came since raised the number: then the row stays, for the next slice.
    if row is None:
        # Who deleted the row has deleted what follows, in the same transaction.
        return PurgeSlice(PurgeCounts(), is_gone=True)
    if not tx.execute(delete(INBOXES).where(_I.id == inbox, _I.seq == row.seq)).rowcount:
        return PurgeSlice(PurgeCounts())
    forget_inbox(tx, inbox)
    refused = (MAIL_REFUSALS.c.workspace == row.workspace, MAIL_REFUSALS.c.inbox == inbox)
    refusals = tx.execute(delete(MAIL_REFUSALS).where(*refused)).rowcount
    return PurgeSlice(PurgeCounts(refusals=refusals), is_gone=True)


def delete_message(tx: Connection, inbox: str, message: str) -> PurgeSlice | None:
    """Delete a message with its mail and the copies of it; None where there is no such message.

    The inbox remembers how far mail was deleted, and has room for as much again.
    """
    locks.take(tx, locks.number_of("inbox", inbox))
    if tx.scalar(select(_M.seq).where(_M.inbox == inbox, _M.id == message)) is None:
        return None
    doomed = _read(tx, of_inbox(inbox, is_read=True).where(_MAIL.message == message))
    deleted = _delete_mail(tx, inbox, doomed)
    last = max((mail.seq or 0 for mail in doomed), default=0)
    tx.execute(
        update(INBOXES)
        .where(_I.id == inbox)
        .values(
            mails=_I.mails - len(doomed),
            bytes=_I.bytes - sum(mail.mail_bytes for mail in doomed),
            forgotten_seq=case((_I.forgotten_seq < last, last), else_=_I.forgotten_seq),
        )
    )
    return deleted


def delete_unmatched(tx: Connection, keys: Collection[bytes]) -> PurgeSlice:
    """Delete mail that no inbox took, unless one has adopted it meanwhile."""
    named = _DOOMED.where(_MAIL.key.in_(sorted(keys)), _MAIL.seq.is_(None))
    return _delete_mail(tx, None, _read(tx, named))


def delete_blobs(tx: Connection, blobs: Collection[BlobKey]) -> PurgeCounts:
    """Delete those of these bytes that nobody refers to."""
    lock_rows(tx, BLOBS, blobs)
    return _delete_unused(tx, blobs)


def unused_blobs(
    tx: Connection, *, after: BlobKey | None, before_ms: int, most: int
) -> tuple[list[BlobKey], BlobKey | None]:
    """Look through some bytes for those that nobody refers to, and that were not used lately.

    Gives them, and behind which to look on; None where that was all.
    """
    is_old = IS_UNUSED & (_B.used_ms < before_ms)
    walk = select(_B.workspace, _B.sha256, is_old)
    if after is not None:
        walk = walk.where(tuple_(_B.workspace, _B.sha256) > tuple_(*after))
    rows = tx.execute(walk.order_by(_B.workspace, _B.sha256).limit(most)).all()
    keys = [BlobKey(row[0], bytes(row[1])) for row in rows]
    unused = [key for key, row in zip(keys, rows, strict=True) if row[2]]
    return unused, keys[-1] if len(keys) == most else None


def of_inbox(inbox: str, *, is_read: bool) -> Select[Any]:
    """Select the mail of an inbox that was read, or was not: each has an index of its own."""
    was_read = _MAIL.message.is_not(None) if is_read else _MAIL.message.is_(None)
    return _DOOMED.where(_MAIL.inbox == inbox, _MAIL.seq.is_not(None), was_read)


def _read(tx: Connection, query: Select[Any]) -> list[DoomedMail]:
    return [
        DoomedMail(bytes(row[0]), row[1], row[2], bytes(row[3]), row[4], bytes(row[5]))
        for row in tx.execute(query.order_by(_MAIL.seq, _MAIL.key))
    ]


def _delete_mail(tx: Connection, inbox: str | None, doomed: Sequence[DoomedMail]) -> PurgeSlice:
    """Delete mails of an inbox, or of none, with what was read from them and their bytes."""
    # A message has the number of the mail that it was read from.
    is_of_mail = (_M.inbox == inbox) & _M.seq.in_([mail.seq for mail in doomed])
    of = ATTACHMENTS.c
    attached = select(of.workspace, of.sha256).join(MESSAGES, _M.id == of.message)
    blobs = {BlobKey(mail.workspace, mail.sha256) for mail in doomed}
    blobs |= {BlobKey(row[0], bytes(row[1])) for row in tx.execute(attached.where(is_of_mail))}
    lock_rows(tx, BLOBS, blobs)
    # Mails before messages: whoever reads one of these mails at this moment has committed its
    # message, or finds no mail to write it for.
    is_still = _MAIL.seq.is_(None) if inbox is None else _MAIL.inbox == inbox
    keys = [mail.key for mail in doomed]
    mails = delete(MAILS).where(_MAIL.key.in_(keys), is_still).returning(_MAIL.key)
    gone = list(tx.scalars(mails))
    tx.execute(delete(DIGEST_ATTEMPTS).where(DIGEST_ATTEMPTS.c.mail.in_(gone)))
    read = list(tx.scalars(delete(MESSAGES).where(is_of_mail).returning(_M.id)))
    files = delete(ATTACHMENTS).where(of.message.in_(read)).returning(of.workspace, of.sha256)
    late = [BlobKey(row[0], bytes(row[1])) for row in tx.execute(files)]
    counts = _delete_unused(tx, blobs)._replace(
        mails=len(gone), messages=len(read), attachments=len(late)
    )
    if inbox is not None and doomed:
        workspace = doomed[0].workspace
        counts = counts._replace(
            deliveries=erase_bodies(tx, workspace, read),
            posts=erase_arrivals(tx, workspace, [mail.arrival for mail in doomed]),
        )
    return PurgeSlice(counts, unlocked=frozenset(late) - blobs)


def _delete_unused(tx: Connection, blobs: Collection[BlobKey]) -> PurgeCounts:
    named = is_pair(_B.workspace, _B.sha256, blobs)
    gone = delete(BLOBS).where(named, IS_UNUSED).returning(func.length(_B.content))
    sizes = list(tx.scalars(gone)) if blobs else []
    return PurgeCounts(blobs=len(sizes), content_bytes=sum(sizes))


def _refers(workspace: ColumnElement[str], sha256: ColumnElement[bytes]) -> Exists:
    return exists().where(workspace == _B.workspace, sha256 == _B.sha256)


IS_UNUSED = ~or_(
    # The mail that they came with may have other bytes by now. All others say that they share them;
    # as the index says it: `= 1`, as SQLAlchemy writes it for SQLite, would pass the index by.
    exists().where(_MAIL.key == _B.mail, _MAIL.sha256 == _B.sha256),
    _refers(_MAIL.workspace, _MAIL.sha256).where(literal_column("mails.shares_blob")),
    _refers(ATTACHMENTS.c.workspace, ATTACHMENTS.c.sha256),
)
