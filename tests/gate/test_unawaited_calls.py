"""A call that nobody awaits is refused with the remedy that fits, and the warning has its line."""

import warnings
from collections.abc import Callable
from contextlib import suppress
from inspect import currentframe
from typing import Any

import pytest

from mailonce.errors import ConfigError
from mailonce.gate import AsyncPassage, Response
from tests.gate.gates import ask
from tests.gate.places import Place
from tests.gate.test_misuse_awaited import (
    aorder,
    async_psycopg_gate,
    async_session_gate,
    asyncpg_gate,
)

Call = Callable[[Any], Any]


async def refusal(open_gate: Any, place: Place, call: Call) -> str:
    """Give what the gate says of a handler that makes `call` of its `tx` and does not await it."""
    place.empty()
    gate, close = await open_gate(place)

    async def run(passage: AsyncPassage[Any]) -> Response:
        await aorder(passage.tx)
        call(passage.tx)
        return Response(201)

    try:
        with pytest.raises(ConfigError) as refused:
            await gate.run(ask(), run)
    finally:
        await close()
    assert (place.orders(), place.records()) == (0, 0)
    return str(refused.value)


@pytest.mark.filterwarnings("ignore:coroutine .* was never awaited:RuntimeWarning")
@pytest.mark.parametrize("name", ["commit", "rollback", "close"])
async def test_an_end_of_the_transaction_is_to_be_removed_and_not_awaited(
    place: Place, name: str
) -> None:
    said = await refusal(async_session_gate, place, lambda tx: getattr(tx, name)())

    assert f"`{name}`" in said
    assert "remove it" in said
    assert "write `await`" not in said


@pytest.mark.filterwarnings("ignore:coroutine .* was never awaited:RuntimeWarning")
@pytest.mark.parametrize(
    ("open_gate", "call"),
    [
        (asyncpg_gate, aorder),
        (asyncpg_gate, lambda tx: tx.fetchval("SELECT 1")),
        (async_psycopg_gate, aorder),
        (async_psycopg_gate, lambda tx: tx.cursor().execute("SELECT 1")),
        (async_session_gate, aorder),
    ],
    ids=["asyncpg", "asyncpg fetchval", "psycopg", "psycopg cursor", "session"],
)
async def test_a_statement_that_nobody_awaits_is_refused_on_every_store(
    postgres_place: Place, open_gate: Any, call: Call
) -> None:
    said = await refusal(open_gate, postgres_place, call)

    assert "did not await it" in said
    assert "write `await` before it" in said


@pytest.mark.filterwarnings("ignore:coroutine .* was never awaited:RuntimeWarning")
@pytest.mark.parametrize("open_gate", [asyncpg_gate, async_psycopg_gate])
async def test_a_close_that_nobody_awaits_is_to_be_removed(
    postgres_place: Place, open_gate: Any
) -> None:
    said = await refusal(open_gate, postgres_place, lambda tx: tx.close())

    assert "remove it" in said


async def test_the_warning_names_the_line_of_the_handler(place: Place) -> None:
    place.empty()
    gate, close = await async_session_gate(place)
    lines: list[int] = []

    async def run(passage: AsyncPassage[Any]) -> Response:
        frame = currentframe()
        assert frame is not None
        lines.append(frame.f_lineno + 1)
        passage.owe("receipt", b"lost")  # type: ignore[unused-coroutine]
        return Response(201)

    with warnings.catch_warnings(record=True) as told, suppress(ConfigError):
        warnings.simplefilter("always")
        await gate.run(ask(), run)
    await close()

    places = [(one.filename, one.lineno) for one in told if one.category is RuntimeWarning]
    assert places == [(__file__, lines[0])]
