"""More questions at once than PostgreSQL has connections for: later, never a mistake of ours."""

import asyncio

import asyncpg
import pytest
from sqlalchemy import text

from mailonce.store.database import open_database
from mailonce.store.dialects.contract import DatabaseUnavailableError, Tx
from mailonce.store.dialects.postgres import database as module

CONNECTIONS = 8


@pytest.mark.parametrize("database_url", ["postgresql"], indirect=True)
async def test_who_gets_no_connection_in_time_is_told_to_come_again(
    database_url: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(module, "CONNECT_TIMEOUT_S", 0.05)
    database = await open_database(database_url)
    keeper = await asyncpg.connect(database_url)
    await keeper.execute("SELECT pg_advisory_lock(1)")

    def waits(tx: Tx) -> None:
        tx.execute(text("SELECT pg_advisory_lock_shared(1)"))

    try:
        busy = [asyncio.create_task(database.read(waits)) for _ in range(CONNECTIONS)]
        await asyncio.sleep(0)
        answers = await asyncio.gather(
            *(database.read(waits) for _ in range(3)), return_exceptions=True
        )
    finally:
        await keeper.close()
        await asyncio.gather(*busy, return_exceptions=True)
        await database.close()

    assert {str(one) for one in answers} == {"too many ask the database at once; try again"}
    assert {type(one) for one in answers} == {DatabaseUnavailableError}
