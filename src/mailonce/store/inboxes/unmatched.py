"""Mail that no inbox took: kept for a time and within bounds, and adopted by an inbox."""

from typing import NamedTuple

from sqlalchemy import Connection, literal_column, or_, select, update

from mailonce.core.inboxes.inbox import Inbox
from mailonce.core.inboxes.mail_items import DIGEST_DEADLINE_S, lane_of
from mailonce.core.work.states import State
from mailonce.store.schema.mail_tables import INBOXES, MAILS

_I, _M = INBOXES.c, MAILS.c


class UnmatchedMail(NamedTuple):
    """A mail that no inbox took; `inbox` is the one that was deleted before it came, or empty."""

    key: bytes
    inbox: str
    source: str
    made_ms: int
    mail_bytes: int
    format: str
    facts: bytes


class AdoptedMail(NamedTuple):
    """The place of a mail in its inbox, and the lane in which its reading is owed."""

    inbox: str
    seq: int
    lane: str


class HeldMail(NamedTuple):
    """A mail, and the inbox that has it already."""

    inbox: str
    seq: int | None
    source: str
    format: str

    def lane_in(self, inbox: str) -> str:
        """Name the lane in which it is read, in this inbox."""
        return lane_of(self.format, inbox=inbox, source=self.source)


def page(tx: Connection, workspace: str, *, below: bytes | None, limit: int) -> list[UnmatchedMail]:
    """List what no inbox took, the newest first."""
    query = select(*(_M[name] for name in UnmatchedMail._fields)).where(
        _M.workspace == workspace, _M.seq.is_(None)
    )
    if below is not None:
        query = query.where(_M.key < below)
    rows = tx.execute(query.order_by(_M.key.desc()).limit(limit))
    return [
        UnmatchedMail(bytes(row[0]), row[1], row[2], row[3], row[4], row[5], bytes(row[6]))
        for row in rows
    ]


def holder(tx: Connection, workspace: str, key: bytes) -> HeldMail | None:
    """Say which inbox has a mail; its number is None where none has."""
    columns = [_M[name] for name in HeldMail._fields]
    query = select(*columns).where(_M.key == key, _M.workspace == workspace)
    row = tx.execute(query).first()
    return None if row is None else HeldMail(*row)


def adopt(
    tx: Connection, key: bytes, inbox: Inbox, *, lane: str, now_ms: int
) -> AdoptedMail | None:
    """Number a mail in an inbox, and owe its reading; None where it can be neither now.

    That is: another adopted it meanwhile, the worker has it, or the inbox is past its end or full.
    Then the caller lets nothing of this stand.
    """
    size = select(_M.mail_bytes).where(_M.key == key).scalar_subquery()
    has_room = (_I.mails < _I.mails_max) & (_I.bytes + size <= _I.bytes_max)
    numbered = (
        update(INBOXES)
        .where(_I.id == inbox.id, or_(_I.expires_ms.is_(None), _I.expires_ms > now_ms), has_room)
        .values(seq=_I.seq + 1, mails=_I.mails + 1, bytes=_I.bytes + size)
        .returning(_I.seq)
    )
    seq = tx.scalar(numbered)
    if seq is None:
        return None
    taken = (
        update(MAILS)
        .where(_M.key == key, _M.seq.is_(None), _M.state != literal_column(str(int(State.LEASED))))
        .values(
            inbox=inbox.id,
            seq=seq,
            address=inbox.address,
            digester=lane,
            state=int(State.DUE),
            due_ms=now_ms,
            deadline_ms=now_ms + DIGEST_DEADLINE_S * 1000,
            round_began=_M.attempts,
        )
    )
    return AdoptedMail(inbox.id, seq, lane) if tx.execute(taken).rowcount else None


def workspaces(tx: Connection) -> list[str]:
    """List the workspaces that have mail which no inbox took."""
    return list(tx.scalars(select(_M.workspace).where(_M.seq.is_(None)).distinct()))


def superfluous(
    tx: Connection, workspace: str, *, before: bytes, mails_max: int, most: int
) -> list[bytes]:
    """Find mail that no inbox took and that is older than `before`, or beyond what is kept."""
    query = select(_M.key).where(_M.workspace == workspace, _M.seq.is_(None))
    old = query.where(_M.key < before).order_by(_M.key).limit(most)
    beyond = query.order_by(_M.key.desc()).offset(mails_max).limit(most)
    keys = {bytes(key) for one in (old, beyond) for key in tx.scalars(one)}
    return sorted(keys)[:most]
