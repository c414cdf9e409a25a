"""A statement of a forgotten task or thread that reaches the driver as the transaction ends.

It must run in the gate's transaction or not at all. On the connection that goes back to the pool it
would begin a transaction that nobody ends, and the next request would commit it.
"""

import asyncio
from collections.abc import Iterator
from contextlib import suppress
from threading import Event, Thread
from typing import Any

import psycopg
import psycopg_pool
import pytest
from sqlalchemy import create_engine
from sqlalchemy.orm import sessionmaker

from mailonce.errors import ConfigError
from mailonce.gate import AsyncPassage, Gate, Passage, Response
from mailonce.gate.stores.psycopg import PsycopgStore
from mailonce.gate.stores.sqlalchemy import SqlalchemyStore
from tests.gate.gates import DONE, ask
from tests.gate.places import ORDER, Place
from tests.gate.test_misuse_awaited import async_psycopg_gate, async_session_gate, asyncpg_gate
from tests.gate.test_running_tasks import (
    connection_gate,
    connection_on_asyncpg_gate,
    connection_on_psycopg_gate,
    psycopg_gate,
    session_gate,
    session_on_psycopg_gate,
    worded,
)
from tests.servers import wait_for

# What makes a COMMIT take a while: a check that PostgreSQL leaves until then.
SLOW_COMMIT = """
    CREATE OR REPLACE FUNCTION take_a_while() RETURNS trigger LANGUAGE plpgsql AS
    $$ BEGIN PERFORM pg_sleep(0.4); RETURN NULL; END $$;
    CREATE CONSTRAINT TRIGGER slow_commit AFTER INSERT ON orders DEFERRABLE INITIALLY DEFERRED
    FOR EACH ROW EXECUTE FUNCTION take_a_while()
"""
COMMITTING = "SELECT 1 FROM pg_stat_activity WHERE state = 'active' AND query LIKE '%COMMIT%'"
LATE = "INSERT INTO orders (note) VALUES ('late')"
LATE_ONES = "SELECT count(*) FROM orders WHERE note = 'late'"


@pytest.fixture
def place(postgres_place: Place) -> Iterator[Place]:
    postgres_place.empty()
    yield postgres_place
    postgres_place.query("DROP TRIGGER IF EXISTS slow_commit ON orders")


def is_committing(place: Place) -> bool:
    others = f"{COMMITTING} AND pid <> pg_backend_pid()"
    return bool(place.query(others))


@pytest.mark.parametrize("open_gate", [psycopg_gate, session_gate, connection_gate])
def test_a_thread_that_writes_while_the_gate_commits_writes_into_no_other_transaction(
    place: Place, open_gate: Any
) -> None:
    place.query(SLOW_COMMIT)
    gate, close = open_gate(place)
    threads: list[Thread] = []

    def write(tx: Any) -> None:
        wait_for(lambda: is_committing(place), what="the COMMIT")
        with suppress(Exception):
            tx.execute(worded(tx, LATE))

    def forgetful(passage: Passage[Any]) -> Response:
        passage.tx.execute(worded(passage.tx, ORDER))
        threads.append(Thread(target=write, args=(passage.tx,)))
        threads[-1].start()
        return DONE

    def orderly(passage: Passage[Any]) -> Response:
        passage.tx.execute(worded(passage.tx, ORDER))
        return DONE

    gate.run(ask("k-1"), forgetful)
    threads[0].join(30)
    for number in range(2, 5):
        gate.run(ask(f"k-{number}"), orderly)
    close()

    assert place.query(LATE_ONES) == [(0,)]
    assert (place.orders(), place.records()) == (4, 4)


@pytest.mark.parametrize(
    "open_gate",
    [
        asyncpg_gate,
        async_psycopg_gate,
        async_session_gate,
        session_on_psycopg_gate,
        connection_on_asyncpg_gate,
        connection_on_psycopg_gate,
    ],
)
async def test_a_task_that_writes_while_the_gate_commits_writes_into_no_other_transaction(
    place: Place, open_gate: Any
) -> None:
    place.query(SLOW_COMMIT)
    gate, close = await open_gate(place)
    tasks: list[asyncio.Task[None]] = []

    async def write(tx: Any) -> None:
        while not await asyncio.to_thread(is_committing, place):
            await asyncio.sleep(0.01)
        with suppress(Exception):
            await tx.execute(worded(tx, LATE))

    async def forgetful(passage: AsyncPassage[Any]) -> Response:
        await passage.tx.execute(worded(passage.tx, ORDER))
        tasks.append(asyncio.create_task(write(passage.tx)))
        return DONE

    async def orderly(passage: AsyncPassage[Any]) -> Response:
        await passage.tx.execute(worded(passage.tx, ORDER))
        return DONE

    await gate.run(ask("k-1"), forgetful)
    await asyncio.wait_for(asyncio.gather(*tasks, return_exceptions=True), 30)
    for number in range(2, 5):
        await gate.run(ask(f"k-{number}"), orderly)
    await asyncio.wait_for(close(), 60)

    assert place.query(LATE_ONES) == [(0,)]
    assert (place.orders(), place.records()) == (4, 4)


async def prepared(tx: Any) -> Any:
    """Give what asyncpg has beside the connection, and keeps beyond the handler."""
    statement = await tx.prepare(LATE)
    return statement.fetch


async def of_the_connection(tx: Any) -> Any:
    return lambda: tx.execute(worded(tx, LATE))


