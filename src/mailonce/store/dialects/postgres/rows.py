"""The rows of a batch as arguments for PostgreSQL: as few arrays as can be.

Each event claims a key, most bring a fact about their message, and most arrivals tell of one event.
asyncpg encodes one wide row in less time than four rows that repeat each other's values, so these
four travel as one (`event_row_4`). Whatever finds no event to travel with has an array of its own.
"""

from collections.abc import Sequence
from typing import Any

from msgspec.structs import astuple

from mailonce.core.events.key import Key
from mailonce.core.ids import ArrivalId
from mailonce.core.ledger.claim import ClaimRow
from mailonce.core.ledger.entry import ArrivalRow, EventRow, FactRow, Rows
from mailonce.store.schema.ledger_rows import FACTS
from mailonce.store.schema.row_kind import RowKind, RowKinds

# What an arrival has behind its id, workspace and source, which its event has as well.
_NO_ARRIVAL = (None,) * 7


def arrays_of(kinds: RowKinds, rows: Rows) -> tuple[tuple[RowKind, ...], list[Any]]:
    """Name the kinds that have an array of their own; give the arrays, as the statement wants them.

    Before those come the number of keys to win, the claims and the events.
    """
    kinds.check(rows)
    claims = {row.key: row for row in rows.of(ClaimRow)}
    many = len(claims)
    arrivals = {row.id: row for row in rows.of(ArrivalRow)}
    # A statement can write a row once, so what it would fold is folded before.
    events, facts = _join(rows.of(EventRow), claims, FACTS.folded(rows.of(FactRow)), arrivals)
    apart: dict[Any, Sequence[Any]] = {
        **rows.by_class,
        EventRow: (),
        FactRow: facts,
        ClaimRow: (),
        ArrivalRow: list(arrivals.values()),
    }
    groups = frozenset([kinds.by_class[one].group for one, some in apart.items() if some])
    own = kinds.of_groups(groups)
    arrays: list[Any] = [many, [astuple(row) for row in claims.values()], events]
    for kind in own:
        own_rows = apart.get(kind.row, ())
        arrays.append([astuple(row) for row in kind.folded(own_rows)])
    return own, arrays


def _join(
    events: list[EventRow],
    claims: dict[Key, ClaimRow],
    facts: Sequence[FactRow],
    arrivals: dict[ArrivalId, ArrivalRow],
) -> tuple[list[tuple[Any, ...]], list[FactRow]]:
    """Make the rows in which events travel; give the facts that none of them takes along.

    The claims and arrivals that go with an event are taken out of what was given. Facts were made
    in the order of their events, so the next one is always the one to look at. An event may take
    any fact about its message and recipient: there are never more than events.
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
        arrival = arrivals.pop(event.arrival, None)
        brought = _NO_ARRIVAL if arrival is None else astuple(arrival)[3:]
        joined.append(astuple(event) + carried + brought)
    return joined, [] if fact is None else [fact, *waiting]
