"""The statements of the PostgreSQL dialect."""

from functools import cache

# Raised by mailonce_expect: the generation moved on, or another batch won one of our keys.
STALE = "ML001"
RACED = "ML002"
# A deadlock cannot come from sorted batches; should one come from elsewhere, nothing was written.
OVERTAKEN = frozenset({STALE, RACED, "40001", "40P01"})

NOW_MS = "(extract(epoch FROM statement_timestamp()) * 1000)::bigint"

HEAD = f"SELECT generation, rotated_ms, configuration, {NOW_MS} FROM head"  # noqa: S608

OWNERS = f"""
SELECT h.generation, h.rotated_ms, h.configuration, {NOW_MS}, c.key, c.fingerprint, c.owner
FROM head h LEFT JOIN (
    SELECT key, fingerprint, owner FROM claims_0 WHERE key = ANY($1::bytea[])
    UNION ALL
    SELECT key, fingerprint, owner FROM claims_1 WHERE key = ANY($1::bytea[])
) c ON true
"""  # noqa: S608

_HOT = (
    ("claims", "bytea bytea bytea"),
    ("arrivals", "bytea text text text text int int bytea int bytea"),
    ("events", "bytea bytea text text text text text text text bigint bytea int bytea bytea"),
    ("copies", "bytea int bytea text"),
    ("facts", "text text text text smallint bigint bytea bytea"),
    ("counts", "text text text bigint"),
)
_RARE = (
    ("said", "text text text text bytea boolean bytea text"),
    ("conflicts", "bytea text text bytea bytea bytea int text"),
    ("dead", "bytea text text bytea text int text bytea"),
)

# Facts and suppressions are joined only after the claims are won: one order of locks everywhere.
_RECORD = """
WITH same AS (
    SELECT mailonce_expect(generation = $1, 'ML001') AS ok FROM head
), won AS (
    INSERT INTO claims_{parity} (key, fingerprint, owner)
    SELECT * FROM {claims} ORDER BY 1 ON CONFLICT DO NOTHING RETURNING 1
), all_won AS (
    SELECT mailonce_expect(count(*) = $5, 'ML002') AS ok FROM won
), _arrivals AS (
    INSERT INTO arrivals (day, id, received_ms, workspace, source, arrival_key, status, events,
                          new, headers, body_bytes, body)
    SELECT $2, c1, $3, c2, c3, c4, c5, c6, c7, c8, c9, c10 FROM {arrivals} ON CONFLICT DO NOTHING
), _events AS (
    INSERT INTO events (day, id, received_ms, key, workspace, source, account, type, bounce,
                        message_id, recipient, occurred_ms, arrival, position, detail,
                        conflict_with)
    SELECT $2, c1, $3, c2, c3, c4, c5, c6, c7, c8, c9, c10, c11, c12, c13, c14
    FROM {events}
), _copies AS (
    INSERT INTO copies (day, arrival, position, event, recognised_by)
    SELECT $2, c1, c2, c3, c4 FROM {copies} ON CONFLICT DO NOTHING
), _facts AS (
    INSERT INTO facts AS f (workspace, message_id, recipient, account, kind, count, first, last,
                            changed_ms)
    SELECT c1, c2, c3, c4, c5, c6, c7, c8, $3 FROM all_won, {facts}
    ORDER BY c2, c3, c1, c4, c5
    ON CONFLICT (message_id, recipient, workspace, account, kind) DO UPDATE SET
        count = f.count + excluded.count,
        first = least(f.first, excluded.first),
        last = greatest(f.last, excluded.last),
        changed_ms = greatest(f.changed_ms, excluded.changed_ms)
), _counts AS (
    INSERT INTO counts (workspace, day, source, type, batch, count)
    SELECT c1, $2, c2, c3, $4, c4 FROM {counts} ON CONFLICT DO NOTHING
){rare}
SELECT same.ok AND all_won.ok FROM same, all_won
"""

_RECORD_RARE = """, _said AS (
    INSERT INTO suppressions (workspace, address, stream, cause, event, lifts, lifted, stamp,
                              reason, said_ms)
    SELECT c1, c2, c3, c4, c5, c6, false, c7, c8, $3 FROM all_won, {said}
    ORDER BY c1, c2, c3, c4, c5 ON CONFLICT DO NOTHING
), _conflicts AS (
    INSERT INTO conflicts (id, workspace, source, key, event, arrival, position, reason,
                           received_ms)
    SELECT c1, c2, c3, c4, c5, c6, c7, c8, $3 FROM {conflicts} ON CONFLICT DO NOTHING
), _dead AS (
    INSERT INTO dead_letters (id, workspace, source, kind, arrival, arrival_key, position, reason,
                              attempts, failed_ms, raw, resolved_ms)
    SELECT c1, c2, c3, 'arrival', c4, c5, c6, c7, 1, $3, c8, NULL FROM {dead}
    ON CONFLICT DO NOTHING
)"""


@cache
def record(parity: int, *, rare: bool) -> str:
    """Give the one statement that writes a batch; `rare` adds the tables that most leave alone."""
    number = 6
    sources: dict[str, str] = {}
    for name, types in _HOT + (_RARE if rare else ()):
        words = types.split()
        arrays = ", ".join(f"${number + i}::{word}[]" for i, word in enumerate(words))
        names = ", ".join(f"c{i + 1}" for i in range(len(words)))
        sources[name] = f"unnest({arrays}) AS {name}_({names})"
        number += len(words)
    extra = _RECORD_RARE.format(**sources) if rare else ""
    return _RECORD.format(parity=parity, rare=extra, **sources)
