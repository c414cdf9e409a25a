"""A request that is cancelled at any of its waits leaves its connection clean, or closed.

The pools have one connection, so that whatever a cancelled request left is what the next one gets.
"""

import asyncio
from collections.abc import AsyncIterator, Awaitable, Callable, Generator
from contextlib import asynccontextmanager, suppress
from typing import Any

import asyncpg
import psycopg
import psycopg_pool
import pytest
from sqlalchemy import text
from sqlalchemy.ext.asyncio import (
    AsyncConnection,
    AsyncEngine,
    AsyncSession,
    async_sessionmaker,
    create_async_engine,
)

from mailonce.gate import AsyncGate, AsyncPassage, Gate, Outcome, Passage, Response
from mailonce.gate.store_contract import AsyncStore
from mailonce.gate.stores.asyncpg import AsyncpgStore
from mailonce.gate.stores.psycopg import AsyncPsycopgStore, PsycopgStore
from mailonce.gate.stores.sqlalchemy import AsyncSqlalchemyStore
from tests.gate.gates import DONE, ask
from tests.gate.places import Place

# More than any store waits in one request.
WAITS_MAX = 60


class CancelledAt:
    """Runs a coroutine, and cancels its task as soon as it waits for the `wait`-th time."""

    def __init__(self, work: Awaitable[object], wait: int, *, times: int) -> None:
        self._steps = work.__await__()
        self._waits = range(wait, wait + times)
        self.is_cancelled = False

    def __await__(self) -> Generator[Any, Any, None]:
        waits = 0
        thrown: BaseException | None = None
        while True:
            try:
                future = self._steps.send(None) if thrown is None else self._steps.throw(thrown)
            except StopIteration:
                return
            if waits in self._waits:
                self.is_cancelled = True
                task = asyncio.current_task()
                assert task is not None
                task.cancel()
            waits += 1
            try:
                yield future
                thrown = None
            except BaseException as error:
                thrown = error


async def cancel_at(wait: int, work: Awaitable[object], *, times: int = 1) -> bool:
    """Say whether the work had so many waits."""
    cancelled = CancelledAt(work, wait, times=times)

    async def run() -> None:
        await cancelled

    with suppress(asyncio.CancelledError):
        await asyncio.create_task(run())
    return cancelled.is_cancelled


@asynccontextmanager
async def by_asyncpg(url: str) -> AsyncIterator[AsyncStore[Any]]:
    async with asyncpg.create_pool(url, min_size=1, max_size=1) as pool:
        yield AsyncpgStore(pool)


@asynccontextmanager
async def by_psycopg(url: str) -> AsyncIterator[AsyncStore[Any]]:
    async with psycopg_pool.AsyncConnectionPool(url, min_size=1, max_size=1) as pool:
        yield AsyncPsycopgStore(pool)


@asynccontextmanager
async def by_psycopg_in_autocommit(url: str) -> AsyncIterator[AsyncStore[Any]]:
    async with psycopg_pool.AsyncConnectionPool(
        url, min_size=1, max_size=1, kwargs={"autocommit": True}
    ) as pool:
        yield AsyncPsycopgStore(pool)


def by_sqlalchemy(driver: str, *, session: bool) -> Any:
    @asynccontextmanager
    async def store(url: str) -> AsyncIterator[AsyncStore[Any]]:
        engine: AsyncEngine = create_async_engine(
            url.replace("postgresql://", f"postgresql+{driver}://"), pool_size=1, max_overflow=0
        )
        made: AsyncSqlalchemyStore[Any]
        made = AsyncSqlalchemyStore(async_sessionmaker(engine) if session else engine)
        yield made
        await engine.dispose()

    return store


STORES: dict[str, Any] = {
    "asyncpg": by_asyncpg,
    "psycopg": by_psycopg,
    "psycopg in autocommit": by_psycopg_in_autocommit,
    "sqlalchemy session, asyncpg": by_sqlalchemy("asyncpg", session=True),
    "sqlalchemy connection, asyncpg": by_sqlalchemy("asyncpg", session=False),
    "sqlalchemy session, psycopg": by_sqlalchemy("psycopg", session=True),
}


def ordering(note: str) -> Callable[[AsyncPassage[Any]], Awaitable[Response]]:
    statement = f"INSERT INTO orders (note) VALUES ('{note}')"

    async def order(passage: AsyncPassage[Any]) -> Response:
        of_sqlalchemy = isinstance(passage.tx, AsyncSession | AsyncConnection)
        await passage.tx.execute(text(statement) if of_sqlalchemy else statement)
        return DONE

    return order


