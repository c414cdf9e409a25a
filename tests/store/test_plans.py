"""Plans made while a table is empty must still be right when it is full."""

import re
from collections.abc import Iterator
from typing import Any

import asyncpg
import pytest

from mailonce.store.database import open_database
from mailonce.store.dialects.postgres import fenced_leases as sql
from mailonce.store.dialects.postgres.session import SESSION
from mailonce.store.schema.work_table import DELIVERY_TABLE
from tests.servers import start_postgres_in_memory

ONE_LANE: list[Any] = [b"", ["rte"], [32], [30_000], [0], [1], [2]]


@pytest.fixture(scope="module")
def url() -> Iterator[str]:
    server = start_postgres_in_memory()
    yield server.url()
    server.stop()


@pytest.mark.parametrize(
    ("statement", "given"),
    [
        (sql.lease_sql(DELIVERY_TABLE), ONE_LANE),
        *(
            (sql.finish_sql(DELIVERY_TABLE, of), [[]] * len(of))
            for of in (sql.OF_DONE, sql.OF_OTHERS, sql.OF_DEAD)
        ),
        (sql.give_back_sql(DELIVERY_TABLE), [[], []]),
        (sql.renew_sql(DELIVERY_TABLE), [[], [], []]),
    ],
    ids=["lease", "finish_done", "finish_others", "finish_dead", "give_back", "renew"],
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

    # The row is `d` in each part of a statement; the plan numbers those behind the first.
    changed = [line for line in plan if re.search(r" on deliveries d(_\d)?  \(", line)]
    assert any("Index Scan using deliveries_pkey on " in line for line in changed)
    assert not any("using deliveries_due on " in line for line in changed)
    assert not any("using deliveries_leased on " in line for line in changed)
