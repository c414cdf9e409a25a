"""Dead letters: what we gave up on, with its reason and its bytes."""

from typing import NamedTuple

from sqlalchemy import Connection, func, select, update

from mailonce.core.ids import ArrivalId
from mailonce.core.query import DeadLetterFilter
from mailonce.store.ledger import arrivals
from mailonce.store.schema.tables import DEAD_LETTERS


class DeadLetter(NamedTuple):
    """One dead letter; `resolved_ms` once a retry succeeded."""

    id: bytes
    workspace: str
    source: str
    kind: str
    arrival: ArrivalId
    arrival_key: str
    position: int
    reason: str
    attempts: int
    failed_ms: int
    raw: bytes
    resolved_ms: int | None
    # Of a delivery: its route, its key, and the outcome of the last attempt.
    route: str | None
    delivery: bytes | None
    # The error of the last attempt.
    last_error: str | None
    # Of an arrival: those that reading it needs.
    headers: bytes | None
    raw_bytes: int


# A list shows no more of each.
PAGE_RAW_BYTES_MAX = 64 << 10
# Until then letters were cut here; the arrival has the rest, as long as it is kept.
CUT_BYTES = 1 << 20

_NAMED = {name: DEAD_LETTERS.c[name] for name in DeadLetter._fields if name != "raw_bytes"} | {
    "raw_bytes": func.length(DEAD_LETTERS.c.raw)
}
_COLUMNS = list(_NAMED.values())
_PAGE_COLUMNS = list(
    (_NAMED | {"raw": func.substr(DEAD_LETTERS.c.raw, 1, PAGE_RAW_BYTES_MAX)}).values()
)


def page(
    tx: Connection, workspace: str, where: DeadLetterFilter, *, below: bytes | None, limit: int
) -> list[DeadLetter]:
    """List dead letters, newest first, each with the beginning of its bytes."""
    resolved = DEAD_LETTERS.c.resolved_ms
    query = select(*_PAGE_COLUMNS).where(
        DEAD_LETTERS.c.workspace == workspace,
        resolved.is_not(None) if where.resolved else resolved.is_(None),
    )
    if where.source is not None:
        query = query.where(DEAD_LETTERS.c.source == where.source)
    if where.kind is not None:
        query = query.where(DEAD_LETTERS.c.kind == where.kind)
    if where.route is not None:
        query = query.where(DEAD_LETTERS.c.route == where.route)
    if below is not None:
        query = query.where(DEAD_LETTERS.c.id < below)
    rows = tx.execute(query.order_by(DEAD_LETTERS.c.id.desc()).limit(limit))
    return [DeadLetter(*row) for row in rows]


def get(tx: Connection, workspace: str, letter: bytes) -> DeadLetter | None:
    row = tx.execute(
        select(*_COLUMNS).where(DEAD_LETTERS.c.id == letter, DEAD_LETTERS.c.workspace == workspace)
    ).first()
    return None if row is None else DeadLetter(*row)


def whole(tx: Connection, letter: DeadLetter) -> DeadLetter:
    """Complete a letter of an older version from its arrival: its headers, and what was cut."""
    if letter.headers is not None:
        return letter
    arrival = arrivals.get(tx, letter.workspace, letter.arrival)
    if arrival is None:
        return letter
    body = arrival.body or b""
    is_cut = len(letter.raw) == CUT_BYTES and body.startswith(letter.raw)
    return letter._replace(headers=arrival.headers, raw=body if is_cut else letter.raw)


def count_open(tx: Connection, workspace: str | None = None) -> int:
    """Count the open dead letters, in one workspace or in all."""
    query = select(func.count()).where(DEAD_LETTERS.c.resolved_ms.is_(None))
    if workspace is not None:
        query = query.where(DEAD_LETTERS.c.workspace == workspace)
    return tx.scalar(query) or 0


def resolve(tx: Connection, workspace: str, letter: bytes, *, now_ms: int) -> bool:
    """Mark a dead letter as resolved; say whether it was open."""
    done = tx.execute(
        update(DEAD_LETTERS)
        .where(
            DEAD_LETTERS.c.id == letter,
            DEAD_LETTERS.c.workspace == workspace,
            DEAD_LETTERS.c.resolved_ms.is_(None),
        )
        .values(resolved_ms=now_ms)
    )
    return done.rowcount > 0


def fail_again(tx: Connection, workspace: str, letter: bytes, *, error: str, now_ms: int) -> bool:
    """Count one more attempt that failed, and why; say whether the letter was still open."""
    done = tx.execute(
        update(DEAD_LETTERS)
        .where(
            DEAD_LETTERS.c.id == letter,
            DEAD_LETTERS.c.workspace == workspace,
            DEAD_LETTERS.c.resolved_ms.is_(None),
        )
        .values(attempts=DEAD_LETTERS.c.attempts + 1, last_error=error, failed_ms=now_ms)
    )
    return done.rowcount > 0
