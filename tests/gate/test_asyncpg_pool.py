"""asyncpg's pool gets its connections back from the gate as from anybody else: reset, and whole."""

import asyncio
from collections.abc import Awaitable, Callable
from contextlib import suppress
from types import SimpleNamespace
from typing import Any

import asyncpg
import pytest

from mailonce.errors import ConfigError
from mailonce.gate import AsyncGate, AsyncPassage, Outcome, Response
from mailonce.gate.stores.asyncpg import AsyncpgStore
from tests.gate.gates import DONE, ask
from tests.gate.places import ORDER, Place

LEFT = """
SELECT current_setting('work_mem'), (SELECT count(*) FROM pg_locks WHERE locktype = 'advisory'
    AND pid = pg_backend_pid()), (SELECT count(*) FROM pg_listening_channels())"""
USE = "SET work_mem = '3MB'; SELECT pg_advisory_lock(3); LISTEN news"

Work = Callable[[AsyncPassage[Any]], Awaitable[Response]]


async def use(passage: AsyncPassage[Any]) -> Response:
    await passage.tx.execute(ORDER)
    await passage.tx.execute(USE)
    return DONE


async def outcome_of(gate: AsyncGate[Any], key: str, work: Work = use) -> Outcome:
    return (await gate.run(ask(key), work)).outcome


async def test_what_a_handler_set_in_its_connection_ends_with_its_request(
    postgres_place: Place,
) -> None:
    postgres_place.empty()
    async with asyncpg.create_pool(postgres_place.url, min_size=1, max_size=1) as pool:
        fresh = await pool.fetchrow(LEFT)
        backend = await pool.fetchval("SELECT pg_backend_pid()")
        gate = AsyncGate(AsyncpgStore(pool))

        for number in range(3):
            assert await outcome_of(gate, f"k-{number}") is Outcome.FIRST
            assert await pool.fetchrow(LEFT) == fresh

        assert await pool.fetchval("SELECT pg_backend_pid()") == backend
    assert (postgres_place.orders(), postgres_place.records()) == (3, 3)


async def test_a_gate_that_is_made_before_its_pool_finds_it_when_a_request_comes(
    postgres_place: Place,
) -> None:
    postgres_place.empty()
    state = SimpleNamespace()
    gate = AsyncGate(AsyncpgStore(lambda: state.pool))

    with pytest.raises(ConfigError, match="no pool yet; make it before the first request"):
        await outcome_of(gate, "k-1")
    state.pool = None
    with pytest.raises(ConfigError, match="no pool yet"):
        await outcome_of(gate, "k-1")
    for _ in range(2):
        async with asyncpg.create_pool(postgres_place.url, min_size=1, max_size=1) as state.pool:
            await outcome_of(gate, "k-1")

    assert (postgres_place.orders(), postgres_place.records()) == (1, 1)


async def test_after_a_gated_request_the_pool_resets_for_others_as_before(
    postgres_place: Place,
) -> None:
    postgres_place.empty()
    async with asyncpg.create_pool(postgres_place.url, min_size=1, max_size=1) as pool:
        fresh = await pool.fetchrow(LEFT)
        assert await outcome_of(AsyncGate(AsyncpgStore(pool)), "k-1") is Outcome.FIRST

        await pool.execute(USE)

        assert await pool.fetchrow(LEFT) == fresh


async def test_a_pool_with_a_reset_of_its_own_has_it_called(postgres_place: Place) -> None:
    postgres_place.empty()
    calls: list[str] = []

    async def reset(connection: Any) -> None:
        calls.append("callback")
        await connection.execute("RESET ALL")

    class Own(asyncpg.Connection):  # type: ignore[misc]
        def get_reset_query(self) -> str:
            calls.append("text")
            return "RESET work_mem"

    for choices in ({"reset": reset}, {"connection_class": Own}):
        async with asyncpg.create_pool(
            postgres_place.url, min_size=1, max_size=1, **choices
        ) as pool:
            calls.clear()
            gate = AsyncGate(AsyncpgStore(pool))
            assert await outcome_of(gate, f"k-{next(iter(choices))}") is Outcome.FIRST
            assert len(calls) == 1
    assert (postgres_place.orders(), postgres_place.records()) == (2, 2)


async def test_connections_that_the_pool_closes_after_some_use_are_replaced(
    postgres_place: Place,
) -> None:
    postgres_place.empty()
    async with asyncpg.create_pool(
        postgres_place.url, min_size=1, max_size=2, max_queries=4
    ) as pool:
        gate = AsyncGate(AsyncpgStore(pool))

        outcomes = await asyncio.gather(*(outcome_of(gate, f"k-{n}") for n in range(12)))

        assert set(outcomes) == {Outcome.FIRST}
        assert pool.get_idle_size() == pool.get_size()
    assert (postgres_place.orders(), postgres_place.records()) == (12, 12)


async def test_a_handler_that_swallows_a_fault_commits_nothing(postgres_place: Place) -> None:
    postgres_place.empty()

    async def swallow(passage: AsyncPassage[Any]) -> Response:
        await passage.tx.execute(ORDER)
        try:
            await passage.tx.execute("SELECT 1 / 0")
        except asyncpg.DivisionByZeroError:
            return DONE
        raise AssertionError

    async with asyncpg.create_pool(postgres_place.url, min_size=1, max_size=1) as pool:
        gate = AsyncGate(AsyncpgStore(pool))
        assert await outcome_of(gate, "k-1", swallow) is Outcome.UNAVAILABLE
        assert (postgres_place.orders(), postgres_place.records()) == (0, 0)
        assert await outcome_of(gate, "k-1") is Outcome.FIRST
    assert (postgres_place.orders(), postgres_place.records()) == (1, 1)


async def test_a_transaction_inside_a_handler_is_a_savepoint(postgres_place: Place) -> None:
    postgres_place.empty()

    async def work(passage: AsyncPassage[Any]) -> Response:
        for statement in (ORDER, "SELECT 1 / 0", ORDER):
            with suppress(asyncpg.DivisionByZeroError):
                async with passage.tx.transaction():
                    await passage.tx.execute(ORDER)
                    async with passage.tx.transaction():
                        await passage.tx.execute(statement)
        return DONE

    async with asyncpg.create_pool(postgres_place.url, min_size=1, max_size=1) as pool:
        assert await outcome_of(AsyncGate(AsyncpgStore(pool)), "k-1", work) is Outcome.FIRST
        # The next one begins by itself again.
        async with pool.acquire() as connection, connection.transaction():
            await connection.execute(ORDER)
    assert (postgres_place.orders(), postgres_place.records()) == (5, 1)