@pytest.mark.parametrize(
    ("open_gate", "way"),
    [
        (asyncpg_gate, of_the_connection),
        (asyncpg_gate, prepared),
        (async_psycopg_gate, of_the_connection),
        (async_session_gate, of_the_connection),
        (session_on_psycopg_gate, of_the_connection),
        (connection_on_asyncpg_gate, of_the_connection),
        (connection_on_psycopg_gate, of_the_connection),
    ],
)
@pytest.mark.parametrize("status", [201, 503])
async def test_a_task_that_tries_in_each_turn_of_the_loop_writes_nothing_beside_the_gate(
    place: Place, open_gate: Any, way: Any, status: int
) -> None:
    """Also in the turn between the answer to the COMMIT or ROLLBACK and the gate's next step."""
    place.query(SLOW_COMMIT)
    gate, close = await open_gate(place)
    tasks: list[asyncio.Task[None]] = []
    is_over = False

    async def write(try_it: Any) -> None:
        # Not before the gate ends it: the request would be undone.
        while status == 201 and not await asyncio.to_thread(is_committing, place):
            await asyncio.sleep(0.01)
        while not is_over:
            with suppress(Exception):
                await try_it()
            await asyncio.sleep(0)

    async def forgetful(passage: AsyncPassage[Any]) -> Response:
        await passage.tx.execute(worded(passage.tx, ORDER))
        tasks.append(asyncio.create_task(write(await way(passage.tx))))
        return Response(status)

    async def orderly(passage: AsyncPassage[Any]) -> Response:
        await passage.tx.execute(worded(passage.tx, ORDER))
        return DONE

    # A request that is undone may be undone because the task is inside, and says so.
    with suppress(*(() if status == 201 else (ConfigError,))):
        await gate.run(ask("k-1"), forgetful)
    for number in range(2, 5):
        await gate.run(ask(f"k-{number}"), orderly)
    is_over = True
    await asyncio.wait_for(asyncio.gather(*tasks), 30)
    await asyncio.wait_for(close(), 60)

    kept = 4 if status == 201 else 3
    assert place.query(LATE_ONES) == [(0,)]
    assert (place.orders(), place.records()) == (kept, kept)


class Before:
    """A place just before the driver, where a thread waits as if it were paused."""

    def __init__(self) -> None:
        self.is_there = Event()
        self.go = Event()

    def cursor_class(self) -> type[psycopg.Cursor[Any]]:
        before = self

        class PausedCursor(psycopg.Cursor[Any]):
            def execute(self, query: Any, *args: Any, **choices: Any) -> Any:
                if "late" in str(query):
                    before.is_there.set()
                    before.go.wait(30)
                return super().execute(query, *args, **choices)

        return PausedCursor


def paused_psycopg_gate(place: Place, before: Before) -> tuple[Gate[Any], Any]:
    choices = {"cursor_factory": before.cursor_class()}
    pool = psycopg_pool.ConnectionPool(place.url, kwargs=choices, min_size=1, max_size=1, open=True)
    return Gate(PsycopgStore(pool)), pool.close


def paused_session_gate(place: Place, before: Before) -> tuple[Gate[Any], Any]:
    engine = _paused_engine(place, before)
    return Gate(SqlalchemyStore(sessionmaker(engine))), engine.dispose


def paused_connection_gate(place: Place, before: Before) -> tuple[Gate[Any], Any]:
    engine = _paused_engine(place, before)
    return Gate(SqlalchemyStore(engine)), engine.dispose


def _paused_engine(place: Place, before: Before) -> Any:
    url = place.url.replace("postgresql://", "postgresql+psycopg://")
    choices = {"cursor_factory": before.cursor_class()}
    return create_engine(url, pool_size=1, max_overflow=0, connect_args=choices)


@pytest.mark.parametrize(
    "open_gate", [paused_psycopg_gate, paused_session_gate, paused_connection_gate]
)
@pytest.mark.parametrize("ends_with", [None, ValueError])
def test_a_thread_that_is_paused_before_the_driver_writes_into_no_other_transaction(
    place: Place, open_gate: Any, ends_with: type[Exception] | None
) -> None:
    before = Before()
    gate, close = open_gate(place, before)
    threads: list[Thread] = []

    def write(tx: Any) -> None:
        with suppress(Exception):
            tx.execute(worded(tx, LATE))

    def forgetful(passage: Passage[Any]) -> Response:
        passage.tx.execute(worded(passage.tx, ORDER))
        threads.append(Thread(target=write, args=(passage.tx,)))
        threads[-1].start()
        before.is_there.wait(30)
        if ends_with is not None:
            raise ends_with
        return DONE

    def orderly(passage: Passage[Any]) -> Response:
        passage.tx.execute(worded(passage.tx, ORDER))
        return DONE

    # psycopg alone sees nothing of a thread that is not inside it: then it may be committed.
    with suppress(ConfigError, ValueError):
        gate.run(ask("k-1"), forgetful)
    kept = (place.orders(), place.records())
    before.go.set()
    threads[0].join(30)
    for number in range(2, 5):
        gate.run(ask(f"k-{number}"), orderly)
    close()

    assert place.query(LATE_ONES) == [(0,)]
    assert kept in ([(0, 0)] if ends_with else [(0, 0), (1, 1)])
    assert (place.orders(), place.records()) == (kept[0] + 3, kept[1] + 3)
