"""Leases and their ends on SQLite: short transactions on the writer thread.

There is one writer, so a lease needs no SKIP LOCKED; SQLite would drop it silently anyway.
"""

import sqlite3
from collections.abc import Callable, Sequence
from typing import TypeVar

from mailonce.core.delivery import DeliveryKey, Lane
from mailonce.core.job import Colleague, End, Finish, Leased, Look, Owed, Want
from mailonce.store.dialects.contract import Priority, RowError
from mailonce.store.dialects.sqlite_writer import Writer, unavailable

T = TypeVar("T")

HOLD = """
UPDATE lanes SET owner = :owner, until_ms = :until
WHERE route = :route AND (owner = :owner OR until_ms <= :now)
"""
HOLDS = "SELECT 1 FROM lanes WHERE route = ? AND owner = ? AND until_ms > ?"
LET_GO = "UPDATE lanes SET owner = x'', until_ms = 0 WHERE owner = ? AND route = ?"
LET_GO_ALL = "UPDATE lanes SET owner = x'', until_ms = 0 WHERE owner = ?"
FREE_ALL = "UPDATE lanes SET owner = x'', until_ms = 0 WHERE owner <> x''"
DUE = """
SELECT d.key, d.token + 1, d.route, d.lane, d.attempts + 1, d.round_began, d.redeliveries,
       d.deadline_ms - :now, d.made_ms, coalesce(d.body, e.body)
FROM deliveries AS d LEFT JOIN events AS e ON e.day = d.day AND e.id = d.event
WHERE d.route = :route AND d.lane = :lane AND d.state = 0 AND d.due_ms <= :now
ORDER BY d.due_ms LIMIT :most
"""
TAKE = """
UPDATE deliveries SET state = 1, token = token + 1, attempts = attempts + 1, lease_ms = ?,
    leased_by = ?, leased_token = token + 1
WHERE key = ?
"""
FINISH = """
UPDATE deliveries SET
    state = CASE WHEN :end = 3 OR again THEN 0 WHEN :end = 0 THEN 2 WHEN :end = 1 THEN 0 ELSE 3 END,
    lane = CASE WHEN :end = 3 THEN lane WHEN again THEN 2
                WHEN :end = 1 THEN max(lane, 1) ELSE lane END,
    due_ms = CASE WHEN :end = 3 THEN due_ms WHEN again THEN :now
                  WHEN :end = 1 THEN :now + :wait_ms ELSE due_ms END,
    attempts = attempts - (:end = 3),
    round_began = CASE WHEN again AND :end <> 3 THEN attempts ELSE round_began END,
    again = again AND :end = 3,
    lease_ms = NULL,
    done_ms = CASE WHEN :end IN (0, 2) AND NOT again THEN :now ELSE done_ms END,
    status = CASE WHEN :end = 3 THEN status ELSE :status END,
    error = CASE WHEN :end = 3 THEN error ELSE :error END
WHERE key = :key AND token = :token AND state = 1
RETURNING state
"""
TRIED = "INSERT OR IGNORE INTO attempts VALUES (?,?,?,?,?,?,?)"
LETTER = """
INSERT OR IGNORE INTO dead_letters (id, workspace, source, kind, arrival, arrival_key, position,
    reason, attempts, failed_ms, raw, resolved_ms, route, delivery, last_error)
SELECT :letter, d.workspace, coalesce(e.source, ''), 'delivery', coalesce(e.arrival, x''), :hex, 0,
       :reason, :attempt, :now, coalesce(d.body, e.body, x''), NULL, d.route, d.key, :error
FROM deliveries AS d LEFT JOIN events AS e ON e.day = d.day AND e.id = d.event WHERE d.key = :key
"""
FIRST_ROUTE = "SELECT route FROM deliveries WHERE state = 0 AND route > ? ORDER BY route LIMIT 1"
LOST = "SELECT 1 FROM deliveries WHERE state = 1 AND lease_ms <= ? LIMIT 1"
EARLIEST = """
SELECT due_ms FROM deliveries WHERE route = ? AND lane = ? AND state = 0 ORDER BY due_ms LIMIT 1
"""


