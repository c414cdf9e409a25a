"""Ids by their beginning, as people copy them."""

from mailonce.core.id_prefix import IdPrefix
from mailonce.store import id_search
from mailonce.store.dialects.contract import Database

# Enough to see that there are several.
IDS_MAX = 5


async def find_ids(database: Database, workspace: str, prefix: IdPrefix) -> list[str]:
    """List a few of the ids of this workspace that begin so."""
    rows = await database.read(
        lambda tx: id_search.between(
            tx, workspace, prefix.kind, first=prefix.first, last=prefix.last, limit=IDS_MAX
        )
    )
    return [f"{prefix.kind}_{row.hex()}" for row in rows]
