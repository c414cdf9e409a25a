"""After the database, the network or a wake-up was away, work goes on by itself (PostgreSQL)."""

import asyncio
from collections.abc import Iterator
from typing import Any

import asyncpg
import pytest

from mailonce.core.work.states import State
from mailonce.queue.wake import TELL_EVERY_S, Wakes
from mailonce.store.dialects.contract import Database
from tests.endpoint import answers
from tests.factories import make_source
from tests.queue.conftest import Works
from tests.servers import PostgresServer
from tests.stopwatch import Stopwatch

SMALL = 400
MILLION = 1_000_000


@pytest.fixture
def database_url(request: pytest.FixtureRequest, postgres: PostgresServer) -> Iterator[str]:
    """A fresh PostgreSQL: SQLite has no connection that could break."""
    template: str = request.getfixturevalue("postgres_template")
    name = f"outage_{request.node.name[:30].lower().replace('[', '_').replace(']', '')}"
    asyncio.run(_run(postgres.url(), f"CREATE DATABASE {name} TEMPLATE {template}"))
    yield postgres.url(name)
    asyncio.run(_run(postgres.url(), f"DROP DATABASE {name} WITH (FORCE)"))


async def _run(url: str, statement: str, *arguments: Any) -> Any:
    connection = await asyncpg.connect(url)
    try:
        return await connection.fetch(statement, *arguments)
    finally:
        await connection.close()


async def _cut_connections(url: str) -> None:
    await _run(
        url,
        "SELECT pg_terminate_backend(pid) FROM pg_stat_activity "
        "WHERE datname = current_database() AND pid <> pg_backend_pid()",
    )


async def test_work_goes_on_when_every_connection_was_cut(works: Works, database_url: str) -> None:
    await works.add_route("/ok", waits_s=(0.05,) * 20)
    works.endpoint.behaviours["/ok"] = answers(200, after_s=0.01)
    await works.start()
    keys = await works.ledger.owe(SMALL)

    for _ in range(4):
        await asyncio.sleep(0.15)
        await _cut_connections(database_url)

    async def all_done() -> bool:
        result = await _run(
            database_url, "SELECT count(*) FROM deliveries WHERE state = $1", int(State.DONE)
        )
        return bool(result[0][0] == SMALL)

    await works.until(all_done)
    assert {bytes.fromhex(request.key) for request in works.endpoint.requests} == set(keys)


async def test_another_process_is_woken_and_again_after_its_connection_was_cut(
    database: Database, database_url: str
) -> None:
    messages: list[str] = []
    listening, telling = Wakes(database), Wakes(database)
    listening.attach(messages.extend, lambda: messages.append("*"), lambda _: False)
    listening.start()
    telling.start()
    try:
        await _until(lambda: messages == ["*"] and telling._signal is not None)
        telling.owed({"rte_one"})
        await _until(lambda: "rte_one" in messages)

        await _cut_connections(database_url)
        messages.clear()
        # Whoever was away looks at everything once it is back.
        await _until(lambda: "*" in messages)
        await _until(lambda: telling._signal is not None and not telling._signal.is_closed())
        telling.owed({"rte_two"})
        await _until(lambda: "rte_two" in messages)
    finally:
        await listening.stop()
        await telling.stop()


async def test_many_wake_ups_are_told_together(database: Database) -> None:
    messages: list[str] = []
    calls: list[str] = []
    listening, telling = Wakes(database), Wakes(database)
    listening.attach(messages.extend, lambda: None, lambda _: False)
    listening.start()
    telling.start()
    try:
        await _until(lambda: telling._signal is not None and listening._signal is not None)
        signal = telling._signal
        assert signal is not None
        real = signal.send

        async def send(text: str) -> None:
            calls.append(text)
            await real(text)

        signal.send = send  # type: ignore[method-assign]
        began = asyncio.get_running_loop().time()
        for number in range(300):
            telling.owed({f"rte_{number}"})
            await asyncio.sleep(0)
        await _until(lambda: len(messages) == 300)
        took_s = asyncio.get_running_loop().time() - began
    finally:
        await listening.stop()
        await telling.stop()

    assert len(calls) <= took_s / TELL_EVERY_S + 2


async def test_what_this_process_holds_is_not_told_to_others(database: Database) -> None:
    messages: list[str] = []
    listening, telling = Wakes(database), Wakes(database)
    listening.attach(messages.extend, lambda: None, lambda _: False)
    telling.attach(lambda _: None, lambda: None, lambda route: route == "rte_ours")
    listening.start()
    telling.start()
    try:
        await _until(lambda: telling._signal is not None and listening._signal is not None)
        telling.owed({"rte_ours"})
        telling.owed({"rte_theirs"})
        await _until(lambda: messages)
    finally:
        await listening.stop()
        await telling.stop()

    assert messages == ["rte_theirs"]


async def _until(check: Any, *, seconds: float = 60) -> None:
    async with asyncio.timeout(seconds):
        while not check():
            await asyncio.sleep(0.01)


@pytest.mark.parametrize("number", [20_000, pytest.param(MILLION, marks=pytest.mark.long)])
async def test_a_workspace_that_owes_very_much_does_not_slow_another(
    works: Works, database_url: str, number: int
) -> None:
    await works.add_route("/large", workspace="large")
    await works.add_route("/small", workspace="small")
    now_ms = (await works.database.head()).now_ms
    await _run(
        database_url,
        """
        INSERT INTO deliveries (key, workspace, route, event, day, body, state, lane, due_ms,
            deadline_ms, made_ms, attempts, round_began, redeliveries, again, token)
        SELECT sha256(n::text::bytea), 'large', 'rte_large', '', 0, '{}', 0, 0, $1::bigint,
               $1::bigint + 86400000, $1::bigint, 0, 0, 0, false, 0
        FROM generate_series(1, $2::bigint) AS n
        """,
        now_ms - 60_000,
        number,
    )
    await works.start()
    await works.until(lambda: len(works.endpoint.at("/large")) > 100)

    waits = []
    for round_ in range(1, 11):
        with Stopwatch() as watch:
            await _owe_to_small(works)
            await works.until(lambda n=round_: len(works.endpoint.at("/small")) == n)  # type: ignore[misc]
        waits.append(watch.seconds)

    assert sorted(waits)[5] < 0.5, waits


async def _owe_to_small(works: Works) -> None:
    await works.ledger.owe(1, source=make_source(workspace="small"))
    works.workers[0].wake(["rte_small"])
