"""The rows of a batch as arguments for PostgreSQL: as few arrays as can be.

Each event claims a key, and most bring a fact about their message. asyncpg encodes one wide row in
less time than three rows that repeat each other's values, so these three travel as one
(`event_row_3`). Whatever finds no event to travel with has an array of its own.
"""

from collections.abc import Sequence
from typing import Any

from msgspec.structs import astuple

from mailonce.core.events.key import Key
from mailonce.core.ledger.claim import ClaimRow
from mailonce.core.ledger.entry import EventRow, FactRow, Rows
from mailonce.store.schema.ledger_rows import FACTS
from mailonce.store.schema.row_kind import RowKind, RowKinds


def arrays_of(kinds: RowKinds, rows: Rows) -> tuple[tuple[RowKind, ...], list[Any]]:
    """Name the kinds that have an array of their own; give the arrays, as the statement wants them.

    Before those come the number of keys to win, the claims and the events.
    """
    kinds.check(rows)
    claims = {row.key: row for row in rows.of(ClaimRow)}
    many = len(claims)
    # A statement can write a row once, so what it would fold is folded before.
    events, facts = _join(rows.of(EventRow), claims, FACTS.folded(rows.of(FactRow)))
    apart: dict[Any, Sequence[Any]] = {**rows.by_class, EventRow: (), FactRow: facts, ClaimRow: ()}
    groups = frozenset([kinds.by_class[one].group for one, some in apart.items() if some])
    own = kinds.of_groups(groups)
    arrays: list[Any] = [many, [astuple(row) for row in claims.values()], events]
    for kind in own:
        own_rows = apart.get(kind.row, ())
        arrays.append([astuple(row) for row in kind.folded(own_rows)])
    return own, arrays


def _join(
    events: list[EventRow], claims: dict[Key, ClaimRow], facts: Sequence[FactRow]
) -> tuple[list[tuple[Any, ...]], list[FactRow]]:
    """Make the rows in which events travel; give the facts that none of them takes along.

    Facts were made in the order of their events, so the next one is always the one to look at.
    An event may take any fact about its message and recipient: there are never more than events.
    """
    carried: tuple[Any, ...]
    joined: list[tuple[Any, ...]] = []
    waiting = iter(facts)
    fact = next(waiting, None)
    for event in events:
        fingerprint = claims.pop(event.key).fingerprint
        if (
            fact is not None
            and fact.message_id == event.message_id
            and fact.recipient == event.recipient
            and fact.account == event.account
            and fact.workspace == event.workspace
        ):
            carried = (fingerprint, fact.kind, fact.times, fact.first, fact.last)
            fact = next(waiting, None)
        else:
            carried = (fingerprint, None, 0, None, None)
        joined.append(astuple(event) + carried)
    return joined, [] if fact is None else [fact, *waiting]
