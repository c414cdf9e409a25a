"""Lanes, leases and their ends on SQLite: short transactions on the writer thread.

There is one writer, so a lease needs no SKIP LOCKED; SQLite would drop it silently anyway.
"""

import sqlite3
from collections.abc import Callable, Mapping, Sequence
from typing import TypeVar

from mailonce.core.work.job import (
    Finish,
    LeasedJob,
    LeaseRenewal,
    LeaseRequest,
    Look,
    OwedLane,
    PeerWorker,
)
from mailonce.core.work.states import AttemptKind, State, WorkKey
from mailonce.store.dialects import lease_end_sql
from mailonce.store.dialects.contract import NONE_DOWN, Priority, RowError
from mailonce.store.dialects.writer_thread import Writer, unavailable
from mailonce.store.schema.work_table import WorkTable

T = TypeVar("T")

HOLD = """
UPDATE lanes SET owner = :owner, until_ms = :until
WHERE route = :route AND (owner = :owner OR until_ms <= :now)
"""
HOLDS = "SELECT 1 FROM lanes WHERE route = ? AND owner = ? AND until_ms > ?"
LET_GO = "UPDATE lanes SET owner = x'', until_ms = 0 WHERE owner = ? AND route = ?"
LET_GO_ALL = "UPDATE lanes SET owner = x'', until_ms = 0 WHERE owner = ?"
HOLDERS = "SELECT DISTINCT owner FROM lanes WHERE owner <> x''"
# A worker that lost the lease changes nothing.
FENCE = "WHERE d.key = :key AND d.token = :token AND d.state = 1"


class WorkerTurns:
    """Transactions behind whatever the door and the API have to write."""

    def __init__(
        self, connection: sqlite3.Connection, writer: Writer, *, now_ms: Callable[[], int]
    ) -> None:
        self.connection = connection
        self._writer = writer
        self._now_ms = now_ms

    async def read(self, work: Callable[[int], T]) -> T:
        """Run `work` without a transaction; it is given the time."""
        return await self._writer.run(Priority.WORKER, lambda: self._guarded(work, begins=False))

    async def write(self, work: Callable[[int], T]) -> T:
        """Run `work` in a transaction; it is given the time."""
        return await self._writer.run(Priority.WORKER, lambda: self._guarded(work, begins=True))

    def _guarded(self, work: Callable[[int], T], *, begins: bool) -> T:
        run = self.connection.execute
        try:
            if not begins:
                return work(self._now_ms())
            run("BEGIN IMMEDIATE")
            try:
                result = work(self._now_ms())
                run("COMMIT")
            except BaseException:
                if self.connection.in_transaction:
                    run("ROLLBACK")
                raise
        except (ValueError, OverflowError, sqlite3.DataError, sqlite3.InterfaceError) as error:
            raise RowError(f"SQLite cannot hold a value: {type(error).__name__}") from error
        except sqlite3.Error as error:
            raise unavailable(error) from error
        return result


class SqliteLanes:
    """Lanes, all of one process."""

    def __init__(self, turns: WorkerTurns) -> None:
        self._turns = turns
        self._connection = turns.connection
        # The workers of this process, and so of all: no other process can open the file.
        self._alive: set[bytes] = set()

    async def begin(self, owner: bytes) -> Sequence[bytes]:
        """Free the lanes that no worker of this process holds."""
        self._alive.add(owner)
        alive = tuple(self._alive)

        def work(_: int) -> None:
            holders = self._connection.execute(HOLDERS).fetchall()
            gone = [(holder,) for (holder,) in holders if holder not in alive]
            self._connection.executemany(LET_GO_ALL, gone)

        await self._turns.write(work)
        return alive

    async def open_presence(self, owner: bytes, lost: Callable[[], None]) -> None:
        """There is no other worker to see it."""

    async def hold(
        self,
        lanes: Sequence[str],
        *,
        owner: bytes,
        hold_ms: int,
        down_in_ms: Mapping[str, int] = NONE_DOWN,
    ) -> set[str]:
        """Take or keep lanes; nobody else asks which endpoints are down."""
        del down_in_ms

        def work(now_ms: int) -> set[str]:
            held = set()
            for route in lanes:
                values = {"owner": owner, "until": now_ms + hold_ms, "route": route, "now": now_ms}
                if self._connection.execute(HOLD, values).rowcount:
                    held.add(route)
            return held

        return await self._turns.write(work)

    async def held_down(self) -> dict[str, int]:
        """Say nothing: there is one process, which knows it."""
        return {}

    async def let_go(self, owner: bytes, lanes: Sequence[str] | None = None) -> None:
        """Give lanes back; with all of them, the owner's place among the workers."""

        def work(_: int) -> None:
            if lanes is None:
                self._connection.execute(LET_GO_ALL, (owner,))
            else:
                self._connection.executemany(LET_GO, [(owner, route) for route in lanes])

        await self._turns.write(work)
        if lanes is None:
            self._alive.discard(owner)

    async def attend(self, owner: bytes, *, session: int | None, hold_ms: int) -> None:
        """Nobody else asks: there is one process."""

    async def crew(self) -> list[PeerWorker]:
        """Find nobody: there is one process."""
        return []


