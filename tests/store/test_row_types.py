"""The row types of PostgreSQL carry the fields of the ledger's rows, in their order."""

from collections.abc import Iterator
from typing import Any

import asyncpg
import pytest

from mailonce.core import entry
from mailonce.store.database import open_database
from tests.servers import start_postgres_in_memory

TYPES: dict[str, Any] = {
    "claim_row": entry.ClaimRow,
    "arrival_row": entry.ArrivalRow,
    "event_row_3": entry.EventRow,
    "owed_row": entry.OwedRow,
    "copy_row": entry.CopyRow,
    "said_row": entry.SaidRow,
    "count_row": entry.CountRow,
    "conflict_row": entry.ConflictRow,
    "dead_row_2": entry.DeadRow,
    "tried_row": entry.TriedRow,
}
FIELDS = """
    SELECT array_agg(attname::text ORDER BY attnum) FROM pg_attribute
    WHERE attrelid = $1::text::regclass AND attnum > 0
"""


@pytest.fixture(scope="module")
def url() -> Iterator[str]:
    server = start_postgres_in_memory()
    yield server.url()
    server.stop()


async def test_each_row_type_has_the_fields_of_its_row(url: str) -> None:
    await (await open_database(url)).close()
    connection = await asyncpg.connect(url)

    found = {name: await connection.fetchval(FIELDS, name) for name in TYPES}

    await connection.close()
    assert found == {name: list(row._fields) for name, row in TYPES.items()}
