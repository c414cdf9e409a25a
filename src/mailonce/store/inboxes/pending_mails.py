"""Mail that arrived and was not read yet: how much, for how long, and what is in the way."""

from typing import Any, NamedTuple

from sqlalchemy import (
    ColumnElement,
    Connection,
    Select,
    Subquery,
    func,
    select,
    union_all,
)

from mailonce.core.inboxes.mail_items import DIGEST_DEADLINE_S
from mailonce.core.mail.incoming import ContentFormat
from mailonce.core.work.states import State
from mailonce.store.schema.mail_tables import DIGEST_TABLE, MAILS

_M = MAILS.c
# No more queries than that, however many sources there are.
SOURCES_MAX = 50


class PendingMails(NamedTuple):
    """The mails of an inbox that were not read yet; `error` is of the first that was tried."""

    mails: int
    oldest_ms: int | None
    error: str | None


class WaitingFetches(NamedTuple):
    """The mails of a source that wait for their provider, the oldest of them since `since_ms`.

    `error` is that of its last attempt; None where it was not tried yet.
    """

    source: str
    mails: int
    since_ms: int
    error: str | None


def of_inbox(tx: Connection, inbox: str) -> PendingMails:
    """Count the mails of an inbox that arrived and were not read yet."""
    mails, oldest_ms = tx.execute(count_in(inbox)).one()
    return PendingMails(mails, oldest_ms, tx.scalar(first_error_in(inbox)))


def count_in(inbox: str) -> Select[Any]:
    shown: tuple[Any, ...] = (func.count(), func.min(_M.made_ms))
    return select(*shown).where(*_unread(inbox))


def first_error_in(inbox: str) -> Select[Any]:
    tried = (*_unread(inbox), _M.error.is_not(None))
    return select(_M.error).where(*tried).order_by(_M.seq).limit(1)


def waiting_fetches(tx: Connection, *, before_ms: int) -> list[WaitingFetches]:
    """List the sources whose mail should have been fetched before this time, the oldest first."""
    return [
        WaitingFetches(source, mails, since_ms, tx.scalar(oldest_error(source, before_ms)))
        for source, mails, since_ms in tx.execute(waiting_sources(before_ms))
    ]


def waiting_sources(before_ms: int) -> Select[Any]:
    waiting = _waiting(before_ms)
    since = func.min(waiting.c.since_ms).label("since")
    shown: tuple[Any, ...] = (waiting.c.source, func.count(), since)
    groups = select(*shown).group_by(waiting.c.source)
    return groups.order_by(since, waiting.c.source).limit(SOURCES_MAX)


def oldest_error(source: str, before_ms: int) -> Select[Any]:
    waiting = _waiting(before_ms)
    own = select(waiting.c.error).where(waiting.c.source == source)
    return own.order_by(waiting.c.since_ms, waiting.c.key).limit(1)


def _unread(inbox: str) -> tuple[ColumnElement[bool], ...]:
    # What was given up is a dead letter; the index is by these words.
    is_given_up = DIGEST_TABLE.is_state(State.DEAD)
    return _M.inbox == inbox, _M.message.is_(None), _M.seq.is_not(None), ~is_given_up


def _waiting(before_ms: int) -> Subquery:
    """Select the mails to be fetched before this time: each state has an index of its own."""
    # Since when its reading is owed: one that an inbox adopted arrived long before.
    since_ms = _M.deadline_ms - DIGEST_DEADLINE_S * 1000
    columns = (_M.key, _M.source, _M.error, since_ms.label("since_ms"))
    late = (_M.format == ContentFormat.FETCH, since_ms < before_ms)
    return union_all(
        *(
            select(*columns).where(DIGEST_TABLE.is_state(state), *late)
            for state in (State.DUE, State.LEASED)
        )
    ).subquery()
