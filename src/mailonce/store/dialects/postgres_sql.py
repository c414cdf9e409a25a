"""The statements of the PostgreSQL dialect."""

from functools import cache

# Raised by mailonce_expect: the generation moved on, another batch won one of our keys, or the
# configuration moved on.
STALE = "ML001"
RACED = "ML002"
OUTDATED = "ML003"
# Another batch won a key while we wrote it, or this one stands already.
TAKEN = "23505"
# A deadlock cannot come from sorted batches; should one come from elsewhere, nothing was written.
OVERTAKEN = frozenset({STALE, RACED, TAKEN, "40001", "40P01"})

NOW_MS = "(extract(epoch FROM statement_timestamp()) * 1000)::bigint"

# A commit waits for a synchronous standby only if its transaction wrote something. A batch that
# stands already writes nothing new, and the standby may not have it yet.
SOMETHING = "SELECT pg_logical_emit_message(true, 'mailonce', '')"

PROBE = f"""
INSERT INTO probes (process, written_ms) VALUES ($1, {NOW_MS})
ON CONFLICT (process) DO UPDATE SET written_ms = excluded.written_ms
"""  # noqa: S608

HEAD = f"SELECT generation, rotated_ms, configuration, {NOW_MS} FROM head"  # noqa: S608

OWNERS = f"""
SELECT h.generation, h.rotated_ms, h.configuration, {NOW_MS}, c.key, c.fingerprint, c.owner
FROM head h LEFT JOIN (
    SELECT key, fingerprint, owner FROM claims_0 WHERE key = ANY($1::bytea[])
    UNION ALL
    SELECT key, fingerprint, owner FROM claims_1 WHERE key = ANY($1::bytea[])
) c ON true
"""  # noqa: S608

# Facts and suppressions are joined only after the claims are won: one order of locks everywhere.
# `rows` of a batch come as arrays of the row types that the migration makes.
_RECORD = """
WITH new AS MATERIALIZED (
    SELECT * FROM unnest($9::event_row_3[])
), same AS (
    SELECT mailonce_expect(generation = $1, 'ML001')
        AND mailonce_expect($5::bigint IS NULL OR configuration = $5, 'ML003') AS ok FROM head
), won AS (
    INSERT INTO claims_{parity} (key, fingerprint, owner)
    SELECT * FROM (
        SELECT key, fingerprint, id FROM new UNION ALL SELECT * FROM unnest($7::claim_row[])
    ) AS claimed{unless_older}
    ORDER BY 1 RETURNING 1
), all_won AS (
    SELECT mailonce_expect(count(*) = $6, 'ML002') AS ok FROM won
), _arrivals AS (
    INSERT INTO arrivals (day, received_ms, id, workspace, source, arrival_key, status, events,
                          new, headers, body_bytes, body)
    SELECT $2, $3, * FROM unnest($8::arrival_row[]){unless_kept}
), _events AS (
    INSERT INTO events (day, received_ms, id, key, workspace, source, account, type, bounce,
                        message_id, recipient, occurred_ms, arrival, position, detail,
                        conflict_with, body)
    SELECT $2, $3, id, key, workspace, source, account, type, bounce, message_id, recipient,
           occurred_ms, arrival, position, detail, conflict_with, body
    FROM new
), _facts AS (
    INSERT INTO facts AS f (workspace, message_id, recipient, account, kind, count, first, last,
                            changed_ms)
    SELECT workspace, message_id, recipient, account, kind, times, first, last, $3
    FROM all_won, new WHERE kind IS NOT NULL
    ORDER BY message_id, recipient, workspace, account, kind
    ON CONFLICT (message_id, recipient, workspace, account, kind) DO UPDATE SET
        count = f.count + excluded.count,
        first = least(f.first, excluded.first),
        last = greatest(f.last, excluded.last),
        changed_ms = greatest(f.changed_ms, excluded.changed_ms)
), _counts AS (
    INSERT INTO counts (workspace, day, source, type, batch, count)
    SELECT workspace, $2, source, type, $4, times FROM unnest($10::count_row[])
    ON CONFLICT DO NOTHING
){more}
SELECT same.ok AND all_won.ok{something}{leased} FROM same, all_won
"""

_UNLESS_OLDER = """
    WHERE NOT EXISTS (SELECT FROM claims_{older} AS old WHERE old.key = claimed.key)"""

