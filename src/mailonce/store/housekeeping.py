"""Forget rows by age, in slices; days and generations are dropped by the dialects."""

from collections.abc import Callable
from typing import Protocol

from sqlalchemy import ColumnElement, Connection, Table, delete, select, tuple_, update

from mailonce.store.tables import (
    CONFLICTS,
    DEAD_LETTERS,
    FACTS,
    HEAD,
    POISON,
    PULSES,
    REFUSALS,
    RERUNS,
)


class Forget(Protocol):
    """Delete at most `most` rows and say how many."""

    def __call__(
        self, tx: Connection, *, window_before_ms: int, facts_before_ms: int, most: int
    ) -> int: ...


def begin(tx: Connection, *, now_ms: int) -> None:
    """Start the clock of the first generation, once."""
    tx.execute(update(HEAD).where(HEAD.c.rotated_ms == 0).values(rotated_ms=now_ms))


def _by(table: Table, is_old: Callable[[int, int], ColumnElement[bool]]) -> Forget:
    keys = list(table.primary_key.columns)

    def forget(tx: Connection, *, window_before_ms: int, facts_before_ms: int, most: int) -> int:
        old = select(*keys).where(is_old(window_before_ms, facts_before_ms)).limit(most)
        found = tx.execute(old).all()
        if not found:
            return 0
        # The age is tested again: a row may have changed since it was found.
        done = tx.execute(
            delete(table).where(tuple_(*keys).in_(found), is_old(window_before_ms, facts_before_ms))
        )
        return done.rowcount

    return forget


FORGET: tuple[Forget, ...] = (
    _by(FACTS, lambda _, before: FACTS.c.changed_ms < before),
    _by(CONFLICTS, lambda before, _: CONFLICTS.c.received_ms < before),
    _by(POISON, lambda before, _: POISON.c.first_ms < before),
    _by(PULSES, lambda before, _: PULSES.c.minute < before // 60_000),
    _by(REFUSALS, lambda before, _: REFUSALS.c.minute < before // 60_000),
    _by(RERUNS, lambda before, _: (RERUNS.c.created_ms < before) & (RERUNS.c.state != "running")),
    # An open dead letter waits for a person, however long.
    _by(DEAD_LETTERS, lambda before, _: DEAD_LETTERS.c.resolved_ms < before),
)
