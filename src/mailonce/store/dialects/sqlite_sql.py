"""The statements by which SQLite records a batch."""

INSERT_DEAD = (
    "INSERT OR IGNORE INTO dead_letters "
    "(id, workspace, source, kind, arrival, arrival_key, position, reason, attempts, headers, raw, "
    "failed_ms) VALUES (?,?,?,'arrival',?,?,?,?,?,?,?,?)"
)
# An arrival that is kept already was counted by an earlier try of this batch.
COUNT_TRY = (
    "UPDATE dead_letters SET attempts = attempts + 1, failed_ms = max(failed_ms, ?) WHERE id = ? "
    "AND NOT EXISTS (SELECT 1 FROM arrivals WHERE day = ? AND id = ?)"
)
INSERT_OWED = (
    "INSERT OR IGNORE INTO deliveries "
    "(key, workspace, route, event, body, day, deadline_ms, due_ms, made_ms, "
    "state, lane, attempts, round_began, redeliveries, again, token) "
    "VALUES (?,?,?,?,?,?,?,?,?,0,0,0,0,0,0,0)"
)
INSERT_SAID = (
    "INSERT OR IGNORE INTO suppressions "
    "(workspace, address, stream, cause, event, lifts, stamp, reason, lifted, said_ms) "
    "VALUES (?,?,?,?,?,?,?,?,0,?)"
)
# SQLite's scalar min and max are NULL where one side is; a missing stamp must not erase the other.
JOIN_FACT = """
INSERT INTO facts VALUES (?,?,?,?,?,?,?,?,?)
ON CONFLICT DO UPDATE SET
    count = count + excluded.count,
    first = min(coalesce(first, excluded.first), coalesce(excluded.first, first)),
    last = max(coalesce(last, excluded.last), coalesce(excluded.last, last)),
    changed_ms = max(changed_ms, excluded.changed_ms)
"""
