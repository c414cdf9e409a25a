"""Origins: sources without their secrets, enough to name them and to parse again."""

from collections.abc import Mapping

import orjson
from sqlalchemy import ColumnElement, Connection, select, true

from mailonce.core.arrivals.source import Source
from mailonce.store.schema.tables import SOURCES


def of_workspace(tx: Connection, workspace: str) -> Mapping[str, Source]:
    """Give the sources of a workspace by id; every proof in them is left out."""
    return _of(tx, SOURCES.c.workspace == workspace)


def of_all(tx: Connection) -> Mapping[str, Source]:
    """Give the sources of every workspace by id, without their proofs as well."""
    return _of(tx, true())


def _of(tx: Connection, wanted: ColumnElement[bool]) -> Mapping[str, Source]:
    columns = (SOURCES.c.id, SOURCES.c.name, SOURCES.c.provider, SOURCES.c.account)
    rows = tx.execute(select(*columns, SOURCES.c.settings, SOURCES.c.workspace).where(wanted))
    return {
        row[0]: Source(
            id=row[0],
            workspace=row[5],
            name=row[1],
            provider=row[2],
            account=row[3],
            options=orjson.loads(row[4]).get("options") or {},
        )
        for row in rows
    }
