"""Leases and their ends on PostgreSQL: one statement for much work of a kind, through asyncpg.

Due and lease times are compared with statement_timestamp(): clock_timestamp() is volatile, and a
volatile bound makes the index a filter that reads the whole backlog. A plan is made once, while the
tables are small: where rows are found by their key, no word about `state` may lead it to the index
of all that is due or leased (`+ 0` hides it).
"""

from collections.abc import Mapping, Sequence
from operator import attrgetter

from mailonce.core.work.job import (
    End,
    Finish,
    LeasedJob,
    LeaseRenewal,
    LeaseRequest,
    Look,
    OwedLane,
)
from mailonce.core.work.lifecycle import end_of_lease
from mailonce.core.work.states import AttemptKind, State, WorkKey
from mailonce.store.dialects import lease_end_sql
from mailonce.store.dialects.postgres.claim_keys_sql import NOW_MS
from mailonce.store.dialects.postgres.lanes import Run
from mailonce.store.schema.work_table import WorkTable

# A worker that lost the lease changes nothing.
FENCE = "WHERE d.key = r.key AND d.token = r.token AND d.state + 0 = 1"


def lease_sql(table: WorkTable) -> str:
    """Lease what is due on lanes that the owner holds.

    The priorities are read in turn and no further than needed: a row that is not taken is not
    locked.
    """
    due = f"""
        SELECT key FROM (
            SELECT key FROM {table.name}
            WHERE {table.lane} = w.route AND lane = w.{{lane}} AND state = 0 AND due_ms <= {NOW_MS}
            ORDER BY due_ms LIMIT w.most FOR UPDATE SKIP LOCKED
        ) AS in_{{lane}}
"""  # noqa: S608
    return f"""
WITH picked AS MATERIALIZED (
    SELECT due.key, w.lease_ms
    FROM unnest($2::text[], $3::int[], $4::bigint[], $5::smallint[], $6::smallint[],
                $7::smallint[]) AS w (route, most, lease_ms, first, second, third)
    JOIN lanes ON lanes.route = w.route AND lanes.owner = $1 AND lanes.until_ms > {NOW_MS}
    CROSS JOIN LATERAL (
        {due.format(lane="first")} UNION ALL {due.format(lane="second")}
        UNION ALL {due.format(lane="third")} LIMIT w.most
    ) AS due
), leased AS (
    UPDATE {table.name} AS d SET
        state = 1, token = token + 1, attempts = attempts + 1, lease_ms = {NOW_MS} + p.lease_ms,
        leased_by = $1, leased_token = token + 1
    FROM picked AS p WHERE d.key = p.key
    RETURNING d.key, token, {table.lane}, lane, attempts, round_began, redeliveries,
              deadline_ms - {NOW_MS} AS left_ms, made_ms, {_columns(table)}
)
SELECT d.key, d.token, d.{table.lane}, d.lane, d.attempts, d.round_began, d.redeliveries,
       d.left_ms, d.made_ms, {table.body}
FROM leased AS d {table.body_join}
"""  # noqa: S608


# What a statement is given of each end: of those that are done, of all others, and of dead ones.
# asyncpg looks at each value of an array several times, so each column that is left out counts.
OF_DONE = {
    "key": "bytea", "token": "bigint", "latency_ms": "int", "status": "int", "answer": "bytea",
}  # fmt: skip
OF_OTHERS = {
    **OF_DONE, "state": "smallint", "lane": "smallint", "due_in_ms": "bigint", "error": "text",
}  # fmt: skip
OF_DEAD = {**OF_OTHERS, "letter": "bytea", "reason": "text"}


def finish_sql(table: WorkTable, given: Mapping[str, str]) -> str:
    """End leases of attempts that were made, note these, and keep letters of dead ends."""
    columns = kept = more = ""
    if given is OF_DEAD and table.letter:
        columns = f", r.letter, r.reason, d.{table.lane}, {_columns(table)}"
        text = table.letter_sql(
            "postgresql", f"d.state = {State.DEAD:d}", rows="ended", letter="d.letter",
            reason="d.reason", now=NOW_MS,
        )  # fmt: skip
        kept = f", _letters AS ({text})"
    if given is OF_DONE:
        done = end_of_lease(End.DONE)
        assert done.due_in_ms() is None, "what is done is not due"
        more = f""", {done.state:d}::smallint AS state, {done.lane:d}::smallint AS lane,
            NULL::bigint AS due_in_ms, NULL::text AS error"""
    arrays = ", ".join(f"${place}::{type_}[]" for place, type_ in enumerate(given.values(), 1))
    return f"""
WITH ended AS (
    UPDATE {table.name} AS d SET {lease_end_sql.end_values("r.", now=NOW_MS, later="greatest")}
    FROM (SELECT * {more} FROM unnest({arrays}) AS g ({", ".join(given)})) AS r
    {FENCE}
    RETURNING d.key, d.state, d.attempts, d.status, d.error, r.answer, r.latency_ms {columns}
), _tried AS (
    INSERT INTO {table.attempts.name}
        ({table.row_of_attempt}, attempt, at_ms, latency_ms, status, error, answer)
    SELECT key, attempts, {NOW_MS} - latency_ms, latency_ms, status, error, answer
    FROM ended ON CONFLICT DO NOTHING
){kept}
SELECT key FROM ended
"""  # noqa: S608


