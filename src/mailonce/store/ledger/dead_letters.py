"""Dead letters: what we gave up on, with its reason and its bytes."""

from collections.abc import Sequence
from typing import NamedTuple

from sqlalchemy import Connection, func, select, update

from mailonce.core.ids import ArrivalId
from mailonce.core.query import DeadLetterFilter
from mailonce.store.filters import between, equal
from mailonce.store.ledger import arrivals
from mailonce.store.schema.tables import ATTEMPTS, DEAD_LETTERS

# How an older version noted a dismissal, in the place of the last error.
OLD_NOTE = "dismissed"


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
    # Of one that a person dismissed: by which key, and why.
    dismissed_by: str | None
    dismissed_because: str | None
    raw_bytes: int

    @property
    def is_dismissed(self) -> bool:
        """Whether a person resolved it without a retry."""
        if self.dismissed_by is not None:
            return True
        return self.resolved_ms is not None and (self.last_error or "").startswith(OLD_NOTE)


class StoredDismissal(NamedTuple):
    """When a person dismissed a dead letter, and why."""

    at_ms: int
    because: str | None


# No statement names more deliveries.
IDS_MAX = 500
# A list shows no more of each.
PAGE_RAW_BYTES_MAX = 64 << 10
# Until then letters were cut here; the arrival has the rest, as long as it is kept.
CUT_BYTES = 1 << 20

_OPEN = DEAD_LETTERS.c.resolved_ms.is_(None)
_NAMED = {name: DEAD_LETTERS.c[name] for name in DeadLetter._fields if name != "raw_bytes"} | {
    "raw_bytes": func.length(DEAD_LETTERS.c.raw)
}
_COLUMNS = list(_NAMED.values())
# SQLite's substr makes NULL of bytes that are empty.
_PAGE_RAW = func.coalesce(
    func.substr(DEAD_LETTERS.c.raw, 1, PAGE_RAW_BYTES_MAX), DEAD_LETTERS.c.raw
)
_PAGE_COLUMNS = list((_NAMED | {"raw": _PAGE_RAW}).values())


def page(
    tx: Connection, workspace: str, where: DeadLetterFilter, *, below: bytes | None, limit: int
) -> list[DeadLetter]:
    """List dead letters, newest first, each with the beginning of its bytes."""
    wanted = {"source": where.source, "kind": where.kind, "route": where.route}
    query = select(*_PAGE_COLUMNS).where(
        *equal(DEAD_LETTERS, workspace=workspace, **wanted),
        *between(DEAD_LETTERS.c.failed_ms, where.since_ms, where.until_ms),
        ~_OPEN if where.resolved else _OPEN,
    )
    if where.deliveries is not None:
        query = query.where(DEAD_LETTERS.c.delivery.in_(where.deliveries))
    if below is not None:
        query = query.where(DEAD_LETTERS.c.id < below)
    rows = tx.execute(query.order_by(DEAD_LETTERS.c.id.desc()).limit(limit))
    return [DeadLetter(*row) for row in rows]


def get(tx: Connection, workspace: str, letter: bytes) -> DeadLetter | None:
    is_one = equal(DEAD_LETTERS, id=letter, workspace=workspace)
    row = tx.execute(select(*_COLUMNS).where(*is_one)).first()
    return None if row is None else DeadLetter(*row)


def open_of(tx: Connection, workspace: str, delivery: bytes) -> bytes | None:
    """Find the open letter of a delivery."""
    is_one = (*equal(DEAD_LETTERS, workspace=workspace, delivery=delivery), _OPEN)
    letter: bytes | None = tx.scalar(select(DEAD_LETTERS.c.id).where(*is_one).limit(1))
    return None if letter is None else bytes(letter)


def statuses_of(tx: Connection, letters: Sequence[DeadLetter]) -> dict[bytes, int | None]:
    """Find what the endpoint had answered last when each letter of a delivery was made."""
    owed = {bytes(row.delivery) for row in letters if row.delivery is not None}
    if not owed:
        return {}
    columns = (ATTEMPTS.c.delivery, ATTEMPTS.c.at_ms, ATTEMPTS.c.status)
    query = select(*columns).where(ATTEMPTS.c.delivery.in_(owed)).order_by(ATTEMPTS.c.attempt)
    tries: dict[bytes, list[tuple[int, int | None]]] = {}
    for key, at_ms, status in tx.execute(query):
        tries.setdefault(bytes(key), []).append((at_ms, status))
    return {
        row.id: status
        for row in letters
        for at_ms, status in tries.get(row.delivery or b"", ())
        if at_ms <= row.failed_ms
    }


