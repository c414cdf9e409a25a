"""Rows of any kind of work in a transaction: a handler's end, lost leases, what is given up."""

from collections.abc import Callable, Mapping, Sequence
from typing import Any

from sqlalchemy import (
    Connection,
    RowMapping,
    func,
    insert,
    literal_column,
    or_,
    select,
    text,
    update,
)

from mailonce.core.work.job import LEASE_LOST, End, LeasedJob, LostLease
from mailonce.core.work.lifecycle import MOVES, Act, Move, end_of_lease
from mailonce.core.work.states import AttemptKind, State
from mailonce.store.dialects.row_locks import free_rows
from mailonce.store.dialects.upsert import insert_missing
from mailonce.store.schema.work_table import DELIVERY_TABLE, WorkTable

_NOTHING: Mapping[str, Any] = {}


def changes(move: Move, *, now_ms: int, lane: int = AttemptKind.FIRST) -> dict[str, Any]:
    """Give the values of a row after a move that has no wait; `lane` is the one it was in."""
    values: dict[str, Any] = {"state": move.state}
    if move.is_end:
        values["done_ms"] = now_ms
    if move.new_round:
        values |= {"round_began": literal_column("attempts"), "done_ms": None}
    if move.again is not None:
        values["again"] = move.again
    if move.lane:
        values["lane"] = max(lane, move.lane)
    if (due_in_ms := move.due_in_ms()) is not None:
        values["due_ms"] = now_ms + due_in_ms
    return values


def complete(
    tx: Connection,
    job: LeasedJob,
    *,
    now_ms: int,
    latency_ms: int = 0,
    table: WorkTable = DELIVERY_TABLE,
) -> bool:
    """End a lease as done, first thing in a handler's own transaction.

    False: the lease was given to somebody else; roll back and change nothing.
    """
    row = table.rows.c
    again = tx.scalar(
        select(row.again).where(
            row.key == job.key, row.token == job.token, row.state == State.LEASED
        )
    )
    if again is None:
        return False
    now = {"key": job.key, "token": job.token, "again": again, "lane": job.lane}
    move = end_of_lease(End.DONE, again=again)
    if not _end_lease(tx, table, now, move, now_ms=now_ms, error=None):
        return False
    began_ms = now_ms - latency_ms
    attempt = _attempt(table, job.key, job.attempt, now_ms=began_ms, latency_ms=latency_ms)
    tx.execute(insert(table.attempts).values(**attempt))
    return True


def note_latency(
    tx: Connection, job: LeasedJob, *, latency_ms: int, table: WorkTable = DELIVERY_TABLE
) -> None:
    """Say how long the attempt took that `complete` wrote down before it began."""
    tried = table.attempts.c
    tx.execute(
        update(table.attempts)
        .where(tried[table.row_of_attempt] == job.key, tried.attempt == job.attempt)
        .values(latency_ms=latency_ms)
    )


def rescue(
    tx: Connection,
    *,
    now_ms: int,
    new_id: Callable[[], bytes],
    lost_max: int,
    most: int,
    of: bytes | None = None,
    alive: Sequence[bytes] | None = None,
    table: WorkTable = DELIVERY_TABLE,
) -> list[LostLease]:
    """Make due again what a worker never finished; after `lost_max` such leases it is dead.

    `now_ms` is the database's. `of`: this worker is gone, so none of its leases counts any more;
    `alive`: there are no other workers than these. Without either, only leases that ran out are
    taken.
    """
    row_ = table.rows.c
    lost = select(table.rows).where(row_.state == State.LEASED)
    if of is not None:
        lost = lost.where(row_.leased_by == of, row_.leased_token == row_.token)
    elif alive is not None:
        # A row of an older version does not say who holds it, or names the holder before.
        holder = func.coalesce(row_.leased_by, b"")
        is_other = row_.leased_token.is_distinct_from(row_.token)
        lost = lost.where(or_(is_other, holder.not_in(alive)))
    else:
        lost = lost.where(row_.lease_ms <= now_ms)
    lost = lost.order_by(row_.lease_ms).limit(most)
    if of is None and alive is None:
        # A row that somebody holds has time until the next look; all other work has not.
        lost = free_rows(tx, lost)
    leases = tx.execute(lost).mappings().all()
    times = _times_lost(tx, table, [row["key"] for row in leases])
    rescued: list[LostLease] = []
    tried: list[dict[str, object]] = []
    dead: list[bytes] = []
    # The key's order is the order of locks in every process.
    for row in sorted(leases, key=lambda row: bytes(row["key"])):
        lost_before = sum(attempt > row["round_began"] for attempt in times[bytes(row["key"])])
        end = End.LOST if lost_before + 1 < lost_max else End.LOST_TOO_OFTEN
        move = end_of_lease(end, again=row["again"])
        more = table.expired(row) if move.state is State.DEAD else table.lost(row)
        # Taking the row first keeps a finish out that comes at the same moment.
        if not _end_lease(tx, table, row, move, now_ms=now_ms, error=LEASE_LOST, more=more):
            continue
        if move.state is State.DEAD:
            dead.append(row["key"])
        tried.append(_attempt(table, row["key"], row["attempts"], now_ms=now_ms, error=LEASE_LOST))
        rescued.append(LostLease(row[table.lane], move.state is State.DEAD))
    # Where the attempt was noted before, that says more.
    insert_missing(tx, table.attempts, tried)
    _keep_letters(tx, table, dead, reason=LEASE_LOST, now_ms=now_ms, new_id=new_id)
    return rescued


