"""Plans made while a table is empty must still be right when it is full."""

from collections.abc import Iterator
from typing import Any

import asyncpg
import pytest

from mailonce.store.database import open_database
from mailonce.store.dialects import postgres_deliveries as sql
from mailonce.store.dialects.postgres_session import SESSION
from tests.servers import start_postgres_in_memory

ONE_LANE: list[Any] = [b"", ["rte"], [32], [30_000], [0], [1], [2]]
NOTHING: list[Any] = [[] for _ in range(12)]


@pytest.fixture(scope="module")
def url() -> Iterator[str]:
    server = start_postgres_in_memory()
    yield server.url()
    server.stop()


@pytest.mark.parametrize(
    ("statement", "given"),
    [(sql.LEASE, ONE_LANE), (sql.FINISH, NOTHING), (sql.FINISH_WITH_LETTERS, NOTHING)],
    ids=["lease", "finish", "finish_with_letters"],
)
async def test_deliveries_are_changed_by_their_key(
    url: str, statement: str, given: list[Any]
) -> None:
    await (await open_database(url)).close()
    connection = await asyncpg.connect(url, server_settings=SESSION)
    try:
        plan = [row[0] for row in await connection.fetch("EXPLAIN " + statement, *given)]
    finally:
        await connection.close()

    changed = [line for line in plan if line.endswith(" d") or " d  (" in line]
    assert any("Index Scan using deliveries_pkey on deliveries d" in line for line in changed)
    assert not any("deliveries_due on deliveries d " in line for line in changed)
    assert not any("deliveries_leased on deliveries d " in line for line in changed)
