"""SQLAlchemy's pool, and other connections of its engine, where the gate uses the driver itself."""

import asyncio
from typing import Any

import pytest
from sqlalchemy import text
from sqlalchemy.ext.asyncio import AsyncEngine, create_async_engine

from mailonce.errors import ConfigError
from mailonce.gate import AsyncGate, AsyncPassage, Outcome, Response
from mailonce.gate.stores.sqlalchemy import AsyncSqlalchemyStore
from tests.gate.gates import DONE, ask
from tests.gate.places import ORDER, Place


def engine_of(place: Place) -> AsyncEngine:
    url = place.url.replace("postgresql://", "postgresql+asyncpg://")
    return create_async_engine(url, pool_size=3)


async def order(passage: AsyncPassage[Any]) -> Response:
    await passage.tx.execute(text(ORDER))
    return DONE


async def fill(engine: AsyncEngine) -> list[int]:
    """Open every connection of the pool at once, and name their backends."""
    connections = [await engine.connect() for _ in range(3)]
    pids = [await one.scalar(text("SELECT pg_backend_pid()")) for one in connections]
    for connection in connections:
        await connection.close()
    return pids


async def test_one_broken_connection_ends_the_whole_pool(postgres_place: Place) -> None:
    postgres_place.empty()
    engine = engine_of(postgres_place)
    gate: AsyncGate[Any] = AsyncGate(AsyncSqlalchemyStore(engine))
    for pid in await fill(engine):
        postgres_place.query(f"SELECT pg_terminate_backend({pid}, 5000)")

    outcomes = [(await gate.run(ask("k"), order)).outcome for _ in range(3)]

    assert outcomes == [Outcome.UNAVAILABLE, Outcome.FIRST, Outcome.REPLAYED]
    await engine.dispose()


async def test_a_transaction_that_was_left_open_in_the_pool_costs_one_request(
    postgres_place: Place,
) -> None:
    postgres_place.empty()
    engine = create_async_engine(str(engine_of(postgres_place).url), pool_size=1, max_overflow=0)
    gate: AsyncGate[Any] = AsyncGate(AsyncSqlalchemyStore(engine))
    async with engine.connect() as connection:
        # The driver's own, of which SQLAlchemy knows nothing.
        driver: Any = (await connection.get_raw_connection()).driver_connection
        await driver.execute("BEGIN")
        await driver.execute(ORDER)

    outcomes = [(await gate.run(ask("k"), order)).outcome for _ in range(3)]

    assert outcomes == [Outcome.UNAVAILABLE, Outcome.FIRST, Outcome.REPLAYED]
    assert (postgres_place.orders(), postgres_place.records()) == (1, 1)
    await engine.dispose()


async def test_an_engine_is_guarded_once_and_free_outside_of_handlers(
    postgres_place: Place,
) -> None:
    postgres_place.empty()
    engine = engine_of(postgres_place)
    store: AsyncSqlalchemyStore[Any] = AsyncSqlalchemyStore(engine)
    commit = engine.dialect.do_commit
    gate: AsyncGate[Any] = AsyncGate(AsyncSqlalchemyStore(engine))

    async def elsewhere(_: AsyncPassage[Any]) -> Response:
        async with engine.begin() as other:
            await other.execute(text(ORDER))
        return DONE

    async def outside() -> None:
        async with engine.begin() as other:
            await other.execute(text(ORDER))

    assert engine.dialect.do_commit is commit
    assert store.sql.dialect.name == "postgresql"
    with pytest.raises(ConfigError, match="another connection"):
        await gate.run(ask("k"), elsewhere)
    # A task that was begun before any handler, and one whose handler has ended.
    await asyncio.gather(outside(), gate.run(ask("k"), order))
    await outside()
    assert (postgres_place.orders(), postgres_place.records()) == (3, 1)
    await engine.dispose()
