"""Every table with sealed values: which rows an older master key seals, and sealing them anew."""

from collections.abc import Callable, Collection
from typing import Any, NamedTuple

from sqlalchemy import Connection, Table, func, select, update

from mailonce.core.signatures.sealing import ID_BYTES, NONCE_BYTES, Sealer
from mailonce.store.configuration import locks
from mailonce.store.configuration.version import bump
from mailonce.store.dialects.row_locks import lock_rows
from mailonce.store.schema.expectation_tables import ARTIFACTS
from mailonce.store.schema.send_tables import SENDERS
from mailonce.store.schema.tables import ROUTES, SOURCES

SealedTable = Table
# What every process reads again when the configuration's version moves.
CONFIGURATION_TABLES = (SOURCES, ROUTES, SENDERS)
TABLES = (*CONFIGURATION_TABLES, ARTIFACTS)


class SealedSlice(NamedTuple):
    """What one transaction sealed anew; `last` is the id to go on behind, None at the end."""

    rows: int
    last: Any


def count_under(tx: Connection, key_ids: Collection[bytes]) -> int:
    """Count the rows that one of these master keys seals."""
    return sum(
        tx.scalar(select(func.count()).select_from(table).where(_is_under(table, key_ids))) or 0
        for table in TABLES
    )


def seal_slice(
    tx: Connection,
    table: SealedTable,
    sealer: Sealer,
    *,
    after: Any,
    limit: int,
    chance: Callable[[int], bytes],
) -> SealedSlice:
    """Seal the next rows that an older master key seals with the first one.

    A row that is changed meanwhile keeps that change, and one that does not open stays as it is.
    """
    if table in CONFIGURATION_TABLES:
        locks.take(tx, locks.CONFIGURATION)
    query = select(table.c.id, table.c.workspace, table.c.sealed)
    query = query.where(_is_under(table, sealer.older_ids))
    if after is not None:
        query = query.where(table.c.id > after)
    rows = tx.execute(query.order_by(table.c.id).limit(limit)).all()
    lock_rows(tx, table, {(row.id,) for row in rows})
    count = 0
    for id_, workspace, sealed in rows:
        place = place_of(table, workspace, id_)
        value = sealer.try_open(bytes(sealed), place=place)
        if value is None:
            continue
        anew = sealer.seal(value, place=place, nonce=chance(NONCE_BYTES))
        is_same = (table.c.id == id_) & (table.c.sealed == sealed)
        count += tx.execute(update(table).where(is_same).values(sealed=anew)).rowcount
    if count and table in CONFIGURATION_TABLES:
        bump(tx)
    return SealedSlice(count, rows[-1].id if len(rows) == limit else None)


def place_of(table: Table, workspace: str, id_: str | bytes) -> str:
    """Name the place that a sealed value is bound to."""
    return f"{workspace}/{table.name}/{id_ if isinstance(id_, str) else id_.hex()}"


def _is_under(table: Table, key_ids: Collection[bytes]) -> Any:
    return func.substr(table.c.sealed, 1, ID_BYTES).in_(list(key_ids))