def give_back_sql(table: WorkTable) -> str:
    """End leases of what was never tried."""
    return f"""
UPDATE {table.name} AS d SET {lease_end_sql.GIVE_BACK}
FROM unnest($1::bytea[], $2::bigint[]) AS r (key, token)
{FENCE} RETURNING d.key
"""  # noqa: S608


def renew_sql(table: WorkTable) -> str:
    """Make leases last longer, but for those that ran out: others may have the work by now.

    A row that somebody holds is skipped, since the worker's loop waits for this statement.
    """
    return f"""
WITH mine AS MATERIALIZED (
    SELECT d.key, r.lease_ms
    FROM unnest($1::bytea[], $2::bigint[], $3::bigint[]) AS r (key, token, lease_ms)
    JOIN {table.name} AS d ON d.key = r.key
    {FENCE} AND d.lease_ms + 0 > {NOW_MS} FOR UPDATE OF d SKIP LOCKED
)
UPDATE {table.name} AS d SET lease_ms = {NOW_MS} + m.lease_ms
FROM mine AS m WHERE d.key = m.key RETURNING d.key
"""  # noqa: S608


def look_sql(table: WorkTable) -> str:
    """Step from lane to lane in the index, however much each is owed."""
    earliest = ", ".join(
        f"""(SELECT due_ms FROM {table.name} WHERE {table.lane} = o.route AND lane = {lane:d}
             AND state = 0 ORDER BY due_ms LIMIT 1)"""  # noqa: S608
        for lane in AttemptKind
    )
    return f"""
WITH RECURSIVE o (route) AS (
    (SELECT {table.lane} FROM {table.name} WHERE state = 0 ORDER BY {table.lane} LIMIT 1)
    UNION ALL
    SELECT (SELECT d.{table.lane} FROM {table.name} AS d
            WHERE d.state = 0 AND d.{table.lane} > o.route ORDER BY d.{table.lane} LIMIT 1)
    FROM o WHERE o.route IS NOT NULL
)
SELECT NULL, {NOW_MS}, EXISTS (
    SELECT FROM {table.name} WHERE state = 1 AND lease_ms <= {NOW_MS} ORDER BY lease_ms LIMIT 1)
UNION ALL
SELECT route, least({earliest}) - {NOW_MS}, NULL FROM o WHERE route IS NOT NULL
"""  # noqa: S608


def _columns(table: WorkTable) -> str:
    return ", ".join(f"d.{name}" for name in table.columns)


class PostgresLeases:
    """The leases of one kind of work; its statements are built once, as it is opened."""

    def __init__(self, table: WorkTable, run: Run, run_often: Run) -> None:
        self._run = run
        self._run_often = run_often
        self._lease = lease_sql(table)
        self._finish_done = finish_sql(table, OF_DONE)
        self._finish_others = finish_sql(table, OF_OTHERS)
        self._finish_dead = finish_sql(table, OF_DEAD)
        self._give_back = give_back_sql(table)
        self._renew = renew_sql(table)
        self._look = look_sql(table)

    async def lease(self, wants: Sequence[LeaseRequest], *, owner: bytes) -> list[LeasedJob]:
        """Ask for all lanes of the process in one statement."""
        columns = (
            [want.route for want in wants],
            [want.most for want in wants],
            [want.lease_ms for want in wants],
            *([want.lanes[place] for want in wants] for place in range(3)),
        )
        rows = await self._run_often(lambda c: c.fetch(self._lease, owner, *columns))
        return [LeasedJob._make(row) for row in rows]

    async def renew(self, renewals: Sequence[LeaseRenewal]) -> set[WorkKey]:
        """Renew leases in one statement."""
        columns = [list(column) for column in zip(*renewals, strict=True)]
        rows = await self._run_often(lambda c: c.fetch(self._renew, *columns))
        return {WorkKey(row[0]) for row in rows}

    async def finish(self, finishes: Sequence[Finish]) -> set[WorkKey]:
        """End leases in one statement, in the order of their keys."""
        ordered = sorted(finishes, key=attrgetter("key"))
        tried = [one for one in ordered if one.counts]
        rows = []
        if tried:
            columns = dict(zip(Finish._fields, zip(*tried, strict=True), strict=True))
            states = {*columns["state"]}
            statement, given = self._finish_others, OF_OTHERS
            if states == {State.DONE} and {*columns["error"]} == {None}:
                statement, given = self._finish_done, OF_DONE
            elif State.DEAD in states:
                statement, given = self._finish_dead, OF_DEAD
            arrays = [columns[name] for name in given]
            rows += await self._run_often(lambda c: c.fetch(statement, *arrays))
        if len(tried) < len(ordered):
            untried = [one for one in ordered if not one.counts]
            keys, tokens = [one.key for one in untried], [one.token for one in untried]
            rows += await self._run_often(lambda c: c.fetch(self._give_back, keys, tokens))
        return {WorkKey(row[0]) for row in rows}

    async def look(self) -> Look:
        """Step through the index of what is due; the first row is about the leases."""
        (_, now_ms, has_lost), *rows = await self._run(lambda c: c.fetch(self._look))
        return Look(now_ms, [OwedLane(row[0], row[1]) for row in rows], has_lost)
