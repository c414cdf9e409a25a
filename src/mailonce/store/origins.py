"""Origins: sources without their secrets, enough to name them and to parse again."""

from collections.abc import Mapping

import orjson
from sqlalchemy import Connection, select

from mailonce.core.source import Source
from mailonce.store.tables import SOURCES


def of_workspace(tx: Connection, workspace: str) -> Mapping[str, Source]:
    """Give the sources of a workspace by id; every proof in them is left out."""
    columns = (SOURCES.c.id, SOURCES.c.name, SOURCES.c.provider, SOURCES.c.account)
    rows = tx.execute(select(*columns, SOURCES.c.settings).where(SOURCES.c.workspace == workspace))
    return {
        row[0]: Source(
            id=row[0],
            workspace=workspace,
            name=row[1],
            provider=row[2],
            account=row[3],
            options=orjson.loads(row[4]).get("options") or {},
        )
        for row in rows
    }
