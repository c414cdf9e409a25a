"""Sources, their secrets sealed."""

from sqlalchemy import Connection, select

from mailonce.core.arrivals.source import SETTINGS, Poison, Source
from mailonce.core.signatures.sealing import Sealer
from mailonce.store.configuration.version import ConfiguredTable
from mailonce.store.schema.tables import SOURCES

# Secrets that verify a sender, or us, are sealed; the rest may be shown.
_SEALED = frozenset({"secrets", "basic", "tokens", "headers", "api_keys"})
_TABLE = ConfiguredTable(SOURCES, SETTINGS, ("provider", "account"), _SEALED)

other_of_name = _TABLE.other_of_name
count_of = _TABLE.count_of
put = _TABLE.put
remove = _TABLE.remove


def list_all(tx: Connection, sealer: Sealer) -> list[Source]:
    """List the sources of every workspace; what cannot be opened is marked as unreadable."""
    all_fields = [_TABLE.fields_of(row, sealer) for row in _TABLE.rows(tx)]
    return [Source(**fields | {"poison": Poison(fields["poison"])}) for fields in all_fields]


def account_of(tx: Connection, source_id: str) -> str | None:
    """Say which account a source belongs to; None where there is no such source."""
    return tx.scalar(select(SOURCES.c.account).where(SOURCES.c.id == source_id))


def names_of_origin(tx: Connection, origin: str) -> dict[str, str]:
    """Give the names of the sources whose settings came from there, by id."""
    rows = tx.execute(select(SOURCES.c.id, SOURCES.c.name).where(SOURCES.c.origin == origin))
    return {row.id: row.name for row in rows}


def id_of(tx: Connection, workspace: str, id_or_name: str) -> str | None:
    named = (SOURCES.c.id == id_or_name) | (SOURCES.c.name == id_or_name)
    return tx.scalar(select(SOURCES.c.id).where(SOURCES.c.workspace == workspace, named))
