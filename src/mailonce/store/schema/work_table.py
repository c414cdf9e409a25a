"""Where a kind of work is kept: the tables, and the parts of SQL that are its own.

Whatever is leased, tried and ended has the same columns (`tables.work_columns`); statements over
them are written once, for any `WorkTable`. In the texts of a declaration `d` is the row.
"""

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any

from sqlalchemy import ColumnElement, Table, literal

from mailonce.core.work.states import State
from mailonce.store.schema.tables import ATTEMPTS, DELIVERIES

# What the databases spell differently in the text of a dead letter.
_WORDS = {
    "postgresql": {"hex": "encode(d.key, 'hex')", "empty": "''"},
    "sqlite": {"hex": "lower(hex(d.key))", "empty": "x''"},
}


def _unchanged(row: Mapping[Any, Any]) -> Mapping[str, Any]:
    del row
    return {}


@dataclass(frozen=True, eq=False, kw_only=True)
class WorkTable:
    """The declaration of one kind of work's tables."""

    rows: Table
    attempts: Table
    # The column that names a row's lane, and that of an attempt which names its row.
    lane: str
    row_of_attempt: str
    # The columns that the texts below need.
    columns: tuple[str, ...] = ("body",)
    # What is handed to whoever runs it, and from where.
    body: str = "d.body"
    body_join: str = ""
    # What is kept of a dead end: an INSERT … SELECT without its WHERE; empty: the row alone.
    letter: str = ""
    # The column of a state of its own, if it has one; and what else is written, given a row, where
    # nobody ended its lease, and where it is given up.
    phase: str | None = None
    lost: Callable[[Mapping[Any, Any]], Mapping[str, Any]] = _unchanged
    expired: Callable[[Mapping[Any, Any]], Mapping[str, Any]] = _unchanged
    # Times that have passed, beside those of all work: a clock that is set back takes them along.
    times: tuple[str, ...] = ()

    @property
    def name(self) -> str:
        return self.rows.name

    def is_state(self, state: State) -> ColumnElement[bool]:
        """Compare with a literal: a partial index is not chosen for a parameter."""
        return self.rows.c.state == literal(int(state), literal_execute=True)

    def letter_sql(
        self,
        dialect: str,
        where: str = "d.key = :key",
        *,
        rows: str | None = None,
        letter: str = ":letter",
        reason: str = ":reason",
        now: str = ":now",
    ) -> str:
        """Give the statement that keeps dead ends, to run once their rows have ended."""
        given = {"rows": rows or self.name, "letter": letter, "reason": reason, "now": now}
        text = self.letter.format(**given, **_WORDS[dialect])
        return f"{text} WHERE {where} ON CONFLICT DO NOTHING"


DELIVERY_TABLE = WorkTable(
    rows=DELIVERIES,
    attempts=ATTEMPTS,
    lane="route",
    row_of_attempt="delivery",
    columns=("workspace", "body", "day", "event"),
    body="coalesce(d.body, e.body)",
    body_join="LEFT JOIN events AS e ON d.body IS NULL AND e.day = d.day AND e.id = d.event",
    letter="""
INSERT INTO dead_letters (id, workspace, source, kind, arrival, arrival_key, position, reason,
                          attempts, failed_ms, raw, route, delivery, last_error)
SELECT {letter}, d.workspace, coalesce(e.source, ''), 'delivery', coalesce(e.arrival, {empty}),
       {hex}, 0, {reason}, d.attempts, {now}, coalesce(d.body, e.body, {empty}), d.route, d.key,
       d.error
FROM {rows} AS d LEFT JOIN events AS e ON e.day = d.day AND e.id = d.event""",
)