# The tables that many batches leave alone, by the name of their rows: each that is left out makes
# the statement quicker to start.
_SOMETIMES = {
    "copies": """, _copies AS (
    INSERT INTO copies (day, arrival, position, event, recognised_by)
    SELECT $2, * FROM unnest(${n}::copy_row[]) ON CONFLICT DO NOTHING
)""",
    "owed": """, _owed AS (
    INSERT INTO deliveries (key, workspace, route, event, day, body, state, lane, due_ms,
                            deadline_ms, made_ms, attempts, round_began, redeliveries, again, token)
    SELECT key, workspace, route, event, $2, body, 0, 0, $3, $3 + deadline_s * 1000, $3, 0, 0, 0,
           false, 0
    FROM all_won, unnest(${n}::owed_row[])
    ORDER BY key ON CONFLICT DO NOTHING
)""",
    "said": """, _said AS (
    INSERT INTO suppressions (workspace, address, stream, cause, event, lifts, lifted, stamp,
                              reason, said_ms)
    SELECT workspace, address, stream, cause, event, lifts, false, stamp, reason, $3
    FROM all_won, unnest(${n}::said_row[])
    ORDER BY workspace, address, stream, cause, event ON CONFLICT DO NOTHING
)""",
    "conflicts": """, _conflicts AS (
    INSERT INTO conflicts (id, workspace, source, key, event, arrival, position, reason,
                           received_ms)
    SELECT *, $3 FROM unnest(${n}::conflict_row[]) ON CONFLICT DO NOTHING
)""",
    "dead": """, _dead AS (
    INSERT INTO dead_letters (id, workspace, source, kind, arrival, arrival_key, position, reason,
                              attempts, failed_ms, raw, resolved_ms, headers)
    SELECT id, workspace, source, 'arrival', arrival, arrival_key, position, reason, attempts, $3,
           raw, NULL, headers
    FROM unnest(${n}::dead_row_2[]) ON CONFLICT DO NOTHING
)""",
    # An arrival that is kept already was counted by an earlier try of this batch.
    "tried": """, _tries AS (
    SELECT letter, count(*) AS times FROM all_won, unnest(${n}::tried_row[]) AS t
    WHERE NOT EXISTS (SELECT FROM arrivals AS a WHERE a.day = $2 AND a.id = t.arrival)
    GROUP BY letter
), _locked AS MATERIALIZED (
    SELECT d.id, t.times FROM dead_letters AS d JOIN _tries AS t ON d.id = t.letter
    ORDER BY d.id FOR UPDATE OF d
), _tried AS (
    UPDATE dead_letters AS d
    SET attempts = d.attempts + l.times, failed_ms = greatest(d.failed_ms, $3)
    FROM _locked AS l WHERE d.id = l.id
)""",
}
# What is owed to routes whose lane this process holds is leased as it is made: its worker has slots
# for it. The token is the reservation's own, so no other lease has it.
_LEASED = """, _owed AS (
    INSERT INTO deliveries (key, workspace, route, event, day, body, state, lane, due_ms,
                            deadline_ms, made_ms, attempts, round_began, redeliveries, again, token,
                            lease_ms, leased_by, leased_token)
    SELECT o.key, o.workspace, o.route, o.event, $2, o.body, (held.owner IS NOT NULL)::int, 0, $3,
           $3 + o.deadline_s * 1000, $3, (held.owner IS NOT NULL)::int, 0, 0, false,
           CASE WHEN held.owner IS NULL THEN 0 ELSE ${token}::bigint END,
           held.lease_ms, held.owner, CASE WHEN held.owner IS NULL THEN 0 ELSE ${token}::bigint END
    FROM all_won, unnest(${n}::owed_row[]) AS o LEFT JOIN (
        SELECT w.route, lanes.owner, {now_ms} + w.lease_ms AS lease_ms
        FROM unnest(${routes}::text[], ${lease_ms}::bigint[]) AS w (route, lease_ms)
        JOIN lanes ON lanes.route = w.route
        WHERE lanes.owner = ${owner} AND lanes.until_ms > {now_ms}
    ) AS held ON held.route = o.route
    ORDER BY o.key ON CONFLICT DO NOTHING RETURNING key, state
)"""
# Together or not at all, so that there are few statements to prepare.
SOMETIMES = (("copies",), ("owed",), ("said", "conflicts", "dead", "tried"))
_ALWAYS_MANY = 10


@cache
def record(
    parity: int, some: tuple[str, ...], *, guessed: bool, again: bool, leases: bool = False
) -> str:
    """Give the one statement that writes a batch.

    `some` are the names out of SOMETIMES that it writes; their rows follow its other arguments in
    that order. `guessed` looks into the older generation, which nobody has asked yet. `again` is
    for a batch that may stand already; else an INSERT that expects no conflict is the quicker one.
    `leases` leases what is owed where it can, and gives the keys; the owner, the routes and their
    lease times then follow all other arguments.
    """
    texts = _SOMETIMES
    if leases:
        last = _ALWAYS_MANY + len(some)
        places = {"owner": last + 1, "routes": last + 2, "lease_ms": last + 3, "token": last + 4}
        texts = texts | {"owed": _LEASED.format(n="{n}", now_ms=NOW_MS, **places)}
    more = [texts[name].format(n=number) for number, name in enumerate(some, _ALWAYS_MANY + 1)]
    return _RECORD.format(
        parity=parity,
        more="".join(more),
        unless_older=_UNLESS_OLDER.format(older=1 - parity) if guessed else "",
        unless_kept=" ON CONFLICT DO NOTHING" if again else "",
        something=f", ({SOMETHING})" if again else "",
        leased=", (SELECT array_agg(key) FROM _owed WHERE state = 1)" if leases else "",
    )
