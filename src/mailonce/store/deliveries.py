"""Deliveries in a transaction of somebody else's: a handler's end, and leases that ran out."""

from collections.abc import Callable

from sqlalchemy import Connection, RowMapping, insert, select, update

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
    began_ms = now_ms - latency_ms
    row = _attempt(job.key, job.attempt, now_ms=began_ms, latency_ms=latency_ms)
    tx.execute(insert(ATTEMPTS).values(**row))
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
    of: bytes | None = None,
) -> list[Rescued]:
    """Make due again what a worker never finished; after `lost_max` such leases it is dead.

    `now_ms` is the database's. `of`: this worker is gone, so none of its leases counts any more;
    `everyone`: no worker can be alive. Otherwise only leases that ran out are taken.
    """
    lost = select(DELIVERIES).where(_D.state == State.LEASED)
    if of is not None:
        lost = lost.where(_D.leased_by == of, _D.leased_token == _D.token)
    elif not everyone:
        lost = lost.where(_D.lease_ms <= now_ms)
    found = tx.execute(lost.order_by(_D.lease_ms).limit(most)).mappings().all()
    times = _times_lost(tx, [row["key"] for row in found])
    rescued: list[Rescued] = []
    tried: list[dict[str, object]] = []
    # The key's order is the order of locks in every process.
    for row in sorted(found, key=lambda row: bytes(row["key"])):
        lost_before = sum(attempt > row["round_began"] for attempt in times[bytes(row["key"])])
        is_dead = lost_before + 1 >= lost_max and not row["again"]
        # Taking the row first keeps a finish out that comes at the same moment.
        if not _end_lease(tx, row, now_ms=now_ms, is_dead=is_dead):
            continue
        if is_dead:
            _insert_letter(tx, row, letter=new_id(), now_ms=now_ms)
        tried.append(_attempt(row["key"], row["attempts"], now_ms=now_ms, error=LEASE_LOST))
        rescued.append(Rescued(row["route"], is_dead))
    if tried:
        tx.execute(insert(ATTEMPTS), tried)
    return rescued


def _times_lost(tx: Connection, keys: list[bytes]) -> dict[bytes, list[int]]:
    """List the attempts of each delivery whose lease was lost before."""
    times: dict[bytes, list[int]] = {bytes(key): [] for key in keys}
    query = select(ATTEMPTS.c.delivery, ATTEMPTS.c.attempt).where(
        ATTEMPTS.c.delivery.in_(keys), ATTEMPTS.c.error == LEASE_LOST
    )
    for key, attempt in tx.execute(query) if keys else ():
        times[bytes(key)].append(attempt)
    return times


def _end_lease(tx: Connection, row: RowMapping, *, now_ms: int, is_dead: bool) -> bool:
    values: dict[str, object] = {"state": State.DUE, "due_ms": now_ms}
    if is_dead:
        values = {"state": State.DEAD, "done_ms": now_ms}
    elif row["again"]:
        values |= {"lane": Lane.REDELIVERY, "again": False, "round_began": row["attempts"]}
    else:
        values |= {"lane": max(row["lane"], Lane.RETRY)}
    taken = tx.execute(
        update(DELIVERIES)
        .where(
            _D.key == row["key"],
            _D.token == row["token"],
            _D.state == State.LEASED,
            _D.again == row["again"],
        )
        .values(lease_ms=None, error=LEASE_LOST, status=None, **values)
    )
    return taken.rowcount > 0


def _attempt(
    key: bytes, attempt: int, *, now_ms: int, latency_ms: int = 0, error: str | None = None
) -> dict[str, object]:
    return {
        "delivery": key,
        "attempt": attempt,
        "at_ms": now_ms,
        "latency_ms": latency_ms,
        "error": error,
    }


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
