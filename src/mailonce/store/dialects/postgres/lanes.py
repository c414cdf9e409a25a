"""Lanes and workers on PostgreSQL: who holds what, and who is alive.

Times are compared with statement_timestamp(), as in `postgres_leases.py`.
"""

from collections.abc import Awaitable, Callable, Mapping, Sequence
from typing import Any

from mailonce.core.work.job import PeerWorker
from mailonce.store.dialects.contract import NONE_DOWN, Presence
from mailonce.store.dialects.postgres.claim_keys_sql import NOW_MS
from mailonce.store.dialects.postgres.presence import SESSION_LOCKS, PostgresPresence
from mailonce.store.dialects.postgres.session import PostgresServer

Run = Callable[[Callable[[Any], Awaitable[Any]]], Awaitable[Any]]

HOLD = f"""
WITH free AS (
    SELECT lanes.route, want.down_in_ms
    FROM lanes JOIN unnest($2::text[], $4::bigint[]) AS want (route, down_in_ms)
        ON lanes.route = want.route
    WHERE owner = $1 OR until_ms <= {NOW_MS}
    ORDER BY lanes.route FOR UPDATE OF lanes SKIP LOCKED
)
UPDATE lanes SET owner = $1, until_ms = {NOW_MS} + $3,
    down_ms = coalesce({NOW_MS} + free.down_in_ms, 0)
FROM free WHERE lanes.route = free.route RETURNING lanes.route
"""  # noqa: S608

# What a worker that is gone said ends with its hold.
HELD_DOWN = f"SELECT route, down_ms FROM lanes WHERE until_ms > {NOW_MS}"  # noqa: S608
LET_GO = "UPDATE lanes SET owner = '', until_ms = 0 WHERE owner = $1 AND route = ANY($2::text[])"
LET_GO_ALL = """
WITH _gone AS (DELETE FROM workers WHERE owner = $1)
UPDATE lanes SET owner = '', until_ms = 0 WHERE owner = $1
"""
# A worker that ended without a session and without signing off is deleted after a day.
ATTEND = f"""
WITH _old AS (DELETE FROM workers WHERE until_ms < {NOW_MS} - 86400000 AND owner <> $1)
INSERT INTO workers (owner, session, until_ms) VALUES ($1, $2, {NOW_MS} + $3)
ON CONFLICT (owner) DO UPDATE SET session = excluded.session, until_ms = excluded.until_ms
"""  # noqa: S608
# A lock that we can have is held by nobody: its session has ended. Ours is over at once.
CREW = f"""
SELECT owner, until_ms > {NOW_MS},
       coalesce(pg_try_advisory_xact_lock_shared({SESSION_LOCKS}, session), false),
       (SELECT count(*) FROM lanes WHERE lanes.owner = workers.owner AND lanes.until_ms > {NOW_MS})
FROM workers
"""  # noqa: S608


class PostgresLanes:
    """Lanes and workers; `run` gives a connection and translates its errors."""

    def __init__(self, run: Run, server: PostgresServer) -> None:
        self._run = run
        self._server = server

    async def begin(self, owner: bytes) -> None:
        """Nothing is free for sure: other processes may be alive."""

    async def open_presence(self, owner: bytes, lost: Callable[[], None]) -> Presence | None:
        """Open a connection of its own that holds the worker's lock."""
        return await PostgresPresence.open(self._server, owner, lost)

    async def hold(
        self,
        lanes: Sequence[str],
        *,
        owner: bytes,
        hold_ms: int,
        down_in_ms: Mapping[str, int] = NONE_DOWN,
    ) -> set[str]:
        """Take or keep lanes; those that another worker is just taking are skipped."""
        down = [down_in_ms.get(lane) for lane in lanes]
        rows = await self._run(lambda c: c.fetch(HOLD, owner, list(lanes), hold_ms, down))
        return {row[0] for row in rows}

    async def held_down(self) -> dict[str, int]:
        rows = await self._run(lambda c: c.fetch(HELD_DOWN))
        return {row[0]: row[1] for row in rows}

    async def let_go(self, owner: bytes, lanes: Sequence[str] | None = None) -> None:
        """Give lanes back; with all of them, the owner's place among the workers."""
        if lanes is None:
            await self._run(lambda c: c.execute(LET_GO_ALL, owner))
        else:
            await self._run(lambda c: c.execute(LET_GO, owner, list(lanes)))

    async def attend(self, owner: bytes, *, session: int | None, hold_ms: int) -> None:
        await self._run(lambda c: c.execute(ATTEND, owner, session, hold_ms))

    async def crew(self) -> list[PeerWorker]:
        """Try the lock of each."""
        rows = await self._run(lambda c: c.fetch(CREW))
        return [PeerWorker(*row) for row in rows]
