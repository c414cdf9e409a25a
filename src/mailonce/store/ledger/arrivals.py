"""Arrivals: the raw bytes that were received, kept so that they can be read again."""

from collections.abc import Sequence

from sqlalchemy import Connection, select

from mailonce.core.ids import ArrivalId
from mailonce.core.ledger.entry import ArrivalRow
from mailonce.store.days import days_of
from mailonce.store.schema.tables import ARRIVALS, COPIES, EVENTS


class StoredArrival(ArrivalRow, frozen=True, gc=False):
    """An arrival, and when it was received; `body` is also None where it was pruned."""

    received_ms: int


_COLUMNS = [ARRIVALS.c[name] for name in StoredArrival.__struct_fields__]


def get(tx: Connection, workspace: str, arrival: bytes) -> StoredArrival | None:
    first, last = days_of(arrival)
    row = tx.execute(
        select(*_COLUMNS).where(
            ARRIVALS.c.id == arrival,
            ARRIVALS.c.day.between(first, last),
            ARRIVALS.c.workspace == workspace,
        )
    ).first()
    return None if row is None else StoredArrival(*row)


def ids_with_body(
    tx: Connection, *, after: bytes | None, until_ms: int, limit: int
) -> list[ArrivalId]:
    """List the arrivals of all workspaces that had something new, oldest first."""
    query = select(ARRIVALS.c.id).where(
        ARRIVALS.c.body.is_not(None), ARRIVALS.c.received_ms <= until_ms
    )
    if after is not None:
        query = query.where(ARRIVALS.c.id > after, ARRIVALS.c.day >= days_of(after)[0])
    return list(tx.scalars(query.order_by(ARRIVALS.c.id).limit(limit)))


def get_many(tx: Connection, ids: Sequence[ArrivalId]) -> dict[ArrivalId, StoredArrival]:
    """Read arrivals with their bodies; one that was pruned meanwhile is absent."""
    rows = tx.execute(select(*_COLUMNS).where(ARRIVALS.c.id.in_(set(ids))))
    return {row[0]: StoredArrival(*row) for row in rows}


def copied_keys(tx: Connection, ids: Sequence[ArrivalId]) -> dict[tuple[bytes, int], bytes | None]:
    """Say, by arrival and position, which event an element was a copy of.

    The event is named by its key; None where the log has it no more, or as a conflict.
    """
    query = (
        select(COPIES.c.arrival, COPIES.c.position, EVENTS.c.key, EVENTS.c.conflict_with)
        .outerjoin(EVENTS, EVENTS.c.id == COPIES.c.event)
        .where(COPIES.c.arrival.in_(set(ids)))
    )
    return {(row[0], row[1]): row[2] if row[3] is None else None for row in tx.execute(query)}
