"""A gate in one event loop after the other, as a test runner has them: it says what to do."""

import asyncio
from collections.abc import Awaitable, Callable
from typing import Any

import asyncpg
import pytest
from sqlalchemy.ext.asyncio import AsyncEngine, async_sessionmaker, create_async_engine
from sqlalchemy.pool import NullPool

from mailonce.errors import ConfigError
from mailonce.gate import AsyncGate, AsyncPassage, Outcome, Response
from mailonce.gate.outbox import AsyncOutbox
from mailonce.gate.store_contract import AsyncStore
from mailonce.gate.stores.asyncpg import AsyncpgStore
from mailonce.gate.stores.sqlalchemy import AsyncSqlalchemyStore
from tests.gate.gates import DONE, ask
from tests.gate.places import Place, sqlite_place

REMEDY = r"of another event loop.* fixture of each test.*`poolclass=NullPool`.*gate\.md, Tests"
Make = Callable[[str], Awaitable[AsyncStore[Any]]]


def engine_of(url: str, **choices: Any) -> AsyncEngine:
    return create_async_engine(url.replace("postgresql://", "postgresql+asyncpg://"), **choices)


async def of_engine(url: str) -> AsyncStore[Any]:
    return AsyncSqlalchemyStore(engine_of(url))


async def of_sessions(url: str) -> AsyncStore[Any]:
    return AsyncSqlalchemyStore(async_sessionmaker(engine_of(url)))


async def of_engine_that_pings(url: str) -> AsyncStore[Any]:
    return AsyncSqlalchemyStore(engine_of(url, pool_pre_ping=True))


async def of_pool(url: str) -> AsyncStore[Any]:
    return AsyncpgStore(await asyncpg.create_pool(url, min_size=1, max_size=2))


async def without_pool(url: str) -> AsyncStore[Any]:
    return AsyncSqlalchemyStore(engine_of(url, poolclass=NullPool))


async def work(passage: AsyncPassage[Any]) -> Response:
    await passage.owe("receipt", b"to ann")
    return DONE


def used_once(make: Make, url: str) -> AsyncStore[Any]:
    """Use a store in a loop of its own."""

    async def use() -> AsyncStore[Any]:
        store = await make(url)
        assert (await AsyncGate(store).run(ask("first"), work)).outcome is Outcome.FIRST
        return store

    return asyncio.run(use())


# Python tells of connections whose loop is closed when it frees them.
@pytest.mark.filterwarnings("ignore::ResourceWarning", "ignore::RuntimeWarning")
@pytest.mark.parametrize("make", [of_engine, of_sessions, of_pool])
def test_connections_of_another_event_loop_are_refused_with_the_remedy(
    postgres_place: Place, make: Make
) -> None:
    postgres_place.empty()
    store = used_once(make, postgres_place.url)

    for number in range(3):
        with pytest.raises(ConfigError, match=REMEDY):
            asyncio.run(AsyncGate(store).run(ask(f"k-{number}"), work))
    with pytest.raises(ConfigError, match=REMEDY):
        asyncio.run(AsyncOutbox(store, {}).drain())

    assert postgres_place.records() == 1


@pytest.mark.filterwarnings("ignore::ResourceWarning", "ignore::RuntimeWarning")
def test_a_connection_that_is_tried_first_is_refused_alike(postgres_place: Place) -> None:
    postgres_place.empty()
    store = used_once(of_engine_that_pings, postgres_place.url)

    with pytest.raises(ConfigError, match=REMEDY):
        asyncio.run(AsyncGate(store).run(ask("k-0"), work))

    assert postgres_place.records() == 1


def test_connections_that_no_pool_keeps_are_used_in_any_loop(postgres_place: Place) -> None:
    postgres_place.empty()
    store = used_once(without_pool, postgres_place.url)

    for number in range(3):
        answer = asyncio.run(AsyncGate(store).run(ask(f"k-{number}"), work))
        assert answer.outcome is Outcome.FIRST

    assert postgres_place.records() == 4


def test_an_engine_of_a_sqlite_file_is_used_in_any_loop(tmp_path: Any) -> None:
    place = sqlite_place(tmp_path)
    store: AsyncSqlalchemyStore[Any]
    store = AsyncSqlalchemyStore(create_async_engine(f"sqlite+aiosqlite:///{place.url}"))

    for number in range(3):
        answer = asyncio.run(AsyncGate(store).run(ask(f"k-{number}"), work))
        assert answer.outcome is Outcome.FIRST
