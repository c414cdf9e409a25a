"""A synchronous standby that is away, slow or promoted: it holds whatever was acknowledged."""

import asyncio
import os
import signal
import time
from collections.abc import AsyncIterator, Iterator

import asyncpg
import psutil
import pytest
import pytest_asyncio
from sqlalchemy import text

from mailonce.core.ledger.entry import ArrivalOutcome
from mailonce.core.sends.unsubscribe_token import Unsubscription, token_of
from mailonce.errors import UnavailableError
from mailonce.send.unsubscribe import UnsubscribeLinks
from mailonce.store.database import open_database
from mailonce.store.dialects.contract import Batch, Database, OutcomeUnknownError
from mailonce.store.dialects.postgres import database as postgres
from mailonce.store.dialects.postgres import session
from mailonce.store.readiness import Readiness
from tests.core.sends.send_requests import make_request
from tests.factories import SEALER, make_body, make_entry, make_source, new_id
from tests.send.office import Office
from tests.servers import PostgresServer, start_postgres_in_memory, start_standby, wait_for

STANDBY = "second"
NOT_CONFIRMED = r"cannot be reached|did not confirm"


class Pair:
    """A primary and its standby, which can be paused."""

    def __init__(self) -> None:
        self.primary = start_postgres_in_memory(
            wal_level="replica", fsync="off", max_wal_senders="4"
        )
        self.standby: PostgresServer | None = None

    def follow(self) -> None:
        self.standby = start_standby(self.primary, STANDBY)
        self._ask(f"ALTER SYSTEM SET synchronous_standby_names = '{STANDBY}'")
        self._ask("SELECT pg_reload_conf()")
        is_sync = "SELECT count(*) FROM pg_stat_replication WHERE sync_state = 'sync'"
        wait_for(lambda: self._ask(is_sync) == 1, what="the standby to follow")

    def pause(self, sent: signal.Signals = signal.SIGSTOP) -> None:
        assert self.standby is not None
        server = psutil.Process(self.standby.process.pid)
        for process in (server, *server.children()):
            os.kill(process.pid, sent)

    def resume(self) -> None:
        self.pause(signal.SIGCONT)

    def promote(self) -> PostgresServer:
        """Let the standby take the primary's place, which may only read from now on."""
        assert self.standby is not None
        self._ask("ALTER SYSTEM SET default_transaction_read_only = on")
        self._ask("SELECT pg_reload_conf()")
        wait_for(lambda: self._ask("SHOW transaction_read_only") == "on", what="read-only")
        asyncio.run(_fetch(self.standby.url(), "SELECT pg_promote()"))
        return self.standby

    def _ask(self, statement: str) -> object:
        return asyncio.run(_fetch(self.primary.url(), statement))

    def stop(self) -> None:
        if self.standby is not None:
            self.resume()
            self.standby.stop()
        self.primary.stop()


async def _fetch(url: str, statement: str) -> object:
    connection = await asyncpg.connect(url)
    try:
        return await connection.fetchval(statement)
    finally:
        await connection.close()


@pytest.fixture(scope="module")
def pair() -> Iterator[Pair]:
    both = Pair()
    try:
        asyncio.run(_migrate(both.primary.url()))
        both.follow()
        yield both
    finally:
        both.stop()


async def _migrate(url: str) -> None:
    await (await open_database(url)).close()


@pytest_asyncio.fixture
async def database(pair: Pair, monkeypatch: pytest.MonkeyPatch) -> AsyncIterator[Database]:
    monkeypatch.setattr(session, "COMMAND_TIMEOUT_S", 1)
    monkeypatch.setattr(postgres, "CORE_TIMEOUT_S", 1)
    opened = await open_database(pair.primary.url())
    try:
        yield opened
    finally:
        pair.resume()
        await opened.close()


async def batch_of(database: Database, name: str) -> Batch:
    now_ms = (await database.head()).now_ms
    return Batch(new_id(now_ms), [make_entry(make_source(), make_body(name), now_ms=now_ms)])


async def test_a_batch_that_is_run_again_waits_for_the_standby_too(
    pair: Pair, database: Database
) -> None:
    batch = await batch_of(database, "paused")
    pair.pause()

    # The first one stands on the primary after its wait was cut short.
    for _ in range(3):
        with pytest.raises(OutcomeUnknownError):
            await database.record(batch)
    copy = await batch_of(database, "paused")
    with pytest.raises(OutcomeUnknownError):
        await database.record(copy)

    pair.resume()
    [answer] = await database.record(batch)
    assert isinstance(answer, ArrivalOutcome)
    assert (answer.status, answer.new) == ("accepted", 1)


