"""INSERT … ON CONFLICT, which both databases have and SQLAlchemy spells twice."""

from typing import Any

from sqlalchemy import Connection, Table
from sqlalchemy.dialects import postgresql, sqlite


def insert_or_add(
    tx: Connection, table: Table, rows: list[dict[str, Any]], *, add: tuple[str, ...]
) -> None:
    """Insert rows; where one stands already, add to its columns named by `add`.

    Rows are written in the order of their keys, so that two who write the same ones wait for
    each other instead of deadlocking.
    """
    if not rows:
        return
    keys = [column.name for column in table.primary_key]
    insert = postgresql.insert if tx.dialect.name == "postgresql" else sqlite.insert
    statement = insert(table)
    statement = statement.on_conflict_do_update(
        index_elements=keys,
        set_={name: table.c[name] + statement.excluded[name] for name in add},
    )
    tx.execute(statement, sorted(rows, key=lambda row: [row[name] for name in keys]))


def insert_missing(tx: Connection, table: Table, rows: list[dict[str, Any]]) -> None:
    """Insert the rows whose keys are new, in the order of their keys; others stay as they are."""
    if not rows:
        return
    keys = [column.name for column in table.primary_key]
    insert = postgresql.insert if tx.dialect.name == "postgresql" else sqlite.insert
    statement = insert(table).on_conflict_do_nothing(index_elements=keys)
    tx.execute(statement, sorted(rows, key=lambda row: [row[name] for name in keys]))
