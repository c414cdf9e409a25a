"""A task that the handler started and did not await still uses the transaction as it answers."""

import asyncio
import logging
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from threading import Thread, get_ident
from typing import Any
from uuid import uuid4

import psycopg
import psycopg_pool
import pytest
from sqlalchemy import Connection, create_engine, text
from sqlalchemy.ext.asyncio import (
    AsyncConnection,
    AsyncSession,
    async_sessionmaker,
    create_async_engine,
)
from sqlalchemy.orm import DeclarativeBase, Mapped, Session, mapped_column, sessionmaker

from mailonce.errors import ConfigError
from mailonce.gate import AsyncGate, AsyncPassage, Gate, Passage, Response
from mailonce.gate.stores.psycopg import PsycopgStore
from mailonce.gate.stores.sqlalchemy import AsyncSqlalchemyStore, SqlalchemyStore
from tests.gate.gates import ask
from tests.gate.places import ORDER, Place
from tests.gate.test_misuse_awaited import async_psycopg_gate, async_session_gate, asyncpg_gate
from tests.servers import wait_for

RUNNING = """
SELECT 1 FROM pg_stat_activity
WHERE state = 'active' AND query LIKE '%{}%' AND pid <> pg_backend_pid()
"""
CANCEL = RUNNING.replace("SELECT 1", "SELECT pg_cancel_backend(pid)")
# Longer than it takes a busy machine from the database's word to the gate's look.
LONG_S = 0.6


class Base(DeclarativeBase):
    """What SQLAlchemy wants its classes to stand on."""


class Order(Base):
    """An order whose note takes PostgreSQL a while."""

    __tablename__ = "orders"
    note: Mapped[str] = mapped_column(primary_key=True)


def worded(tx: Any, statement: str) -> Any:
    """Write a statement as a transaction of this kind takes it."""
    is_sqlalchemy = isinstance(tx, AsyncSession | AsyncConnection | Session | Connection)
    return text(statement) if is_sqlalchemy else statement


class Slow:
    """A statement that takes a while, and can be told from all others."""

    def __init__(self, place: Place, seconds: float = 0.3) -> None:
        self._place = place
        self._mark = uuid4().hex
        self.call = f"pg_sleep({seconds}) /* {self._mark} */"

    def wait(self) -> None:
        """Wait until the database runs it."""
        self._wait_for(self._mark, is_running=True)

    @contextmanager
    def cancelled_when_refused(self) -> Iterator[None]:
        """Let it run until the gate of this thread says that it is still used, and no longer."""
        log, handler, thread = logging.getLogger("mailonce.gate"), logging.Handler(), get_ident()

        def cancel(record: logging.LogRecord) -> None:
            # A forgotten thread is refused in the same words, as late as it likes.
            if record.thread == thread:
                # Not whoever looks for it, whose query has the mark as well.
                self._place.query(CANCEL.format(f"pg_sleep%{self._mark}"))

        handler.emit = cancel  # type: ignore[method-assign]
        log.addHandler(handler)
        try:
            yield
        finally:
            log.removeHandler(handler)

    def wait_for_all_ends(self) -> None:
        """Wait until no backend runs one: a connection was closed, and its claim is held on."""
        self._wait_for("pg_sleep", is_running=False)

    def _wait_for(self, words: str, *, is_running: bool) -> None:
        wait_for(
            lambda: bool(self._place.query(RUNNING.format(words))) is is_running,
            what="the slow statement",
        )


async def use_slowly(tx: Any, slow: Slow) -> None:
    """Write, wait in the database, and write again, as a task that was meant to be awaited."""
    for words in (ORDER, f"SELECT {slow.call}", ORDER):
        await tx.execute(worded(tx, words))


async def flush_slowly(session: AsyncSession, slow: Slow) -> None:
    """Leave the statement to SQLAlchemy's flush."""
    for tea in ("green", "black"):
        session.add(Order(note=text(f"(SELECT '{tea}' FROM {slow.call})")))
        await session.flush()


async def session_on_psycopg_gate(place: Place) -> tuple[AsyncGate[Any], Any]:
    url = place.url.replace("postgresql://", "postgresql+psycopg://")
    engine = create_async_engine(url, pool_size=2, max_overflow=0)
    store: AsyncSqlalchemyStore[Any] = AsyncSqlalchemyStore(async_sessionmaker(engine))
    return AsyncGate(store), engine.dispose


