"""Find the ids that begin with what somebody typed."""

from sqlalchemy import Column, Connection, Table, select

from mailonce.store.schema.expectation_tables import EXPECTATIONS
from mailonce.store.schema.send_tables import SENDS
from mailonce.store.schema.tables import ARRIVALS, DEAD_LETTERS, DELIVERIES, EVENTS

_IDS: dict[str, tuple[Table, Column[bytes]]] = {
    "dlv": (DELIVERIES, DELIVERIES.c.key),
    "evt": (EVENTS, EVENTS.c.id),
    "dead": (DEAD_LETTERS, DEAD_LETTERS.c.id),
    "snd": (SENDS, SENDS.c.id),
    "exp": (EXPECTATIONS, EXPECTATIONS.c.id),
    "arr": (ARRIVALS, ARRIVALS.c.id),
}
KINDS = tuple(_IDS)


def between(
    tx: Connection, workspace: str, kind: str, *, first: bytes, last: bytes, limit: int
) -> list[bytes]:
    """List ids of a kind from `first` to `last`, both included."""
    table, column = _IDS[kind]
    query = select(column).where(table.c.workspace == workspace, column >= first, column <= last)
    return [bytes(one) for one in tx.scalars(query.order_by(column).limit(limit))]
