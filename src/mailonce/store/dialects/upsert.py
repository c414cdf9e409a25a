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
    statement = _insert(tx, table)
    sums = {name: table.c[name] + statement.excluded[name] for name in add}
    keys = table.primary_key.columns.keys()
    _write(tx, table, statement.on_conflict_do_update(index_elements=keys, set_=sums), rows)


def insert_missing(tx: Connection, table: Table, rows: list[dict[str, Any]]) -> None:
    """Insert the rows whose keys are new, in the order of their keys; others stay as they are."""
    keys = table.primary_key.columns.keys()
    _write(tx, table, _insert(tx, table).on_conflict_do_nothing(index_elements=keys), rows)


def insert_unless(
    tx: Connection, table: Table, row: dict[str, Any], *, unique: tuple[str, ...]
) -> bool:
    """Insert a row unless one stands with the same `unique` columns (none: any of its keys).

    Says whether it was new. Whoever inserts the same at the same time is waited for.
    """
    statement = _insert(tx, table).on_conflict_do_nothing(index_elements=unique or None)
    return bool(tx.execute(statement, row).rowcount)


def insert_or_replace(tx: Connection, table: Table, rows: list[dict[str, Any]]) -> None:
    """Insert rows; where one stands already, put the given columns in place of its own."""
    statement = _insert(tx, table)
    keys = table.primary_key.columns.keys()
    given = {name: statement.excluded[name] for name in rows[0] if name not in keys}
    _write(tx, table, statement.on_conflict_do_update(index_elements=keys, set_=given), rows)


def _insert(tx: Connection, table: Table) -> Any:
    return (postgresql if tx.dialect.name == "postgresql" else sqlite).insert(table)


def _write(tx: Connection, table: Table, statement: Any, rows: list[dict[str, Any]]) -> None:
    keys = table.primary_key.columns.keys()
    if rows:
        tx.execute(statement, sorted(rows, key=lambda row: [row[name] for name in keys]))
