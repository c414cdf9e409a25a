"""A handler that leaves a stream of rows in the midst: by a break, an error, or for good."""

import asyncio
from collections.abc import AsyncIterator, Iterator
from concurrent.futures import ThreadPoolExecutor
from typing import Any

import psycopg
import psycopg_pool
import pytest
import pytest_asyncio
from sqlalchemy import create_engine

from mailonce.errors import ConfigError
from mailonce.gate import AsyncGate, AsyncPassage, Gate, Passage, Response
from mailonce.gate.stores.psycopg import AsyncPsycopgStore, PsycopgStore
from mailonce.gate.stores.sqlalchemy import SqlalchemyStore
from tests.gate.gates import ask
from tests.gate.places import ORDER, Place
from tests.servers import wait_for

ROWS = "SELECT generate_series(1, 100)"
# Long enough for everything but a lock that nobody lets go of.
PATIENCE_S = 20


@pytest.fixture
def pool(postgres_place: Place) -> Iterator[Any]:
    """One connection, so that one which is kept is missed by the next request."""
    postgres_place.empty()
    with psycopg_pool.ConnectionPool(postgres_place.url, min_size=1, max_size=1) as pool:
        yield pool


@pytest_asyncio.fixture
async def async_pool(postgres_place: Place) -> AsyncIterator[Any]:
    postgres_place.empty()
    made = psycopg_pool.AsyncConnectionPool(postgres_place.url, min_size=1, max_size=1, open=False)
    async with made as pool:
        yield pool


def order(passage: Passage[Any]) -> Response:
    passage.tx.execute(ORDER)
    return Response(201)


async def order_async(passage: AsyncPassage[Any]) -> Response:
    await passage.tx.execute(ORDER)
    return Response(201)


async def test_a_stream_that_is_left_by_a_break_lets_the_request_commit(
    async_pool: Any, postgres_place: Place
) -> None:
    gate = AsyncGate(AsyncPsycopgStore(async_pool))

    async def take_first(passage: AsyncPassage[Any]) -> Response:
        await passage.tx.execute(ORDER)
        async for _ in passage.tx.cursor().stream(ROWS):
            break
        return Response(201)

    answer = await asyncio.wait_for(gate.run(ask(), take_first), PATIENCE_S)

    assert answer.response.status == 201
    assert (postgres_place.orders(), postgres_place.records()) == (1, 1)


async def test_an_error_within_a_stream_is_raised_and_keeps_no_connection(async_pool: Any) -> None:
    gate = AsyncGate(AsyncPsycopgStore(async_pool))

    async def fail_within(passage: AsyncPassage[Any]) -> Response:
        # The traceback keeps it.
        rows = passage.tx.cursor().stream(ROWS)
        async for _ in rows:
            raise ValueError("no such row")
        return Response(201)

    with pytest.raises(ValueError, match="no such row"):
        await asyncio.wait_for(gate.run(ask(), fail_within), PATIENCE_S)
    answer = await asyncio.wait_for(gate.run(ask(), order_async), PATIENCE_S)

    assert answer.response.status == 201


def test_an_error_within_a_stream_is_raised_and_keeps_no_thread(pool: Any) -> None:
    gate = Gate(PsycopgStore(pool))

    def fail_within(passage: Passage[Any]) -> Response:
        rows = passage.tx.cursor().stream(ROWS)
        for _ in rows:
            raise ValueError("no such row")
        return Response(201)

    with ThreadPoolExecutor(1) as threads:
        failing = threads.submit(gate.run, ask(), fail_within)

        with pytest.raises(ValueError, match="no such row"):
            failing.result(PATIENCE_S)
    assert gate.run(ask(), order).response.status == 201


def test_a_stream_that_is_kept_as_the_handler_answers_is_refused(pool: Any) -> None:
    gate = Gate(PsycopgStore(pool))
    kept: list[Any] = []

    def keep(passage: Passage[Any]) -> Response:
        kept.append(passage.tx.cursor().stream(ROWS))
        next(kept[0])
        return Response(201)

    with ThreadPoolExecutor(1) as threads:
        refused = threads.submit(gate.run, ask(), keep)

        with pytest.raises(ConfigError, match="still uses the gate's transaction"):
            refused.result(PATIENCE_S)
    assert gate.run(ask(), order).response.status == 201


# PostgreSQL sees a moment later that its client is gone; until then the key is running.
BACKEND_END = "the backend's end"
COPIES = ("COPY orders (note) FROM STDIN", "COPY (SELECT generate_series(1, 100)) TO STDOUT")


