"""Watch what SQLite reads as a whole while the only writer waits for it."""

from collections.abc import Iterator
from contextlib import contextmanager

from mailonce.store.dialects.sqlite.database import SqliteDatabase

# One row, a few, or what the statement itself brings.
SMALL = ("SCAN head", "SCAN workspaces", "SCAN CONSTANT ROW", "SCAN (subquery-")


@contextmanager
def scans_of(database: SqliteDatabase) -> Iterator[list[tuple[str, str]]]:
    """Give, after the block, the steps by which the writer read a whole table, and for what."""
    connection = database._connection
    statements: list[str] = []
    scans: list[tuple[str, str]] = []
    connection.set_trace_callback(statements.append)
    try:
        yield scans
    finally:
        connection.set_trace_callback(None)
    for statement in statements:
        if statement.startswith(("SELECT", "DELETE", "UPDATE", "INSERT")):
            plan = connection.execute("EXPLAIN QUERY PLAN " + statement).fetchall()
            scans += [(row[3], statement) for row in plan if _is_whole(row[3])]


def _is_whole(step: str) -> bool:
    is_given = step.endswith(" CONSTANT ROWS")
    return step.startswith("SCAN ") and not step.startswith(SMALL) and not is_given
