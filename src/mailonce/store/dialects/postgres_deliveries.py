"""Leases and their ends on PostgreSQL: one statement for many deliveries, through asyncpg.

Due and lease times are compared with statement_timestamp(): clock_timestamp() is volatile, and a
volatile bound makes the index a filter that reads the whole backlog. A plan is made once, while the
tables are small: where rows are found by their key, no word about `state` may lead it to the index
of all that is due or leased (`+ 0` hides it).
"""

from collections.abc import Awaitable, Callable, Sequence
from typing import Any

from mailonce.core.delivery import DeliveryKey, Lane
from mailonce.core.job import Colleague, End, Finish, Leased, Look, Owed, Want
from mailonce.store.dialects.contract import Presence
from mailonce.store.dialects.postgres_presence import SESSION_LOCKS, PostgresPresence
from mailonce.store.dialects.postgres_session import PostgresServer
from mailonce.store.dialects.postgres_sql import NOW_MS

HOLD = f"""
WITH free AS (
    SELECT route FROM lanes
    WHERE route = ANY($2::text[]) AND (owner = $1 OR until_ms <= {NOW_MS})
    ORDER BY route FOR UPDATE SKIP LOCKED
)
UPDATE lanes SET owner = $1, until_ms = {NOW_MS} + $3
FROM free WHERE lanes.route = free.route RETURNING lanes.route
"""  # noqa: S608

LET_GO = "UPDATE lanes SET owner = '', until_ms = 0 WHERE owner = $1 AND route = ANY($2::text[])"
LET_GO_ALL = """
WITH _gone AS (DELETE FROM workers WHERE owner = $1)
UPDATE lanes SET owner = '', until_ms = 0 WHERE owner = $1
"""
# Whoever left without a word and without a session is forgotten after a day.
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

_DUE = f"""
        SELECT key FROM (
            SELECT key FROM deliveries
            WHERE route = w.route AND lane = w.{{lane}} AND state = 0 AND due_ms <= {NOW_MS}
            ORDER BY due_ms LIMIT w.most FOR UPDATE SKIP LOCKED
        ) AS in_{{lane}}
"""  # noqa: S608

# The lanes are read in turn and no further than needed: a row that is not taken is not locked.
LEASE = f"""
WITH picked AS MATERIALIZED (
    SELECT due.key, w.lease_ms
    FROM unnest($2::text[], $3::int[], $4::bigint[], $5::smallint[], $6::smallint[],
                $7::smallint[]) AS w (route, most, lease_ms, first, second, third)
    JOIN lanes ON lanes.route = w.route AND lanes.owner = $1 AND lanes.until_ms > {NOW_MS}
    CROSS JOIN LATERAL (
        {_DUE.format(lane="first")} UNION ALL {_DUE.format(lane="second")}
        UNION ALL {_DUE.format(lane="third")} LIMIT w.most
    ) AS due
), leased AS (
    UPDATE deliveries AS d SET
        state = 1, token = token + 1, attempts = attempts + 1, lease_ms = {NOW_MS} + p.lease_ms,
        leased_by = $1, leased_token = token + 1
    FROM picked AS p WHERE d.key = p.key
    RETURNING d.key, token, route, lane, attempts, round_began, redeliveries,
              deadline_ms - {NOW_MS} AS left_ms, made_ms, body, day, event
)
SELECT l.key, token, route, lane, attempts, round_began, redeliveries, left_ms, made_ms,
       coalesce(l.body, e.body)
FROM leased AS l LEFT JOIN events AS e ON l.body IS NULL AND e.day = l.day AND e.id = l.event
"""  # noqa: S608

_FINISH = f"""
WITH ended AS (
    UPDATE deliveries AS d SET
        state = CASE WHEN r.ending = 3 OR again THEN 0 ELSE (ARRAY[2, 0, 3])[r.ending + 1] END,
        lane = CASE WHEN r.ending = 3 THEN lane WHEN again THEN 2
                    WHEN r.ending = 1 THEN greatest(lane, 1) ELSE lane END,
        due_ms = CASE WHEN r.ending = 3 THEN due_ms WHEN again THEN {NOW_MS}
                      WHEN r.ending = 1 THEN {NOW_MS} + r.wait_ms ELSE due_ms END,
        attempts = attempts - (r.ending = 3)::int,
        round_began = CASE WHEN again AND r.ending <> 3 THEN attempts ELSE round_began END,
        again = again AND r.ending = 3,
        lease_ms = NULL,
        done_ms = CASE WHEN r.ending IN (0, 2) AND NOT again THEN {NOW_MS} ELSE done_ms END,
        status = CASE WHEN r.ending = 3 THEN d.status ELSE r.status END,
        error = CASE WHEN r.ending = 3 THEN d.error ELSE r.error END
    FROM unnest($1::bytea[], $2::bigint[], $3::smallint[], $4::bigint[], $5::int[], $6::text[],
                $7::bytea[], $8::bigint[], $9::int[], $10::int[], $11::bytea[], $12::text[])
        AS r (key, token, ending, wait_ms, status, error, answer, began_ms, latency_ms, attempt,
              letter, reason)
    WHERE d.key = r.key AND d.token = r.token AND d.state + 0 = 1
    RETURNING d.key, r.ending, r.attempt, r.began_ms, r.latency_ms, r.status, r.error, r.answer,
              r.letter, r.reason, d.state, d.workspace, d.route, d.body, d.day, d.event
), _tried AS (
    INSERT INTO attempts (delivery, attempt, at_ms, latency_ms, status, error, answer)
    SELECT key, attempt, {NOW_MS} - began_ms, latency_ms, status, error, answer
    FROM ended WHERE ending <> 3 ON CONFLICT DO NOTHING
){{letters}}
SELECT key FROM ended
"""  # noqa: S608