@pytest.mark.parametrize("times", [1, 2], ids=["once", "twice"])
@pytest.mark.parametrize("name", STORES)
async def test_what_is_committed_after_a_cancelled_request_stays(
    postgres_place: Place, name: str, times: int
) -> None:
    postgres_place.empty()
    answered: set[str] = set()
    wait = 0

    async with STORES[name](postgres_place.url) as store:
        gate: AsyncGate[Any] = AsyncGate(store)
        assert (await gate.run(ask("warm"), ordering("warm"))).outcome is Outcome.FIRST
        while await cancel_at(wait, gate.run(ask(f"c-{wait}"), ordering(f"c-{wait}")), times=times):
            answer = await asyncio.wait_for(
                gate.run(ask(f"k-{wait}"), ordering(f"k-{wait}")), timeout=30
            )
            assert answer.outcome is Outcome.FIRST, wait
            answered.add(f"k-{wait}")
            wait += 1
            assert wait < WAITS_MAX
        kept = {str(note) for (note,) in postgres_place.query("SELECT note FROM orders")}

    assert wait > 2
    assert answered - kept == set()


async def test_a_transaction_that_the_app_left_in_a_connection_ends_no_request_with_success(
    postgres_place: Place,
) -> None:
    """The app used the driver by itself, and was cancelled while its transaction began."""
    postgres_place.empty()
    url = postgres_place.url.replace("postgresql://", "postgresql+asyncpg://")
    engine = create_async_engine(url, pool_size=1, max_overflow=0)
    raw = await engine.raw_connection()
    driver: Any = raw.driver_connection
    assert await cancel_at(0, driver.transaction().start())
    raw.close()
    gate: AsyncGate[Any] = AsyncGate(AsyncSqlalchemyStore(engine))

    outcomes = [(await gate.run(ask("k"), ordering("k"))).outcome for _ in range(3)]

    await engine.dispose()
    assert outcomes == [Outcome.UNAVAILABLE, Outcome.FIRST, Outcome.REPLAYED]
    assert postgres_place.orders() == 1


@pytest.mark.parametrize("at", [False, True], ids=["before BEGIN", "after COMMIT"])
@pytest.mark.parametrize("fault", [KeyboardInterrupt, psycopg.OperationalError])
def test_a_fault_around_the_transaction_costs_the_pool_no_connection(
    postgres_place: Place, fault: type[BaseException], *, at: bool
) -> None:
    postgres_place.empty()
    faults = [fault()]

    class Interrupted(psycopg.Connection[Any]):
        def set_autocommit(self, value: bool) -> None:  # noqa: FBT001 - psycopg's own
            if faults and value is at:
                raise faults.pop()
            super().set_autocommit(value)

    def order(passage: Passage[Any]) -> Response:
        passage.tx.execute("INSERT INTO orders (note) VALUES ('tea')")
        return DONE

    pool: Any
    with psycopg_pool.ConnectionPool(
        postgres_place.url,
        connection_class=Interrupted,
        kwargs={"autocommit": True},
        min_size=1,
        max_size=1,
    ) as pool:
        gate = Gate(PsycopgStore(pool))
        with suppress(KeyboardInterrupt):
            first = gate.run(ask("k-1"), order).outcome
            assert first is (Outcome.FIRST if at else Outcome.UNAVAILABLE)

        again = gate.run(ask("k-1"), order).outcome
        assert again is (Outcome.REPLAYED if at else Outcome.FIRST)

    assert not faults
    assert (postgres_place.orders(), postgres_place.records()) == (1, 1)


async def test_a_cancellation_before_the_transaction_begins_costs_the_pool_no_connection(
    postgres_place: Place,
) -> None:
    postgres_place.empty()
    is_first = True

    class Slow(psycopg.AsyncConnection[Any]):
        async def set_autocommit(self, value: bool) -> None:  # noqa: FBT001 - psycopg's own
            nonlocal is_first
            if is_first:
                is_first = False
                await asyncio.Event().wait()
            await super().set_autocommit(value)

    pool: Any
    async with psycopg_pool.AsyncConnectionPool(
        postgres_place.url,
        connection_class=Slow,
        kwargs={"autocommit": True},
        min_size=1,
        max_size=1,
    ) as pool:
        await pool.wait()
        gate = AsyncGate(AsyncPsycopgStore(pool))
        assert await cancel_at(0, gate.run(ask("k-1"), ordering("k-1")))

        assert (await gate.run(ask("k-1"), ordering("k-1"))).outcome is Outcome.FIRST

    assert not is_first
