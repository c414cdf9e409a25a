"""Sources, their secrets sealed."""

from collections.abc import Callable

from sqlalchemy import Connection, select

from mailonce.core.arrivals.source import SETTINGS, Poison, Source
from mailonce.core.signatures.sealing import Sealer
from mailonce.store.configuration import version
from mailonce.store.configuration.version import ConfiguredTable
from mailonce.store.schema.tables import SOURCES

# Secrets that verify a sender, or us, are sealed; the rest may be shown.
_SEALED = frozenset({"secrets", "basic", "tokens", "headers", "api_keys"})
_TABLE = ConfiguredTable(SOURCES, SETTINGS, ("provider", "account"), _SEALED)

other_of_name = _TABLE.other_of_name
count_of = _TABLE.count_of
origin_of = _TABLE.origin_of
names_of_origin = _TABLE.names_of_origin
ids_in_file = _TABLE.ids_in_file
adopt = _TABLE.adopt
switch = _TABLE.switch
remove = _TABLE.remove


def list_all(tx: Connection, sealer: Sealer) -> list[Source]:
    """List the sources of every workspace; what cannot be opened is marked as unreadable."""
    return [_read(row, sealer) for row in _TABLE.rows(tx)]


def get(tx: Connection, source_id: str, sealer: Sealer) -> Source | None:
    row = tx.execute(select(SOURCES).where(SOURCES.c.id == source_id)).mappings().first()
    return None if row is None else _read(row, sealer)


def put(
    tx: Connection,
    source: Source,
    sealer: Sealer,
    *,
    origin: str,
    now_ms: int,
    chance: Callable[[int], bytes],
) -> None:
    """Insert a source, or change the one with its id; safe when several start at once.

    Whether it is on is not touched: `switch` does that.
    """
    _TABLE.put(tx, source, sealer, origin=origin, now_ms=now_ms, chance=chance, off=source.off)


def id_of(tx: Connection, workspace: str, id_or_name: str) -> str | None:
    named = (SOURCES.c.id == id_or_name) | (SOURCES.c.name == id_or_name)
    return tx.scalar(select(SOURCES.c.id).where(SOURCES.c.workspace == workspace, named))


def _read(row: version.Row, sealer: Sealer) -> Source:
    fields = _TABLE.fields_of(row, sealer)
    poison = Poison(fields["poison"]) if "poison" in fields else Poison.DEAD_LETTER
    return Source(**fields | {"poison": poison, "off": row["off"]})