async def test_a_wait_that_an_administrator_cancels_is_no_success(
    pair: Pair, database: Database
) -> None:
    batch = await batch_of(database, "cancelled")
    pair.pause()
    waiting = (
        "SELECT count(pg_cancel_backend(pid)) FROM pg_stat_activity WHERE wait_event='SyncRep'"
    )

    recording = asyncio.create_task(database.record(batch))
    while not recording.done():
        await _fetch(pair.primary.url(), waiting)
        await asyncio.sleep(0.05)

    with pytest.raises(OutcomeUnknownError):
        await recording


async def test_a_call_that_finds_its_work_done_waits_too(pair: Pair, database: Database) -> None:
    row = {"id": "ws_1", "name": "one", "created_ms": 0}
    statement = text(
        "INSERT INTO workspaces (id, name, created_ms) VALUES (:id, :name, :created_ms) "
        "ON CONFLICT DO NOTHING"
    )
    pair.pause()

    for _ in range(2):
        with pytest.raises(UnavailableError, match=NOT_CONFIRMED):
            await database.write(lambda tx: tx.execute(statement, row) and None)


class Name:
    """What a name of the database leads to: a proxy whose target changes in a fail-over."""

    def __init__(self, target: int) -> None:
        self.target = target

    async def answer(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        far_reader, far_writer = await asyncio.open_connection("127.0.0.1", self.target)
        ways = (self._pump(reader, far_writer), self._pump(far_reader, writer))
        await asyncio.gather(*ways, return_exceptions=True)

    async def _pump(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        try:
            while data := await reader.read(65_536):
                writer.write(data)
                await writer.drain()
        finally:
            writer.close()


async def test_a_send_that_is_asked_for_again_waits_for_the_standby_too(
    pair: Pair, database: Database
) -> None:
    office = await Office(database).open()
    try:
        await office.add_sender()
        request = make_request()
        pair.pause()

        # The first one stands on the primary after its wait was cut short.
        for _ in range(2):
            with pytest.raises(UnavailableError):
                await office.submit(request)

        pair.resume()
        [send] = await office.submit(request)
        assert send.is_replayed
    finally:
        await office.close()


async def test_a_click_that_comes_again_waits_for_the_standby_too(
    pair: Pair, database: Database
) -> None:
    office = await Office(database).open()
    links = UnsubscribeLinks(
        database, SEALER, office.clock, office.recorder.record, base_url="https://x.example"
    )
    wanted = Unsubscription("default", "ann@example.com", "news", new_id(1))
    try:
        pair.pause()

        for _ in range(2):
            with pytest.raises(UnavailableError):
                await links.unsubscribe(token_of(SEALER, wanted))

        pair.resume()
        assert await links.unsubscribe(token_of(SEALER, wanted)) == wanted
    finally:
        await office.close()


async def test_after_a_fail_over_everything_acknowledged_is_there_and_the_door_goes_on(
    pair: Pair,
) -> None:
    name = Name(pair.primary.port)
    proxy = await asyncio.start_server(name.answer, "127.0.0.1", 0)
    port = proxy.sockets[0].getsockname()[1]
    database = await open_database(f"postgresql://postgres@127.0.0.1:{port}/postgres")
    ready = Readiness(database, process=bytes(16), monotonic=time.monotonic)
    acknowledged: list[str] = []

    async def post(name: str) -> None:
        batch = await batch_of(database, name)
        for _ in range(2):
            try:
                await database.record(batch)
            except UnavailableError:
                continue
            acknowledged.append(name)
            return

    try:
        await ready.check()
        await asyncio.gather(*(post(f"before-{number}") for number in range(5)))
        pair.pause()
        await asyncio.gather(*(post(f"while-{number}") for number in range(2)))
        assert len(acknowledged) == 5, "the standby was away: nothing more may be acknowledged"
        with pytest.raises(UnavailableError):
            await ready.check()
        pair.resume()
        await post("between")

        # The old primary lives on, read-only, and the connections to it stay open.
        standby = await asyncio.to_thread(pair.promote)
        name.target = standby.port
        batch = await batch_of(database, "after")
        # Whoever records runs a lost batch again, and the caller hears nothing of it.
        with pytest.raises(OutcomeUnknownError):
            await database.record(batch)
        await database.record(batch)
        acknowledged.append("after")
        await asyncio.sleep(1)
        await ready.check()
    finally:
        await database.close()
        proxy.close()

    bodies = "SELECT string_agg(convert_from(body, 'UTF8'), '') FROM arrivals"
    kept = str(await _fetch(standby.url(), bodies))
    assert acknowledged[-2:] == ["between", "after"]
    assert all(f"evt-{name}" in kept for name in acknowledged)