class SqliteLeases:
    """The leases of one kind of work; its statements are built once, as it is opened."""

    def __init__(self, table: WorkTable, turns: WorkerTurns) -> None:
        self._turns = turns
        self._connection = turns.connection
        self._keeps_letters = bool(table.letter)
        name, lane = table.name, table.lane
        self._due = f"""
            SELECT d.key, d.token + 1, d.{lane}, d.lane, d.attempts + 1, d.round_began,
                   d.redeliveries, d.deadline_ms - :now, d.made_ms, {table.body}
            FROM {name} AS d {table.body_join}
            WHERE d.{lane} = :route AND d.lane = :lane AND d.state = 0 AND d.due_ms <= :now
            ORDER BY d.due_ms LIMIT :most
        """  # noqa: S608
        self._take = f"""
            UPDATE {name} SET state = 1, token = token + 1, attempts = attempts + 1, lease_ms = ?,
                leased_by = ?, leased_token = token + 1
            WHERE key = ?
        """  # noqa: S608
        ends = lease_end_sql.end_values(":", now=":now", later="max")
        self._end = f"UPDATE {name} AS d SET {ends} {FENCE} RETURNING state, attempts"  # noqa: S608
        self._give_back = (
            f"UPDATE {name} AS d SET {lease_end_sql.GIVE_BACK} {FENCE} RETURNING state"  # noqa: S608
        )
        self._renew = (
            f"UPDATE {name} AS d SET lease_ms = :now + :lease_ms {FENCE} AND d.lease_ms > :now"  # noqa: S608
        )
        self._tried = f"""
            INSERT OR IGNORE INTO {table.attempts.name}
                ({table.row_of_attempt}, attempt, at_ms, latency_ms, status, error, answer)
            VALUES (:key, :attempt, :now - :latency_ms, :latency_ms, :status, :error, :answer)
        """  # noqa: S608
        self._letter = table.letter_sql("sqlite")
        self._first_lane = f"""
            SELECT {lane} FROM {name} WHERE state = 0 AND {lane} > ? ORDER BY {lane} LIMIT 1
        """  # noqa: S608
        self._earliest = f"""
            SELECT due_ms FROM {name} WHERE {lane} = ? AND lane = ? AND state = 0
            ORDER BY due_ms LIMIT 1
        """  # noqa: S608
        self._lost = f"SELECT 1 FROM {name} WHERE state = 1 AND lease_ms <= ? LIMIT 1"  # noqa: S608

    async def lease(self, wants: Sequence[LeaseRequest], *, owner: bytes) -> list[LeasedJob]:
        """Lease what is due, lane by lane."""

        def work(now_ms: int) -> list[LeasedJob]:
            leased: list[LeasedJob] = []
            for want in wants:
                if self._connection.execute(HOLDS, (want.route, owner, now_ms)).fetchone():
                    leased += self._lease(want, owner, now_ms)
            return leased

        return await self._turns.write(work)

    def _lease(self, want: LeaseRequest, owner: bytes, now_ms: int) -> list[LeasedJob]:
        leased: list[LeasedJob] = []
        for lane in want.lanes:
            left = want.most - len(leased)
            if not left:
                break
            values = {"route": want.route, "lane": lane, "now": now_ms, "most": left}
            rows = self._connection.execute(self._due, values).fetchall()
            leased += (LeasedJob(*row) for row in rows)
        until_ms = now_ms + want.lease_ms
        self._connection.executemany(self._take, [(until_ms, owner, one.key) for one in leased])
        return leased

    async def renew(self, renewals: Sequence[LeaseRenewal]) -> set[WorkKey]:
        """Renew leases, one by one in one transaction."""

        def work(now_ms: int) -> set[WorkKey]:
            run = self._connection.execute
            return {
                one.key
                for one in renewals
                if run(self._renew, one._asdict() | {"now": now_ms}).rowcount
            }

        return await self._turns.write(work)

    async def finish(self, finishes: Sequence[Finish]) -> set[WorkKey]:
        """End leases, one by one in one transaction."""

        def work(now_ms: int) -> set[WorkKey]:
            return {one.key for one in finishes if self._finish(one, now_ms)}

        return await self._turns.write(work)

    def _finish(self, one: Finish, now_ms: int) -> bool:
        values = one._asdict() | {"now": now_ms}
        if not one.counts:
            return self._connection.execute(self._give_back, values).fetchone() is not None
        row = self._connection.execute(self._end, values).fetchone()
        if row is None:
            return False
        state, attempts = row
        self._connection.execute(self._tried, values | {"attempt": attempts})
        if state == State.DEAD and self._keeps_letters:
            self._connection.execute(self._letter, values)
        return True

    async def look(self) -> Look:
        """Step through the index of what is due."""

        def work(now_ms: int) -> Look:
            owed: list[OwedLane] = []
            route = ""
            while row := self._connection.execute(self._first_lane, (route,)).fetchone():
                route = row[0]
                firsts = (
                    self._connection.execute(self._earliest, (route, int(lane))).fetchone()
                    for lane in AttemptKind
                )
                owed.append(OwedLane(route, min(first[0] for first in firsts if first) - now_ms))
            lost = self._connection.execute(self._lost, (now_ms,)).fetchone()
            return Look(now_ms, owed, lost is not None)

        return await self._turns.read(work)