def dismissals_of(tx: Connection, deliveries: Sequence[bytes]) -> dict[bytes, StoredDismissal]:
    """Find which of these deliveries a person dismissed after they failed for the last time."""
    of = DEAD_LETTERS.c
    columns = (of.delivery, of.dismissed_by, of.resolved_ms, of.dismissed_because)
    last: dict[bytes, StoredDismissal | None] = {}
    for at in range(0, len(deliveries), IDS_MAX):
        some = deliveries[at : at + IDS_MAX]
        query = select(*columns).where(of.delivery.in_(some)).order_by(of.id)
        for key, by, at_ms, because in tx.execute(query):
            last[bytes(key)] = None if by is None else StoredDismissal(at_ms, because)
    return {key: one for key, one in last.items() if one is not None}


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
    wanted = (_OPEN, *equal(DEAD_LETTERS, workspace=workspace))
    return tx.scalar(select(func.count()).where(*wanted)) or 0


def open_by_workspace(tx: Connection) -> dict[str, int]:
    """Count the open dead letters of each workspace that has some."""
    of = DEAD_LETTERS.c.workspace
    query = select(of, func.count()).where(_OPEN).group_by(of)
    return {row[0]: row[1] for row in tx.execute(query)}


def take_open(tx: Connection, workspace: str, letter: bytes) -> bool:
    """Say whether a dead letter is open; nobody else closes it until the transaction ends."""
    is_one = (*equal(DEAD_LETTERS, id=letter, workspace=workspace), _OPEN)
    return tx.scalar(select(DEAD_LETTERS.c.id).where(*is_one).with_for_update()) is not None


def resolve(tx: Connection, workspace: str, letter: bytes, *, now_ms: int) -> bool:
    """Mark a dead letter as resolved by a retry; say whether it was open.

    Whoever dismissed it while it was read again was too late: its events stand.
    """
    if _change_open(tx, workspace, letter, resolved_ms=now_ms):
        return True
    is_one = equal(DEAD_LETTERS, id=letter, workspace=workspace)
    taken_back = {"dismissed_by": None, "dismissed_because": None}
    tx.execute(update(DEAD_LETTERS).where(*is_one).values(**taken_back))
    return False


def dismiss(
    tx: Connection, workspace: str, letter: bytes, *, by: str, because: str | None, now_ms: int
) -> bool:
    """Mark a dead letter as resolved by a person, with a key and why; say whether it was open."""
    changes = {"resolved_ms": now_ms, "dismissed_by": by, "dismissed_because": because}
    return _change_open(tx, workspace, letter, **changes)


def add_reason(tx: Connection, workspace: str, letter: bytes, *, because: str) -> bool:
    """Say why a dead letter was dismissed, where whoever did it had not; tell if so."""
    of = DEAD_LETTERS.c
    statement = update(DEAD_LETTERS).where(
        *equal(DEAD_LETTERS, id=letter, workspace=workspace),
        of.dismissed_by.is_not(None),
        of.dismissed_because.is_(None),
    )
    return tx.execute(statement.values(dismissed_because=because)).rowcount > 0


def fail_again(tx: Connection, workspace: str, letter: bytes, *, error: str, now_ms: int) -> bool:
    """Count one more attempt that failed, and why; say whether the letter was still open."""
    attempts = DEAD_LETTERS.c.attempts + 1
    changes = {"attempts": attempts, "last_error": error, "failed_ms": now_ms}
    return _change_open(tx, workspace, letter, **changes)


def _change_open(tx: Connection, workspace: str, letter: bytes, **values: object) -> bool:
    is_open = (*equal(DEAD_LETTERS, id=letter, workspace=workspace), _OPEN)
    return tx.execute(update(DEAD_LETTERS).where(*is_open).values(**values)).rowcount > 0
