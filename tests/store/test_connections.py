"""Connections to PostgreSQL: what an operator hears when one cannot be made, and what each is."""

import asyncio
import socket
from typing import Any

import asyncpg
import psutil
import pytest
from sqlalchemy import Connection, text

from mailonce.core.ledger.entry import ArrivalOutcome
from mailonce.errors import ConfigError, MailonceError, UnavailableError
from mailonce.store.configuration import locks
from mailonce.store.database import open_database
from mailonce.store.dialects.contract import Batch, OutcomeUnknownError
from mailonce.store.dialects.postgres import session
from mailonce.store.dialects.postgres.pool import CANCEL_TIMEOUT_S, PostgresConnections
from tests.factories import Ledger, make_body, make_entry, make_source, new_id
from tests.servers import PostgresServer, free_port
from tests.stopwatch import Stopwatch


async def _run(url: str, statement: str) -> None:
    connection = await asyncpg.connect(url)
    try:
        await connection.execute(statement)
    finally:
        await connection.close()


async def test_a_start_that_is_refused_says_where_why_and_what_to_do(
    postgres: PostgresServer,
) -> None:
    place, nobody = f"127.0.0.1:{postgres.port}", free_port()
    await _run(postgres.url(), "CREATE ROLE weak LOGIN")
    await _run(postgres.url(), "CREATE DATABASE of_another")
    await _run(postgres.url("of_another"), "REVOKE CREATE ON SCHEMA public FROM PUBLIC")
    cases: dict[str, tuple[str, type[MailonceError]]] = {
        postgres.url("nodb"): (f"{place} has no database 'nodb'; create it", ConfigError),
        f"postgresql://ghost@{place}/postgres": (f"{place} refused the user 'ghost'", ConfigError),
        f"postgresql://weak@{place}/of_another": ("does not let 'weak' make tables", ConfigError),
        f"postgresql://postgres@127.0.0.1:{nobody}/postgres": (
            f"127.0.0.1:{nobody} cannot be reached (connection refused); start it",
            UnavailableError,
        ),
        f"postgresql://postgres@host.invalid:{nobody}/postgres": (
            f"host.invalid:{nobody} cannot be reached (its name is not known)",
            UnavailableError,
        ),
    }

    for url, (sentence, kind) in cases.items():
        with pytest.raises(MailonceError) as raised:
            await open_database(url)

        assert isinstance(raised.value, kind)
        assert sentence in str(raised.value)
        assert "\n" not in str(raised.value)


async def test_a_commit_is_flushed_whatever_the_database_was_set_to(
    postgres: PostgresServer, postgres_template: str
) -> None:
    url = postgres.url("hurried")
    await _run(postgres.url(), f"CREATE DATABASE hurried TEMPLATE {postgres_template}")
    await _run(url, "ALTER DATABASE hurried SET synchronous_commit = off")

    database = await open_database(url)

    try:
        assert (await database.durability())["synchronous_commit"] == "on"
    finally:
        await database.close()


