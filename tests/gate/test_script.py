"""Statements that are written out with their values, or prepared in a connection."""

from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from typing import Any

import asyncpg
import psycopg
import pytest
from psycopg_pool import AsyncConnectionPool

from mailonce.gate import AsyncGate, AsyncPassage, Outcome
from mailonce.gate.sql.script import literal, written
from mailonce.gate.sql.statements import Statement
from mailonce.gate.stores.asyncpg import AsyncpgStore
from mailonce.gate.stores.psycopg import AsyncPsycopgStore
from tests.gate.gates import DONE, ask
from tests.gate.places import ORDER, Place

HOSTILE = [
    "",
    "it's",
    "\\",
    "\\'; DROP TABLE orders; --",
    "''\\\\'",
    ":key %s $1 {}",
    "E'x' /* -- */ $$ $a$",
    "Grüße \u2028\U0001f4e7",
]


@pytest.mark.parametrize("plain", ["on", "off"])
def test_a_literal_is_read_as_the_value_it_was_written_from(
    postgres_place: Place, plain: str
) -> None:
    """Also where a setting makes backslashes escapes in plain strings."""
    with psycopg.connect(postgres_place.url, autocommit=True) as connection:
        connection.execute(f"SET standard_conforming_strings = {plain}".encode())
        connection.execute("SET escape_string_warning = off")
        for value in (*HOSTILE, *(text.encode() for text in HOSTILE), bytes(range(256)), 1.5, None):
            kind = "bytea" if isinstance(value, bytes) else "text"
            kind = "double precision" if isinstance(value, float) else kind
            text = f"SELECT CAST({literal(value)} AS {kind})"
            row = connection.execute(text.encode()).fetchone()
            assert row == (value,), text


def test_a_value_that_looks_like_a_parameter_stays_a_value() -> None:
    statement = Statement("SELECT :first, :second", {"first": ":second", "second": "it's"})
    assert written(statement) == "SELECT ':second', 'it''s'"


def test_a_zero_character_is_refused_and_cuts_nothing_off() -> None:
    with pytest.raises(ValueError, match="zero character"):
        literal("a\0'; COMMIT; --")


@asynccontextmanager
async def asyncpg_gates(url: str) -> AsyncIterator[Callable[[], AsyncGate[Any]]]:
    async with asyncpg.create_pool(url, min_size=1, max_size=1) as pool:
        yield lambda: AsyncGate(AsyncpgStore(pool))


@asynccontextmanager
async def psycopg_gates(url: str) -> AsyncIterator[Callable[[], AsyncGate[Any]]]:
    async with AsyncConnectionPool(url, min_size=1, max_size=1, open=False) as pool:
        yield lambda: AsyncGate(AsyncPsycopgStore(pool))


async def send(gate: AsyncGate[Any], key: str, before: str = "SELECT 1") -> Outcome:
    async def work(passage: AsyncPassage[Any]) -> Any:
        await passage.tx.execute(before)
        await passage.tx.execute(ORDER)
        return DONE

    return (await gate.run(ask(key), work)).outcome


@pytest.mark.parametrize("gates", [asyncpg_gates, psycopg_gates])
async def test_a_connection_in_which_others_prepare_and_forget_is_used_all_the_same(
    postgres_place: Place, gates: Any
) -> None:
    """As PgBouncer deals connections out: prepared by another, or by nobody."""
    postgres_place.empty()
    async with gates(postgres_place.url) as make:
        one, other = make(), make()
        assert await send(one, "k-1") is Outcome.FIRST
        # The other gate finds them prepared in the pool's only connection.
        assert await send(other, "k-2") is Outcome.FIRST
        assert await send(other, "k-2") is Outcome.REPLAYED
        # A handler forgets them: its work is undone, and the next try does it.
        assert await send(one, "k-3", "DEALLOCATE ALL") is Outcome.UNAVAILABLE
        assert (postgres_place.orders(), postgres_place.records()) == (2, 2)
        assert await send(one, "k-3", "DEALLOCATE ALL") is Outcome.FIRST
        # A third gate has them prepared; then they go away between two requests.
        third = make()
        assert await send(third, "k-4") is Outcome.FIRST
        assert await send(one, "k-5", "DEALLOCATE ALL") is Outcome.FIRST
        assert await send(third, "k-6") is Outcome.FIRST
    assert (postgres_place.orders(), postgres_place.records()) == (6, 6)


@pytest.mark.parametrize("gates", [asyncpg_gates, psycopg_gates])
async def test_a_connection_that_was_opened_before_there_were_tables_works_once_they_are_there(
    postgres_place: Place, gates: Any
) -> None:
    postgres_place.empty()
    async with gates(postgres_place.url) as make:
        gate = make()
        postgres_place.query("ALTER TABLE webhook_idempotency RENAME TO away")
        try:
            assert await send(gate, "k-1") is Outcome.UNAVAILABLE
        finally:
            postgres_place.query("ALTER TABLE away RENAME TO webhook_idempotency")
        assert await send(gate, "k-1") is Outcome.FIRST
        assert await send(gate, "k-1") is Outcome.REPLAYED
    assert (postgres_place.orders(), postgres_place.records()) == (1, 1)
