"""Sources, routes and senders as rows: settings sealed or as JSON, and the version."""

from collections.abc import Callable, Collection, Mapping
from dataclasses import dataclass
from typing import Any

import orjson
from sqlalchemy import Connection, Table, delete, func, insert, select, update

from mailonce.core.arrivals.source import Source
from mailonce.core.deliveries.route import Route
from mailonce.core.fields import SettingFields
from mailonce.core.record_origin import NOT_IN_FILE, OF_FILE
from mailonce.core.sends.sender import Sender
from mailonce.core.signatures.sealing import NONCE_BYTES, Sealer
from mailonce.store.configuration import locks
from mailonce.store.schema.tables import HEAD

Row = Mapping[Any, Any]
Record = Source | Route | Sender


def bump(tx: Connection) -> None:
    """Raise the version, by which every process knows to read the configuration again."""
    tx.execute(update(HEAD).values(configuration=HEAD.c.configuration + 1))


@dataclass(frozen=True, slots=True)
class ConfiguredTable:
    """A table of records: what must not be shown is sealed, the other settings are JSON.

    `columns` are the fields that are columns of their own.
    """

    table: Table
    settings: SettingFields
    columns: tuple[str, ...]
    sealed: frozenset[str]

    def rows(self, tx: Connection) -> list[Row]:
        """Read the rows of every workspace, oldest first."""
        order = (self.table.c.created_ms, self.table.c.id)
        return list(tx.execute(select(self.table).order_by(*order)).mappings())

    def fields_of(self, row: Row, sealer: Sealer) -> dict[str, Any]:
        """Read a record's fields; what an older version did not write is left to the default.

        So are sealed settings that no master key opens: then `is_unreadable` is true.
        """
        place = self._place(row["workspace"], row["id"])
        opened = sealer.try_open(bytes(row["sealed"]), place=place)
        plain, secret = orjson.loads(bytes(row["settings"])), orjson.loads(opened or b"{}")
        settings = {
            name: stored[name]
            for name in self.settings.names
            if name in (stored := secret if name in self.sealed else plain)
        }
        settings |= {name: tuple(settings[name]) for name in self.settings.lists & settings.keys()}
        columns = {name: row[name] for name in ("id", "workspace", "name", *self.columns)}
        return columns | settings | {"is_unreadable": opened is None}

    def other_of_name(self, tx: Connection, record: Record) -> str | None:
        """Find another one of the same name in the same workspace, by its id."""
        table = self.table.c
        is_other = (table.workspace == record.workspace) & (table.id != record.id)
        return tx.scalar(select(table.id).where(is_other, table.name == record.name))

    def count_of(self, tx: Connection, workspace: str) -> int:
        return tx.scalar(select(func.count()).where(self.table.c.workspace == workspace)) or 0

    def put(
        self,
        tx: Connection,
        record: Record,
        sealer: Sealer,
        *,
        origin: str,
        now_ms: int,
        chance: Callable[[int], bytes],
        **first: Any,
    ) -> bool:
        """Insert a record, or change the one with its id; say whether it is new.

        `first` has the columns that only an insert sets. Safe when several processes start at once.
        """
        locks.take(tx, locks.CONFIGURATION)
        settings = self.settings.of(record)
        secret = orjson.dumps({name: settings[name] for name in settings if name in self.sealed})
        plain = {name: settings[name] for name in settings if name not in self.sealed}
        place = self._place(record.workspace, record.id)
        values = {name: str(getattr(record, name)) for name in ("name", *self.columns)} | {
            "settings": orjson.dumps(plain),
            "sealed": sealer.seal(secret, place=place, nonce=chance(NONCE_BYTES)),
            "origin": origin,
        }
        known = tx.execute(update(self.table).where(self.table.c.id == record.id).values(**values))
        if not known.rowcount:
            one = {"id": record.id, "workspace": record.workspace, "created_ms": now_ms}
            tx.execute(insert(self.table).values(**one, **values, **first))
        bump(tx)
        return not known.rowcount

    def origin_of(self, tx: Connection, id_: str) -> str | None:
        """Say where a record's settings came from; None where there is no such record."""
        return tx.scalar(select(self.table.c.origin).where(self.table.c.id == id_))

    def names_of_origin(self, tx: Connection, origins: Collection[str]) -> dict[str, str]:
        """Give the names of the records whose settings came from there, by id."""
        table = self.table.c
        rows = tx.execute(select(table.id, table.name).where(table.origin.in_(list(origins))))
        return {row.id: row.name for row in rows}

    def ids_in_file(self, tx: Connection) -> frozenset[str]:
        """Give the ids of the records that stand in the settings file, where they are changed."""
        table = self.table.c
        is_there = table.off.is_(None) | (table.off != NOT_IN_FILE)
        return frozenset(tx.scalars(select(table.id).where(table.origin.in_(OF_FILE), is_there)))

    def adopt(self, tx: Connection, id_: str, *, origin: str) -> None:
        """Say that a record's settings come from elsewhere now."""
        tx.execute(update(self.table).where(self.table.c.id == id_).values(origin=origin))

    def switch(self, tx: Connection, id_: str, *, off: str | None, now_ms: int) -> bool:
        """Switch a record off for a reason, or on again; say whether that changed anything."""
        locks.take(tx, locks.CONFIGURATION)
        is_on = self.table.c.off.is_(None)
        changed = tx.execute(
            update(self.table)
            .where(self.table.c.id == id_, ~is_on if off is None else is_on)
            .values(off=off, off_ms=None if off is None else now_ms)
        )
        if changed.rowcount:
            bump(tx)
        return changed.rowcount > 0

    def remove(self, tx: Connection, workspace: str, id_: str) -> bool:
        """Delete one; its events and deliveries stay. Say whether there was one."""
        locks.take(tx, locks.CONFIGURATION)
        is_one = (self.table.c.workspace == workspace) & (self.table.c.id == id_)
        done = tx.execute(delete(self.table).where(is_one))
        if done.rowcount:
            bump(tx)
        return done.rowcount > 0

    def _place(self, workspace: str, id_: str) -> str:
        return f"{workspace}/{self.table.name}/{id_}"