async def async_connection_gate(place: Place, driver: str) -> tuple[AsyncGate[Any], Any]:
    url = place.url.replace("postgresql://", f"postgresql+{driver}://")
    engine = create_async_engine(url, pool_size=2, max_overflow=0)
    return AsyncGate(AsyncSqlalchemyStore(engine)), engine.dispose


async def connection_on_asyncpg_gate(place: Place) -> tuple[AsyncGate[Any], Any]:
    return await async_connection_gate(place, "asyncpg")


async def connection_on_psycopg_gate(place: Place) -> tuple[AsyncGate[Any], Any]:
    return await async_connection_gate(place, "psycopg")


@pytest.mark.parametrize(
    ("open_gate", "use"),
    [
        (connection_on_asyncpg_gate, use_slowly),
        (connection_on_psycopg_gate, use_slowly),
        (asyncpg_gate, use_slowly),
        (async_psycopg_gate, use_slowly),
        (async_session_gate, use_slowly),
        (async_session_gate, flush_slowly),
        (session_on_psycopg_gate, use_slowly),
        (session_on_psycopg_gate, flush_slowly),
    ],
)
async def test_a_task_that_still_runs_undoes_the_request_and_keeps_no_connection(
    postgres_place: Place, open_gate: Any, use: Any
) -> None:
    postgres_place.empty()
    gate, close = await open_gate(postgres_place)
    tasks: list[asyncio.Task[None]] = []
    slow = Slow(postgres_place)

    async def forgetful(passage: AsyncPassage[Any]) -> Response:
        tasks.append(asyncio.create_task(use(passage.tx, slow)))
        await asyncio.to_thread(slow.wait)
        return Response(201)

    async def orderly(passage: AsyncPassage[Any]) -> Response:
        await use(passage.tx, Slow(postgres_place))
        return Response(201)

    # More than the pool has connections.
    for number in range(3):
        slow = Slow(postgres_place, LONG_S)
        refused = pytest.raises(ConfigError, match=r"a task .* await it")
        with slow.cancelled_when_refused(), refused:
            await gate.run(ask(f"k-{number}"), forgetful)
    await asyncio.gather(*tasks, return_exceptions=True)
    kept = (postgres_place.orders(), postgres_place.records())
    await asyncio.to_thread(Slow(postgres_place).wait_for_all_ends)
    answers = [(await gate.run(ask("k-1"), orderly)).response.status for _ in range(2)]
    await asyncio.wait_for(close(), 60)

    assert kept == (0, 0)
    assert answers == [201, 201]
    assert (postgres_place.orders(), postgres_place.records()) == (2, 1)


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
@pytest.mark.parametrize("ends_with", [ValueError, asyncio.CancelledError])
async def test_a_handler_that_fails_beside_its_task_fails_as_it_would_alone(
    postgres_place: Place, open_gate: Any, ends_with: type[BaseException]
) -> None:
    postgres_place.empty()
    gate, close = await open_gate(postgres_place)
    tasks: list[asyncio.Task[None]] = []

    async def failing(passage: AsyncPassage[Any]) -> Response:
        slow = Slow(postgres_place)
        tasks.append(asyncio.create_task(use_slowly(passage.tx, slow)))
        await asyncio.to_thread(slow.wait)
        raise ends_with

    async def orderly(passage: AsyncPassage[Any]) -> Response:
        await use_slowly(passage.tx, Slow(postgres_place))
        return Response(201)

    for number in range(4):
        with pytest.raises(ends_with):
            await gate.run(ask(f"k-{number}"), failing)
    await asyncio.gather(*tasks, return_exceptions=True)
    kept = (postgres_place.orders(), postgres_place.records())
    await asyncio.to_thread(Slow(postgres_place).wait_for_all_ends)
    answer = await gate.run(ask("k-1"), orderly)
    await asyncio.wait_for(close(), 60)

    assert (kept, answer.response.status) == ((0, 0), 201)
    assert (postgres_place.orders(), postgres_place.records()) == (2, 1)


def psycopg_gate(place: Place) -> tuple[Gate[Any], Any]:
    pool = psycopg_pool.ConnectionPool(
        place.url, kwargs={"autocommit": True}, min_size=1, max_size=2, open=True
    )
    return Gate(PsycopgStore(pool)), pool.close


