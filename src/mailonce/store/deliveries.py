"""Deliveries in a transaction of somebody else's: a handler's end, and leases that ran out."""

from collections.abc import Callable

from sqlalchemy import Connection, RowMapping, func, insert, select, update

from mailonce.core.delivery import Lane, State
from mailonce.core.job import LEASE_LOST, Leased, Rescued
from mailonce.store.tables import ATTEMPTS, DEAD_LETTERS, DELIVERIES, EVENTS

_D = DELIVERIES.c


def complete(tx: Connection, job: Leased, *, now_ms: int, latency_ms: int = 0) -> bool:
    """End a lease as done, first thing in a handler's own transaction.

    False: the lease was given to somebody else; roll back and change nothing.
    """
    is_again = tx.scalar(
        select(_D.again).where(_D.key == job.key, _D.token == job.token, _D.state == State.LEASED)
    )
    if is_again is None:
        return False
    ends = {"state": State.DONE, "done_ms": now_ms}
    begins = {
        "state": State.DUE, "lane": Lane.REDELIVERY, "due_ms": now_ms, "again": False,
        "round_began": _D.attempts,
    }  # fmt: skip
    changed = tx.execute(
        update(DELIVERIES)
        .where(
            _D.key == job.key,
            _D.token == job.token,
            _D.state == State.LEASED,
            _D.again == is_again,
        )
        .values(lease_ms=None, status=None, error=None, **(begins if is_again else ends))
    )
    if not changed.rowcount:
        return False
    _insert_attempt(tx, job.key, job.attempt, now_ms=now_ms - latency_ms, latency_ms=latency_ms)
    return True


def note_latency(tx: Connection, job: Leased, *, latency_ms: int) -> None:
    """Say how long the attempt took that `complete` wrote down before it began."""
    tx.execute(
        update(ATTEMPTS)
        .where(ATTEMPTS.c.delivery == job.key, ATTEMPTS.c.attempt == job.attempt)
        .values(latency_ms=latency_ms)
    )


def rescue(
    tx: Connection,
    *,
    now_ms: int,
    new_id: Callable[[], bytes],
    lost_max: int,
    most: int,
    everyone: bool = False,
) -> list[Rescued]:
    """Make due again what a worker never finished; after `lost_max` such leases it is dead.

    `now_ms` is the database's. `everyone`: no worker can be alive, so no lease counts any more.
    """
    lost = select(_D.key, _D.token).where(_D.state == State.LEASED)
    if not everyone:
        lost = lost.where(_D.lease_ms <= now_ms)
    found = tx.execute(lost.order_by(_D.lease_ms).limit(most)).all()
    rescued = []
    # The key's order is the order of locks in every process.
    for key, token in sorted((bytes(row[0]), row[1]) for row in found):
        one = _rescue(tx, key, token, now_ms=now_ms, new_id=new_id, lost_max=lost_max)
        if one is not None:
            rescued.append(one)
    return rescued


def _rescue(
    tx: Connection,
    key: bytes,
    token: int,
    *,
    now_ms: int,
    new_id: Callable[[], bytes],
    lost_max: int,
) -> Rescued | None:
    # Taking the row first keeps a finish out that comes at the same moment.
    taken = tx.execute(
        update(DELIVERIES)
        .where(_D.key == key, _D.token == token, _D.state == State.LEASED)
        .values(state=State.DUE, due_ms=now_ms, lease_ms=None, error=LEASE_LOST, status=None)
    )
    if not taken.rowcount:
        return None
    row = tx.execute(select(DELIVERIES).where(_D.key == key)).mappings().one()
    _insert_attempt(tx, key, row["attempts"], now_ms=now_ms, error=LEASE_LOST)
    times = tx.scalar(
        select(func.count()).where(
            ATTEMPTS.c.delivery == key,
            ATTEMPTS.c.error == LEASE_LOST,
            ATTEMPTS.c.attempt > row["round_began"],
        )
    )
    is_dead = (times or 0) >= lost_max and not row["again"]
    if is_dead:
        values = {"state": State.DEAD, "done_ms": now_ms}
        _insert_letter(tx, row, letter=new_id(), now_ms=now_ms)
    elif row["again"]:
        values = {"lane": Lane.REDELIVERY, "again": False, "round_began": row["attempts"]}
    else:
        values = {"lane": max(row["lane"], Lane.RETRY)}
    tx.execute(update(DELIVERIES).where(_D.key == key).values(**values))
    return Rescued(row["route"], is_dead)


def _insert_attempt(
    tx: Connection,
    key: bytes,
    attempt: int,
    *,
    now_ms: int,
    latency_ms: int = 0,
    error: str | None = None,
) -> None:
    tx.execute(
        insert(ATTEMPTS).values(
            delivery=key, attempt=attempt, at_ms=now_ms, latency_ms=latency_ms, error=error
        )
    )


def _insert_letter(tx: Connection, row: RowMapping, *, letter: bytes, now_ms: int) -> None:
    origin = tx.execute(
        select(EVENTS.c.source, EVENTS.c.arrival, EVENTS.c.body).where(
            EVENTS.c.day == row["day"], EVENTS.c.id == row["event"]
        )
    ).first()
    source, arrival, body = origin or ("", b"", None)
    tx.execute(
        insert(DEAD_LETTERS).values(
            id=letter,
            workspace=row["workspace"],
            source=source,
            kind="delivery",
            arrival=arrival,
            arrival_key=bytes(row["key"]).hex(),
            position=0,
            reason=LEASE_LOST,
            attempts=row["attempts"],
            failed_ms=now_ms,
            raw=row["body"] or body or b"",
            route=row["route"],
            delivery=row["key"],
            last_error=LEASE_LOST,
        )
    )