_LETTERS = f""", _letters AS (
    INSERT INTO dead_letters (id, workspace, source, kind, arrival, arrival_key, position, reason,
                              attempts, failed_ms, raw, resolved_ms, route, delivery, last_error)
    SELECT x.letter, x.workspace, coalesce(e.source, ''), 'delivery', coalesce(e.arrival, ''),
           encode(x.key, 'hex'), 0, x.reason, x.attempt, {NOW_MS}, coalesce(x.body, e.body, ''),
           NULL, x.route, x.key, x.error
    FROM ended AS x LEFT JOIN events AS e ON e.day = x.day AND e.id = x.event
    WHERE x.state = 3 ON CONFLICT DO NOTHING
)"""  # noqa: S608

FINISH = _FINISH.format(letters="")
FINISH_WITH_LETTERS = _FINISH.format(letters=_LETTERS)

_EARLIEST = """(SELECT due_ms FROM deliveries WHERE route = o.route AND lane = {lane} AND state = 0
                ORDER BY due_ms LIMIT 1)"""

# Steps from route to route in the index, however much each is owed.
LOOK = f"""
WITH RECURSIVE o (route) AS (
    (SELECT route FROM deliveries WHERE state = 0 ORDER BY route LIMIT 1)
    UNION ALL
    SELECT (SELECT d.route FROM deliveries AS d WHERE d.state = 0 AND d.route > o.route
            ORDER BY d.route LIMIT 1)
    FROM o WHERE o.route IS NOT NULL
)
SELECT NULL, {NOW_MS}, EXISTS (
    SELECT FROM deliveries WHERE state = 1 AND lease_ms <= {NOW_MS} ORDER BY lease_ms LIMIT 1)
UNION ALL
SELECT route, least({", ".join(_EARLIEST.format(lane=int(lane)) for lane in Lane)}) - {NOW_MS}, NULL
FROM o WHERE route IS NOT NULL
"""  # noqa: S608

Run = Callable[[Callable[[Any], Awaitable[Any]]], Awaitable[Any]]


class PostgresDeliveries:
    """What is owed; `run` gives a connection and translates its errors, `run_often` cheaply."""

    def __init__(self, run: Run, run_often: Run, server: PostgresServer) -> None:
        self._run = run
        self._run_often = run_often
        self._server = server

    async def begin(self) -> bool:
        """Nothing is free for sure: other processes may be alive."""
        return False

    async def open_presence(self, owner: bytes, lost: Callable[[], None]) -> Presence | None:
        """Open a connection of its own that holds the worker's lock."""
        return await PostgresPresence.open(self._server, owner, lost)

    async def hold(self, routes: Sequence[str], *, owner: bytes, hold_ms: int) -> set[str]:
        """Take or keep lanes; those that somebody is just taking are skipped."""
        rows = await self._run(lambda c: c.fetch(HOLD, owner, list(routes), hold_ms))
        return {row[0] for row in rows}

    async def let_go(self, owner: bytes, routes: Sequence[str] | None = None) -> None:
        """Give lanes back; with all of them, the owner's place among the workers."""
        if routes is None:
            await self._run(lambda c: c.execute(LET_GO_ALL, owner))
        else:
            await self._run(lambda c: c.execute(LET_GO, owner, list(routes)))

    async def attend(self, owner: bytes, *, session: int | None, hold_ms: int) -> None:
        """Write that the worker lives."""
        await self._run(lambda c: c.execute(ATTEND, owner, session, hold_ms))

    async def crew(self) -> list[Colleague]:
        """Try the lock of each."""
        rows = await self._run(lambda c: c.fetch(CREW))
        return [Colleague(*row) for row in rows]

    async def lease(self, wants: Sequence[Want], *, owner: bytes) -> list[Leased]:
        """Ask for all lanes of the process in one statement."""
        columns = (
            [want.route for want in wants],
            [want.most for want in wants],
            [want.lease_ms for want in wants],
            *([want.lanes[place] for want in wants] for place in range(3)),
        )
        rows = await self._run_often(lambda c: c.fetch(LEASE, owner, *columns))
        return [Leased(*row) for row in rows]

    async def finish(self, finishes: Sequence[Finish]) -> set[DeliveryKey]:
        """End leases in one statement, in the order of their keys."""
        ordered = sorted(finishes, key=lambda one: one.key)
        statement = FINISH
        if any(one.end is End.DEAD for one in ordered):
            statement = FINISH_WITH_LETTERS
        columns = (
            [one.key for one in ordered],
            [one.token for one in ordered],
            [one.end for one in ordered],
            [one.wait_ms for one in ordered],
            [one.status for one in ordered],
            [one.error for one in ordered],
            [one.answer for one in ordered],
            [one.began_ms for one in ordered],
            [one.latency_ms for one in ordered],
            [one.attempt for one in ordered],
            [one.letter for one in ordered],
            [one.reason for one in ordered],
        )
        rows = await self._run_often(lambda c: c.fetch(statement, *columns))
        return {DeliveryKey(row[0]) for row in rows}

    async def look(self) -> Look:
        """Step through the index of what is due; the first row is about the leases."""
        (_, now_ms, has_lost), *rows = await self._run(lambda c: c.fetch(LOOK))
        return Look(now_ms, [Owed(row[0], row[1]) for row in rows], has_lost)
