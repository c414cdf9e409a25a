"""What the gate costs: no round trip more than the app's own transaction; SQLAlchemy needs two.

On asyncpg it saves one: the pool's reset of the connection travels with the COMMIT, too.
"""

from collections.abc import Awaitable, Callable
from typing import Any

import asyncpg
import psycopg
import pytest
from sqlalchemy import text
from sqlalchemy.ext.asyncio import create_async_engine

from mailonce.gate import AsyncGate, AsyncPassage
from mailonce.gate.store_contract import AsyncStore
from mailonce.gate.stores.asyncpg import AsyncpgStore
from mailonce.gate.stores.psycopg import AsyncPsycopgStore
from mailonce.gate.stores.sqlalchemy import AsyncSqlalchemyStore
from tests.gate.gates import DONE, ask
from tests.gate.places import ORDER, Place
from tests.gate.turns import Line, counted_line

# More than any driver needs to have all its statements prepared.
WARM = 8


class OneConnection:
    """A pool of one connection that stays open."""

    def __init__(self, connection: psycopg.AsyncConnection[Any]) -> None:
        self._connection = connection

    async def getconn(self, timeout: float | None = None) -> psycopg.AsyncConnection[Any]:
        del timeout
        return self._connection

    async def putconn(self, conn: psycopg.AsyncConnection[Any]) -> None:
        assert conn.info.transaction_status == psycopg.pq.TransactionStatus.IDLE


async def gated(
    line: Line, store: AsyncStore[Any], order: Callable[[Any], Awaitable[object]]
) -> int:
    gate = AsyncGate(store)

    async def work(passage: AsyncPassage[Any]) -> Any:
        await order(passage.tx)
        return DONE

    async def act(number: int) -> None:
        assert (await gate.run(ask(f"k-{number}"), work)).response is DONE

    return await line.trips(act, warm=WARM)


async def test_asyncpg_saves_a_trip_with_the_gate(postgres_place: Place) -> None:
    postgres_place.empty()
    async with (
        counted_line(postgres_place.url) as line,
        asyncpg.create_pool(line.url, min_size=1, max_size=1) as pool,
    ):

        async def bare(_: int) -> None:
            async with pool.acquire() as connection, connection.transaction():
                await connection.execute(ORDER)

        alone = await line.trips(bare, warm=WARM)
        extra = await gated(line, AsyncpgStore(pool), lambda tx: tx.execute(ORDER)) - alone

    assert extra == -1


async def test_sqlalchemy_pays_for_the_claim_and_the_record(postgres_place: Place) -> None:
    postgres_place.empty()
    async with counted_line(postgres_place.url) as line:
        engine = create_async_engine(line.url.replace("postgresql:", "postgresql+asyncpg:"))

        async def bare(_: int) -> None:
            async with engine.begin() as connection:
                await connection.execute(text(ORDER))

        alone = await line.trips(bare, warm=WARM)
        store: AsyncSqlalchemyStore[Any] = AsyncSqlalchemyStore(engine)
        extra = await gated(line, store, lambda tx: tx.execute(text(ORDER))) - alone
        await engine.dispose()

    assert extra == 2


@pytest.mark.parametrize("autocommit", [True, False])
async def test_psycopg_pays_no_trip_for_the_gate(
    postgres_place: Place, *, autocommit: bool
) -> None:
    postgres_place.empty()
    async with counted_line(postgres_place.url) as line:
        connection = await psycopg.AsyncConnection.connect(line.url, autocommit=autocommit)

        async def bare(_: int) -> None:
            async with connection.transaction():
                await connection.execute(ORDER)

        alone = await line.trips(bare, warm=WARM)
        store = AsyncPsycopgStore(OneConnection(connection))
        extra = await gated(line, store, lambda tx: tx.execute(ORDER)) - alone
        await connection.close()

    assert extra == 0