def give_up(
    tx: Connection,
    lane: str,
    *,
    reason: str,
    until_ms: int | None,
    now_ms: int,
    new_id: Callable[[], bytes],
    most: int,
    table: WorkTable = DELIVERY_TABLE,
) -> int:
    """Turn what is due on a lane into dead letters; say how many.

    `until_ms` spares what has a later deadline. The bodies never leave the database.
    """
    row = table.rows.c
    wanted = [table.is_state(State.DUE), row[table.lane] == lane]
    if until_ms is not None:
        wanted.append(row.deadline_ms < until_ms)
    phase = literal_column("0") if table.phase is None else row[table.phase]
    by_phase: dict[Any, list[bytes]] = {}
    for key, of_key in tx.execute(select(row.key, phase).where(*wanted).limit(most)):
        by_phase.setdefault(of_key, []).append(key)
    values = changes(MOVES[State.DUE, Act.EXPIRE], now_ms=now_ms)
    dead: list[bytes] = []
    for of_keys, keys in by_phase.items():
        more = {} if table.phase is None else table.expired({table.phase: of_keys})
        # Its state is tested again: a worker may have leased one since it was found.
        same = [] if table.phase is None else [phase == of_keys]
        ended = update(table.rows).where(row.key.in_(keys), *wanted, *same)
        dead += tx.scalars(ended.values(**values | dict(more)).returning(row.key))
    _keep_letters(tx, table, dead, reason=reason, now_ms=now_ms, new_id=new_id)
    return len(dead)


def _times_lost(tx: Connection, table: WorkTable, keys: list[bytes]) -> dict[bytes, list[int]]:
    """List the attempts of each row whose lease was lost before."""
    times: dict[bytes, list[int]] = {bytes(key): [] for key in keys}
    of = table.attempts.c[table.row_of_attempt]
    query = select(of, table.attempts.c.attempt).where(
        of.in_(keys), table.attempts.c.error == LEASE_LOST
    )
    for key, attempt in tx.execute(query) if keys else ():
        times[bytes(key)].append(attempt)
    return times


def _end_lease(
    tx: Connection,
    table: WorkTable,
    now: Mapping[str, Any] | RowMapping,
    move: Move,
    *,
    now_ms: int,
    error: str | None,
    more: Mapping[str, Any] = _NOTHING,
) -> bool:
    """Move a row, unless its lease was given away or a redelivery asked for since it was read."""
    row = table.rows.c
    values = changes(move, now_ms=now_ms, lane=now["lane"])
    values |= {"lease_ms": None, "status": None, "error": error, **more}
    names = ["key", "token", "again"]
    if more and table.phase is not None:
        names.append(table.phase)
    as_read = [row[name] == now[name] for name in names]
    statement = update(table.rows).where(*as_read, row.state == State.LEASED)
    return tx.execute(statement.values(**values)).rowcount > 0


def _attempt(
    table: WorkTable,
    key: bytes,
    attempt: int,
    *,
    now_ms: int,
    latency_ms: int = 0,
    error: str | None = None,
) -> dict[str, object]:
    return {
        table.row_of_attempt: key,
        "attempt": attempt,
        "at_ms": now_ms,
        "latency_ms": latency_ms,
        "error": error,
    }


def _keep_letters(
    tx: Connection,
    table: WorkTable,
    dead: Sequence[bytes],
    *,
    reason: str,
    now_ms: int,
    new_id: Callable[[], bytes],
) -> None:
    if dead and table.letter:
        letters = [
            {"letter": new_id(), "key": key, "reason": reason, "now": now_ms} for key in dead
        ]
        tx.execute(text(table.letter_sql(tx.dialect.name)), letters)
