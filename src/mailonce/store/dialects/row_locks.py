"""Locks on rows that a later statement of the same transaction looks at or deletes."""

from collections.abc import Collection
from typing import Any

from sqlalchemy import Connection, Select, Table, select, tuple_


def lock_rows(tx: Connection, table: Table, keys: Collection[tuple[Any, ...]]) -> None:
    """Lock the rows of these keys, in the order of their keys, until the transaction ends.

    Whoever refers to such a row meanwhile waits, or has committed: a later statement sees it.
    SQLite has one writer, which needs no locks, and would drop them silently.
    """
    if keys and tx.dialect.name == "postgresql":
        columns = list(table.primary_key.columns)
        wanted = tuple_(*columns).in_(sorted(keys))
        tx.execute(select(columns[-1]).where(wanted).order_by(*columns).with_for_update())


def free_rows(tx: Connection, query: Select[Any]) -> Select[Any]:
    """Lock the rows that `query` finds, without those that another transaction holds.

    On SQLite nobody else can hold one.
    """
    return query.with_for_update(skip_locked=True) if tx.dialect.name == "postgresql" else query
