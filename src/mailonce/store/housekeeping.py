"""Delete old rows in slices; days and generations are dropped by the dialects."""

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, NamedTuple

from sqlalchemy import ColumnElement, Connection, Table, bindparam, delete, select, tuple_, update

from mailonce.store.schema.mail_tables import LISTENERS, MAIL_REFUSALS
from mailonce.store.schema.tables import (
    AUDIT,
    CONFLICTS,
    DEAD_LETTERS,
    FACTS,
    HEAD,
    POISON,
    PROBES,
    PULSES,
    REFUSALS,
    RERUNS,
)


@dataclass(frozen=True, slots=True)
class Ages:
    """What is older is forgotten."""

    window_before_ms: int
    facts_before_ms: int


Key = tuple[Any, ...]
Keys = list[Key]

# How many rows of a SQLite table one search for old ones reads: a fraction of a second's work.
WALK_ROWS = 200_000


class OldRows(NamedTuple):
    """Some old rows by their keys, and behind which key to look on; None where that was all."""

    keys: Keys
    after: Key | None


class Forgetting:
    """How old rows leave one table: found beside the writer, then deleted by their keys.

    A table is searched on a reading connection, because SQLite has one writer, and whoever
    searches there keeps the door waiting. PostgreSQL finds them by an index, SQLite by one walk
    through the table, in as many reads as it takes: none of them may be long.
    """

    def __init__(self, table: Table, is_old: Callable[[Ages], ColumnElement[bool]]) -> None:
        self.table = table
        self._keys = list(table.primary_key.columns)
        self._is_old = is_old

    def find(self, tx: Connection, ages: Ages, *, after: Key | None, most: int) -> OldRows:
        """Find at most `most` old rows, on SQLite behind `after` in the order of their keys."""
        query = select(*self._keys).where(self._is_old(ages)).limit(most)
        if tx.dialect.name != "sqlite":
            keys = [tuple(row) for row in tx.execute(query)]
            return OldRows(keys, keys[-1] if len(keys) == most else None)
        walk = select(*self._keys).order_by(*self._keys)
        query = query.order_by(*self._keys)
        if after is not None:
            walk, query = (one.where(tuple_(*self._keys) > tuple_(*after)) for one in (walk, query))
        last = tx.execute(walk.offset(WALK_ROWS - 1).limit(1)).first()
        if last is not None:
            query = query.where(tuple_(*self._keys) <= tuple_(*last))
        keys = [tuple(row) for row in tx.execute(query)]
        return OldRows(keys, keys[-1] if len(keys) == most else last and tuple(last))

    def delete(self, tx: Connection, ages: Ages, *, keys: Keys) -> int:
        """Delete what was found and is still old: a row may have changed since; say how many."""
        if tx.dialect.name == "sqlite":
            # Of several keys at once it would read the whole table.
            one = [key == bindparam(f"of_{key.name}") for key in self._keys]
            named = [
                {f"of_{key.name}": value for key, value in zip(self._keys, row, strict=True)}
                for row in keys
            ]
            return tx.execute(delete(self.table).where(*one, self._is_old(ages)), named).rowcount
        is_one = tuple_(*self._keys).in_(keys)
        return tx.execute(delete(self.table).where(is_one, self._is_old(ages))).rowcount


class Retention(NamedTuple):
    """How long keys and the log, and facts, are kept; 0 before a server has set it."""

    window_days: int
    facts_days: int


def retention(tx: Connection) -> Retention:
    row = tx.execute(select(HEAD.c.window_days, HEAD.c.facts_days)).one()
    return Retention(row[0], row[1])


def set_retention(tx: Connection, kept: Retention) -> Retention:
    """Put retention in force; give what was before."""
    before = retention(tx)
    if before != kept:
        tx.execute(update(HEAD).values(**kept._asdict()))
    return before


def begin(tx: Connection, *, now_ms: int) -> None:
    """Start the clock of the first generation, once."""
    tx.execute(update(HEAD).where(HEAD.c.rotated_ms == 0).values(rotated_ms=now_ms))


FORGET = (
    Forgetting(AUDIT, lambda ages: AUDIT.c.at_ms < ages.facts_before_ms),
    Forgetting(FACTS, lambda ages: FACTS.c.changed_ms < ages.facts_before_ms),
    Forgetting(CONFLICTS, lambda ages: CONFLICTS.c.received_ms < ages.window_before_ms),
    Forgetting(POISON, lambda ages: POISON.c.first_ms < ages.window_before_ms),
    Forgetting(PROBES, lambda ages: PROBES.c.written_ms < ages.window_before_ms),
    Forgetting(PULSES, lambda ages: PULSES.c.minute < ages.window_before_ms // 60_000),
    Forgetting(REFUSALS, lambda ages: REFUSALS.c.minute < ages.window_before_ms // 60_000),
    Forgetting(
        MAIL_REFUSALS, lambda ages: MAIL_REFUSALS.c.minute < ages.window_before_ms // 60_000
    ),
    Forgetting(LISTENERS, lambda ages: LISTENERS.c.until_ms < ages.window_before_ms),
    Forgetting(
        RERUNS,
        lambda ages: (RERUNS.c.created_ms < ages.window_before_ms) & (RERUNS.c.state != "running"),
    ),
    # An open dead letter waits for a person, however long.
    Forgetting(DEAD_LETTERS, lambda ages: DEAD_LETTERS.c.resolved_ms < ages.window_before_ms),
)
