"""The audit log: who changed what, written in the transaction of the change.

The door says who asks for what (`ACTING`), before anything is done. Whatever then writes for that
request writes its entry, too: there is no change without one, and none for what was undone. An
entry has its id from the beginning, so that a request with several transactions has one.
"""

from collections.abc import Callable, Sequence
from contextvars import ContextVar
from dataclasses import asdict, dataclass
from typing import TypeVar

from sqlalchemy import Connection, func, insert, or_, select, text

from mailonce.store.filters import equal
from mailonce.store.schema.tables import AUDIT

T = TypeVar("T")

OBJECT_CHARS_MAX = 320
OBJECTS_MAX = 10
# PostgreSQL gives a transaction its id at its first write.
_TRANSACTION = "SELECT pg_current_xact_id_if_assigned()::text"


@dataclass(slots=True)
class AuditEntry:
    """One change: `by` is the id of a key, `local:USER` or `settings file`.

    `operation` is that of the API, as in `DELETE /v1/routes/{route_id}`; `object` names on what.
    """

    id: bytes
    workspace: str
    at_ms: int
    by: str
    operation: str
    object: str


# For what the running request asks; None where nobody asks for a change.
ACTING: ContextVar[AuditEntry | None] = ContextVar("ACTING", default=None)


def name_object(name: str) -> None:
    """Say on what the running request acts, where its path does not."""
    entry = ACTING.get()
    if entry is not None:
        entry.object = name[:OBJECT_CHARS_MAX]


def audited(work: Callable[[Connection], T]) -> Callable[[Connection], T]:
    """Have a transaction write the entry of the running request as well, if it has one."""
    entry = ACTING.get()
    if entry is None:
        return work

    def both(tx: Connection) -> T:
        # On SQLite this runs on the writer's own thread, which knows of no request.
        token = ACTING.set(entry)
        try:
            before = _writes(tx)
            result = work(tx)
        finally:
            ACTING.reset(token)
        # What was not there cannot be changed, and its request is refused after this.
        if _writes(tx) != before:
            put(tx, entry)
        return result

    return both


def _writes(tx: Connection) -> object:
    """Give what a transaction's writes change, and its reads do not."""
    is_sqlite = tx.dialect.name == "sqlite"
    return tx.scalar(text("SELECT total_changes()" if is_sqlite else _TRANSACTION))


def put(tx: Connection, entry: AuditEntry) -> None:
    """Write an entry, unless an earlier transaction of its request did."""
    is_there = select(AUDIT.c.id).where(AUDIT.c.id == entry.id)
    if tx.execute(is_there).first() is None:
        tx.execute(insert(AUDIT).values(**asdict(entry)))


def objects_of(tx: Connection, workspace: str, operation: str, beginning: str) -> list[str]:
    """List on what an operation was done where that begins so, the newest first."""
    query = select(AUDIT.c.object).where(
        *equal(AUDIT, workspace=workspace, operation=operation),
        # LIKE would take capitals for small letters on SQLite.
        func.substr(AUDIT.c.object, 1, len(beginning)) == beginning,
    )
    return list(tx.scalars(query.order_by(AUDIT.c.id.desc()).limit(OBJECTS_MAX)))


def page(
    tx: Connection,
    workspace: str,
    *,
    by: str | None,
    key_ids: Sequence[str],
    object_: str | None,
    since_ms: int | None,
    until_ms: int | None,
    below: bytes | None,
    limit: int,
) -> list[AuditEntry]:
    """List entries, newest first; ids are in the order of time.

    `by` is a part of who did it; entries of the keys `key_ids` are listed with it.
    """
    query = select(AUDIT).where(*equal(AUDIT, workspace=workspace))
    if object_ is not None:
        query = query.where(AUDIT.c.object.contains(object_, autoescape=True))
    if by is not None:
        is_part = AUDIT.c.by.contains(by, autoescape=True)
        query = query.where(or_(is_part, AUDIT.c.by.in_(key_ids)))
    if since_ms is not None:
        query = query.where(AUDIT.c.at_ms >= since_ms)
    if until_ms is not None:
        query = query.where(AUDIT.c.at_ms < until_ms)
    if below is not None:
        query = query.where(AUDIT.c.id < below)
    rows = tx.execute(query.order_by(AUDIT.c.id.desc()).limit(limit)).mappings()
    return [AuditEntry(**row) for row in rows]