class SqliteDeliveries:
    """What is owed, behind whatever the door and the API have to write."""

    def __init__(
        self, connection: sqlite3.Connection, writer: Writer, *, now_ms: Callable[[], int]
    ) -> None:
        self._connection = connection
        self._writer = writer
        self._now_ms = now_ms

    async def begin(self) -> bool:
        """Free every lane: there is one process, and it holds none yet."""
        await self._write(lambda _: self._connection.execute(FREE_ALL))
        return True

    async def open_presence(self, owner: bytes, lost: Callable[[], None]) -> None:
        """There is nobody to see it."""

    async def hold(self, routes: Sequence[str], *, owner: bytes, hold_ms: int) -> set[str]:
        """Take or keep lanes."""

        def work(now_ms: int) -> set[str]:
            held = set()
            for route in routes:
                values = {"owner": owner, "until": now_ms + hold_ms, "route": route, "now": now_ms}
                if self._connection.execute(HOLD, values).rowcount:
                    held.add(route)
            return held

        return await self._write(work)

    async def let_go(self, owner: bytes, routes: Sequence[str] | None = None) -> None:
        """Give lanes back."""

        def work(_: int) -> None:
            if routes is None:
                self._connection.execute(LET_GO_ALL, (owner,))
            else:
                self._connection.executemany(LET_GO, [(owner, route) for route in routes])

        await self._write(work)

    async def attend(self, owner: bytes, *, session: int | None, hold_ms: int) -> None:
        """Nobody else asks: there is one process."""

    async def crew(self) -> list[Colleague]:
        """Find nobody: there is one process."""
        return []

    async def lease(self, wants: Sequence[Want], *, owner: bytes) -> list[Leased]:
        """Lease what is due, lane by lane."""

        def work(now_ms: int) -> list[Leased]:
            leased: list[Leased] = []
            for want in wants:
                if self._connection.execute(HOLDS, (want.route, owner, now_ms)).fetchone():
                    leased += self._lease(want, owner, now_ms)
            return leased

        return await self._write(work)

    def _lease(self, want: Want, owner: bytes, now_ms: int) -> list[Leased]:
        leased: list[Leased] = []
        for lane in want.lanes:
            left = want.most - len(leased)
            if not left:
                break
            values = {"route": want.route, "lane": lane, "now": now_ms, "most": left}
            rows = self._connection.execute(DUE, values).fetchall()
            leased += (Leased(*row) for row in rows)
        until_ms = now_ms + want.lease_ms
        self._connection.executemany(TAKE, [(until_ms, owner, one.key) for one in leased])
        return leased

    async def finish(self, finishes: Sequence[Finish]) -> set[DeliveryKey]:
        """End leases, one by one in one transaction."""

        def work(now_ms: int) -> set[DeliveryKey]:
            return {one.key for one in finishes if self._finish(one, now_ms)}

        return await self._write(work)

    def _finish(self, one: Finish, now_ms: int) -> bool:
        values = {
            "key": one.key, "token": one.token, "end": one.end, "wait_ms": one.wait_ms,
            "status": one.status, "error": one.error, "now": now_ms, "letter": one.letter,
            "reason": one.reason, "attempt": one.attempt, "hex": one.key.hex(),
        }  # fmt: skip
        row = self._connection.execute(FINISH, values).fetchone()
        if row is None:
            return False
        if one.end is not End.UNTRIED:
            at_ms = now_ms - one.began_ms
            tried = (one.key, one.attempt, at_ms, one.latency_ms, one.status, one.error, one.answer)
            self._connection.execute(TRIED, tried)
        if row[0] == 3:
            self._connection.execute(LETTER, values)
        return True

    async def look(self) -> Look:
        """Step through the index of what is due."""

        def work(now_ms: int) -> Look:
            found: list[Owed] = []
            route = ""
            while row := self._connection.execute(FIRST_ROUTE, (route,)).fetchone():
                route = row[0]
                firsts = (
                    self._connection.execute(EARLIEST, (route, int(lane))).fetchone()
                    for lane in Lane
                )
                found.append(Owed(route, min(first[0] for first in firsts if first) - now_ms))
            lost = self._connection.execute(LOST, (now_ms,)).fetchone()
            return Look(now_ms, found, lost is not None)

        return await self._writer.run(Priority.WORKER, lambda: self._guarded(work, begins=False))

    async def _write(self, work: Callable[[int], T]) -> T:
        return await self._writer.run(Priority.WORKER, lambda: self._guarded(work, begins=True))

    def _guarded(self, work: Callable[[int], T], *, begins: bool) -> T:
        run = self._connection.execute
        try:
            if not begins:
                return work(self._now_ms())
            run("BEGIN IMMEDIATE")
            try:
                result = work(self._now_ms())
                run("COMMIT")
            except BaseException:
                if self._connection.in_transaction:
                    run("ROLLBACK")
                raise
        except (ValueError, OverflowError, sqlite3.DataError, sqlite3.InterfaceError) as error:
            raise RowError(f"SQLite cannot hold a value: {type(error).__name__}") from error
        except sqlite3.Error as error:
            raise unavailable(error) from error
        return result