async def test_a_connection_that_died_in_silence_costs_one_deadline(
    postgres: PostgresServer, postgres_template: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(session, "COMMAND_TIMEOUT_S", 1)
    await _run(postgres.url(), f"CREATE DATABASE silent TEMPLATE {postgres_template}")
    database = await open_database(postgres.url("silent"))
    ledger = Ledger(database, (await database.head()).now_ms)
    entries = [make_entry(make_source(), make_body(n), now_ms=ledger.now_ms) for n in range(2)]
    await ledger.record(entries[0])
    [kept] = database._connections._kept  # type: ignore[attr-defined]
    backend, transport = psutil.Process(kept.get_server_pid()), kept._transport
    batch = Batch(new_id(ledger.now_ms), [entries[1]])

    try:
        watched = transport.get_extra_info("socket")
        assert watched.getsockopt(socket.SOL_SOCKET, socket.SO_KEEPALIVE)
        assert watched.getsockopt(socket.IPPROTO_TCP, socket.TCP_USER_TIMEOUT)
        backend.suspend()
        with Stopwatch() as watch, pytest.raises(OutcomeUnknownError):
            await database.record(batch)
        # Nobody waits for the answer to the cancel, for which a server has five seconds.
        assert database._connections._closing  # type: ignore[attr-defined]
        assert watch.seconds < 1 + CANCEL_TIMEOUT_S
        [answer] = await database.record(batch)
        assert isinstance(answer, ArrivalOutcome)
        assert answer.new == 1
    finally:
        backend.resume()
        await database.close()


async def test_who_answered_lately_is_not_asked_whether_it_is_there(
    postgres: PostgresServer, postgres_template: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    await _run(postgres.url(), f"CREATE DATABASE pinged TEMPLATE {postgres_template}")
    database = await open_database(postgres.url("pinged"))
    dialect = database._engine.sync_engine.dialect  # type: ignore[attr-defined]
    pings, ping = [], dialect.do_ping

    def count(connection: Any) -> bool:
        pings.append(connection)
        return bool(ping(connection))

    monkeypatch.setattr(dialect, "do_ping", count)

    async def backend() -> int:
        return int(await database.read(lambda tx: tx.scalar(text("SELECT pg_backend_pid()"))))

    try:
        first = await backend()
        assert [await backend() for _ in range(5)] == [first] * 5
        assert pings == []

        monkeypatch.setattr(session, "PING_IDLE_S", -1.0)
        assert await backend() == first
        assert len(pings) == 1
    finally:
        await database.close()


@pytest.mark.parametrize("idle_s", [1_000.0, -1.0], ids=["used lately", "idle"])
async def test_a_connection_that_the_server_closed_is_replaced(
    postgres: PostgresServer,
    postgres_template: str,
    monkeypatch: pytest.MonkeyPatch,
    idle_s: float,
) -> None:
    name = "closed_lately" if idle_s > 0 else "closed_idle"
    monkeypatch.setattr(session, "PING_IDLE_S", idle_s)
    await _run(postgres.url(), f"CREATE DATABASE {name} TEMPLATE {postgres_template}")
    database = await open_database(postgres.url(name))

    async def backend() -> int:
        return int(await database.read(lambda tx: tx.scalar(text("SELECT pg_backend_pid()"))))

    try:
        first = await backend()
        await _run(postgres.url(), f"SELECT pg_terminate_backend({first}, 5000)")

        assert await backend() != first
    finally:
        await database.close()


async def test_a_connection_that_breaks_within_a_transaction_is_said_to_have_broken(
    postgres: PostgresServer, postgres_template: str
) -> None:
    """asyncpg refuses the next statement by itself: no SQLSTATE tells what happened."""
    await _run(postgres.url(), f"CREATE DATABASE broken TEMPLATE {postgres_template}")
    database = await open_database(postgres.url("broken"))

    def work(tx: Connection) -> None:
        tx.execute(text("SELECT 1"))
        tx.connection.driver_connection.terminate()  # type: ignore[union-attr]
        tx.execute(text("SELECT 2"))

    try:
        for call in (database.write, database.read):
            with pytest.raises(OutcomeUnknownError, match="the connection to the database broke"):
                await call(work)

        assert await database.read(lambda tx: tx.scalar(text("SELECT 3"))) == 3
    finally:
        await database.close()


async def test_a_write_waits_for_a_row_that_is_held_for_a_moment(
    postgres: PostgresServer, postgres_template: str
) -> None:
    """A lock is waited for half a second at a time; nothing of a try that gave up stays."""
    await _run(postgres.url(), f"CREATE DATABASE waiting TEMPLATE {postgres_template}")
    database = await open_database(postgres.url("waiting"))
    holder = await asyncpg.connect(postgres.url("waiting"))
    try:
        held = holder.transaction()
        await held.start()
        await holder.execute("SELECT pg_advisory_xact_lock($1)", locks.CONFIGURATION)
        release = asyncio.get_running_loop().call_later(
            0.8, lambda: asyncio.ensure_future(held.rollback())
        )

        await database.write(lambda tx: locks.take(tx, locks.CONFIGURATION))

        assert release.when() <= asyncio.get_running_loop().time()
    finally:
        await holder.close()
        await database.close()


async def test_a_statement_with_much_to_write_is_given_more_time(
    postgres: PostgresServer,
) -> None:
    server = await session.PostgresServer.find(postgres.url())
    connections = await PostgresConnections.open(server, flushers=1)
    try:
        async with connections.keep() as connection:
            async with connections.given_time(connection, 15) as timeout_s:
                during = await connection.fetchval("SHOW statement_timeout")
            after = await connection.fetchval("SHOW statement_timeout")
            with pytest.raises(asyncpg.PostgresError):
                async with connections.given_time(connection, 15):
                    await connection.execute("SELECT 1 / 0")
            failed = await connection.fetchval("SHOW statement_timeout")
            async with connections.given_time(connection, 0) as as_others:
                pass
    finally:
        await connections.close()

    assert (during, after, failed) == ("17s", "2s", "2s")
    assert (timeout_s, as_others) == (19, None)