@pytest.mark.parametrize("text", COPIES, ids=["in", "out"])
@pytest.mark.parametrize("fails", [False, True], ids=["answered", "raised"])
def test_a_copy_that_is_kept_as_the_handler_ends_is_refused(
    pool: Any, postgres_place: Place, text: str, *, fails: bool
) -> None:
    gate = Gate(PsycopgStore(pool))
    kept: list[Any] = []

    def keep(passage: Passage[Any]) -> Response:
        kept.append(passage.tx.cursor().copy(text))
        copy = kept[0].__enter__()
        copy.read() if "STDOUT" in text else copy.write_row(("tea",))
        if fails:
            raise ValueError("no such row")
        return Response(201)

    with ThreadPoolExecutor(1) as threads:
        refused = threads.submit(gate.run, ask(), keep)

        words = "no such row" if fails else "still uses the gate's transaction"
        with pytest.raises(ValueError if fails else ConfigError, match=words):
            refused.result(PATIENCE_S)
    wait_for(lambda: gate.run(ask(), order).response.status == 201, what=BACKEND_END)
    assert (postgres_place.orders(), postgres_place.records()) == (1, 1)


def test_a_copy_below_sqlalchemy_that_is_kept_holds_no_thread(postgres_place: Place) -> None:
    postgres_place.empty()
    url = postgres_place.url.replace("postgresql://", "postgresql+psycopg://")
    engine = create_engine(url, pool_size=1, max_overflow=0)
    gate = Gate(SqlalchemyStore(engine))
    kept: list[Any] = []

    def keep(passage: Passage[Any]) -> Response:
        driver = passage.tx.connection.driver_connection
        kept.append(driver.cursor().copy(COPIES[0]))
        kept[0].__enter__()
        return Response(201)

    with ThreadPoolExecutor(1) as threads:
        refused = threads.submit(gate.run, ask(), keep)

        with pytest.raises(ConfigError, match="still uses the gate's transaction"):
            refused.result(PATIENCE_S)
    done = Response(201)
    wait_for(lambda: gate.run(ask(), lambda _: done).response.status == 201, what=BACKEND_END)
    with pytest.raises(psycopg.OperationalError, match="closed"):
        kept[0].__exit__(None, None, None)
    engine.dispose()


@pytest.mark.parametrize("text", COPIES, ids=["in", "out"])
async def test_an_awaited_copy_that_is_kept_as_the_handler_ends_is_refused(
    async_pool: Any, postgres_place: Place, text: str
) -> None:
    gate = AsyncGate(AsyncPsycopgStore(async_pool))
    kept: list[Any] = []

    async def keep(passage: AsyncPassage[Any]) -> Response:
        kept.append(passage.tx.cursor().copy(text))
        copy = await kept[0].__aenter__()
        await (copy.read() if "STDOUT" in text else copy.write_row(("tea",)))
        return Response(201)

    with pytest.raises(ConfigError, match="still uses the gate's transaction"):
        await asyncio.wait_for(gate.run(ask(), keep), PATIENCE_S)
    answer = await asyncio.wait_for(gate.run(ask(), order_async), PATIENCE_S)

    assert answer.response.status == 201
    assert (postgres_place.orders(), postgres_place.records()) == (1, 1)


def test_a_copy_that_is_used_as_it_should_be_is_kept(pool: Any, postgres_place: Place) -> None:
    def work(passage: Passage[Any]) -> Response:
        with passage.tx.cursor().copy(COPIES[0]) as copy:
            copy.write_row(("tea",))
        return Response(201)

    assert Gate(PsycopgStore(pool)).run(ask(), work).response.status == 201
    assert (postgres_place.orders(), postgres_place.records()) == (1, 1)


def test_a_connection_class_with_slots_keeps_its_fields(postgres_place: Place) -> None:
    postgres_place.empty()

    class Tenant(psycopg.Connection[Any]):
        __slots__ = ("__secret", "tenant")

        def __init__(self, *args: Any, **choices: Any) -> None:
            super().__init__(*args, **choices)
            self.tenant = "ann"
            self.__secret = "tea"

        @property
        def drink(self) -> str:
            return self.__secret

    def work(passage: Passage[Any]) -> Response:
        passage.tx.execute(ORDER)
        return Response.json(201, [passage.tx.tenant, passage.tx.drink])

    pool: Any
    with psycopg_pool.ConnectionPool(
        postgres_place.url, connection_class=Tenant, min_size=1, max_size=1
    ) as pool:
        assert Gate(PsycopgStore(pool)).run(ask(), work).response.body == b'["ann","tea"]'


def test_a_function_may_make_the_cursors(postgres_place: Place) -> None:
    postgres_place.empty()

    def make_cursor(*args: Any, **choices: Any) -> Any:
        return psycopg.ClientCursor(*args, **choices)

    def commit(passage: Passage[Any]) -> Response:
        passage.tx.execute("COMMIT")
        return Response(201)

    with psycopg_pool.ConnectionPool(
        postgres_place.url, kwargs={"cursor_factory": make_cursor}, min_size=1, max_size=1
    ) as pool:
        gate = Gate(PsycopgStore(pool))

        with pytest.raises(ConfigError, match="the handler ended"):
            gate.run(ask(), commit)
        assert gate.run(ask(), order).response.status == 201
    assert (postgres_place.orders(), postgres_place.records()) == (1, 1)