def session_gate(place: Place) -> tuple[Gate[Any], Any]:
    url = place.url.replace("postgresql://", "postgresql+psycopg://")
    engine = create_engine(url, pool_size=2, max_overflow=0)
    store: SqlalchemyStore[Any] = SqlalchemyStore(sessionmaker(engine))
    return Gate(store), engine.dispose


def connection_gate(place: Place) -> tuple[Gate[Any], Any]:
    url = place.url.replace("postgresql://", "postgresql+psycopg://")
    engine = create_engine(url, pool_size=2, max_overflow=0)
    return Gate(SqlalchemyStore(engine)), engine.dispose


@pytest.mark.parametrize("open_gate", [psycopg_gate, session_gate, connection_gate])
def test_a_thread_that_still_runs_undoes_the_request(postgres_place: Place, open_gate: Any) -> None:
    postgres_place.empty()
    gate, close = open_gate(postgres_place)
    threads: list[Thread] = []
    slow = Slow(postgres_place)

    def use(tx: Any, slow: Slow) -> None:
        for words in (ORDER, f"SELECT {slow.call}", ORDER):
            with suppress(Exception):
                tx.execute(worded(tx, words))

    def forgetful(passage: Passage[Any]) -> Response:
        threads.append(Thread(target=use, args=(passage.tx, slow)))
        threads[-1].start()
        slow.wait()
        return Response(201)

    def orderly(passage: Passage[Any]) -> Response:
        use(passage.tx, Slow(postgres_place))
        return Response(201)

    # More than the pool has connections.
    for number in range(3):
        slow = Slow(postgres_place, LONG_S)
        refused = pytest.raises(ConfigError, match="a task or thread")
        with slow.cancelled_when_refused(), refused:
            gate.run(ask(f"k-{number}"), forgetful)
    for thread in threads:
        thread.join(30)
    kept = (postgres_place.orders(), postgres_place.records())
    Slow(postgres_place).wait_for_all_ends()
    answers = [gate.run(ask("k-1"), orderly).response.status for _ in range(2)]
    close()

    assert kept == (0, 0)
    assert answers == [201, 201]
    assert (postgres_place.orders(), postgres_place.records()) == (2, 1)


@pytest.mark.parametrize("cursor", [False, True], ids=["connection", "cursor"])
async def test_what_was_kept_of_psycopg_is_closed_when_the_gate_is_done(
    postgres_place: Place, *, cursor: bool
) -> None:
    """A background task: else it would write into the transaction of the next request."""
    postgres_place.empty()
    gate, close = await async_psycopg_gate(postgres_place)
    kept: list[Any] = []

    async def run(passage: AsyncPassage[Any]) -> Response:
        kept.append(passage.tx.cursor() if cursor else passage.tx)
        return Response(201)

    async def next_one(_: AsyncPassage[Any]) -> Response:
        with pytest.raises(psycopg.OperationalError, match="closed"):
            await kept[0].execute(ORDER)
        return Response(201)

    await gate.run(ask("k-1"), run)
    with pytest.raises(psycopg.OperationalError, match="closed"):
        await kept[0].execute(ORDER)
    answer = await gate.run(ask("k-2"), next_one)
    await close()

    assert answer.response.status == 201
    assert (postgres_place.orders(), postgres_place.records()) == (0, 2)


@pytest.mark.parametrize("open_gate", [asyncpg_gate, async_psycopg_gate, async_session_gate])
async def test_a_fault_that_the_handler_swallows_is_told_with_its_remedy(
    postgres_place: Place, open_gate: Any, caplog: pytest.LogCaptureFixture
) -> None:
    postgres_place.empty()
    gate, close = await open_gate(postgres_place)

    async def swallow(passage: AsyncPassage[Any]) -> Response:
        words = "SELECT 1 / 0"
        with suppress(Exception):
            await passage.tx.execute(text(words) if isinstance(passage.tx, AsyncSession) else words)
        return Response(201)

    answer = await gate.run(ask("k-1"), swallow)
    await close()

    assert answer.response.status == 503
    assert postgres_place.records() == 0
    assert "put what may fail into a savepoint" in caplog.text
