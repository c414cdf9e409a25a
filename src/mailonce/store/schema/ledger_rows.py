"""The kinds of rows that the group commit writes, in the order in which SQLite writes them.

A further noun declares its kinds beside its own rules and hands them to `open_database`.
"""

from mailonce.core.ledger.entry import (
    ArrivalRow,
    ConflictRow,
    CopyRow,
    CountRow,
    DeadRow,
    EventRow,
    FactRow,
    OwedRow,
    StatementRow,
    TriedRow,
)
from mailonce.store.schema import tables
from mailonce.store.schema.row_kind import Fold, RowKind

_RECEIVED = {"day": "{day}", "received_ms": "{received_ms}"}

# An arrival that is kept already was counted by an earlier try of this batch: so tries are counted
# before the arrivals are written.
TRIES = RowKind(
    row=TriedRow,
    table=tables.DEAD_LETTERS,
    array_of="tried_row",
    group="seldom",
    sqlite="""
UPDATE dead_letters SET attempts = attempts + 1, failed_ms = max(failed_ms, {received_ms})
WHERE id = {letter} AND NOT EXISTS (SELECT 1 FROM arrivals WHERE day = {day} AND id = {arrival})
""",
    postgres=""", _tries AS (
    SELECT letter, count(*) AS times FROM all_won, {rows} AS t
    WHERE NOT EXISTS (SELECT FROM arrivals AS a WHERE a.day = {day} AND a.id = t.arrival)
    GROUP BY letter
), _locked AS MATERIALIZED (
    SELECT d.id, t.times FROM dead_letters AS d JOIN _tries AS t ON d.id = t.letter
    ORDER BY d.id FOR UPDATE OF d
), _tried AS (
    UPDATE dead_letters AS d
    SET attempts = d.attempts + l.times, failed_ms = greatest(d.failed_ms, {received_ms})
    FROM _locked AS l WHERE d.id = l.id
)""",
)
ARRIVALS = RowKind(row=ArrivalRow, table=tables.ARRIVALS, array_of="arrival_row", values=_RECEIVED)
EVENTS = RowKind(
    row=EventRow, table=tables.EVENTS, array_of="event_row_2", values=_RECEIVED, group="events"
)
FACTS = RowKind(
    row=FactRow,
    table=tables.FACTS,
    array_of="fact_row",
    values={"count": "{times}", "changed_ms": "{received_ms}"},
    fold={
        "count": Fold.ADD,
        "first": Fold.LEAST,
        "last": Fold.GREATEST,
        "changed_ms": Fold.GREATEST,
    },
    lock_order=("message_id", "recipient", "workspace", "account", "kind"),
    group="facts",
)
COUNTS = RowKind(
    row=CountRow,
    table=tables.COUNTS,
    array_of="count_row",
    values={"day": "{day}", "batch": "{batch}", "count": "{times}"},
)
COPIES = RowKind(
    row=CopyRow, table=tables.COPIES, array_of="copy_row", values={"day": "{day}"}, group="copies"
)
OWED = RowKind(
    row=OwedRow,
    table=tables.DELIVERIES,
    array_of="owed_row",
    values={
        "day": "{day}",
        "due_ms": "{received_ms}",
        "deadline_ms": "{received_ms} + {deadline_s} * 1000",
        "made_ms": "{received_ms}",
        **dict.fromkeys(("state", "lane", "attempts", "round_began", "redeliveries", "token"), "0"),
        "again": "false",
    },
    lock_order=("key",),
    group="owed",
    lane="route",
)
SUPPRESSIONS = RowKind(
    row=StatementRow,
    table=tables.SUPPRESSIONS,
    array_of="said_row",
    values={"lifted": "false", "said_ms": "{received_ms}"},
    lock_order=("workspace", "address", "stream", "cause", "event"),
    group="seldom",
)
CONFLICTS = RowKind(
    row=ConflictRow,
    table=tables.CONFLICTS,
    array_of="conflict_row",
    values={"received_ms": "{received_ms}"},
    group="seldom",
)
DEAD = RowKind(
    row=DeadRow,
    table=tables.DEAD_LETTERS,
    array_of="dead_row_2",
    values={"kind": "'arrival'", "failed_ms": "{received_ms}"},
    group="seldom",
)

KINDS = (TRIES, ARRIVALS, EVENTS, FACTS, COUNTS, COPIES, OWED, SUPPRESSIONS, CONFLICTS, DEAD)
