"""Mail that an app's own transaction owes: by every driver, across kills, in two pumps at once."""

import asyncio
import os
import signal
import sqlite3
import subprocess
import sys
import threading
from collections.abc import AsyncIterator, Iterator
from contextlib import asynccontextmanager, contextmanager, suppress
from pathlib import Path
from typing import Any

import asyncpg
import psycopg
import pytest
from sqlalchemy import create_engine, text
from sqlalchemy.ext.asyncio import AsyncSession, create_async_engine
from sqlalchemy.orm import Session
from sqlalchemy.pool import NullPool

from mailonce import AsyncClient, Client
from mailonce.errors import ClashError, ConfigError, ParseError
from mailonce.gate import Gate, Passage, Response
from mailonce.gate.outbox import Outbox, Owed
from mailonce.gate.send_outbox import AsyncSendOutbox, SendOutbox
from mailonce.gate.stores.asyncpg import AsyncpgStore
from mailonce.gate.stores.psycopg import AsyncPsycopgStore
from mailonce.gate.stores.sqlalchemy import AsyncSqlalchemyStore, SqlalchemyStore
from tests.acceptance.harness import ADMIN_KEY, Server, running
from tests.gate.gates import ask, store_of
from tests.gate.places import ORDER, Place
from tests.servers import wait_for

RECEIPT: dict[str, Any] = {"from_": "shop@example.com", "subject": "Receipt", "text": "Thanks"}
ROOT = Path(__file__).parents[2]
# A process that pays an order, owes its receipt and hands it over; it dies where it is told to.
CHILD = """
import os, signal, sys
from mailonce import Client
from mailonce.gate.outbox import Outbox, Owed
from mailonce.gate.send_outbox import SendOutbox
from tests.acceptance.test_send_outbox import RECEIPT, ORDER, Place, owing, store_of

dialect, url, server, key, death = sys.argv[1:]
def die(*_, **__):
    os.kill(os.getpid(), signal.SIGKILL)

place = Place(dialect, url)
outbox = SendOutbox(store_of(place), Client(server, key))
with owing(place) as connection:
    connection.execute(ORDER)
    outbox.send(connection, "ann@example.net", cause_id="order-1", **RECEIPT)
    if death == "before the commit":
        die()
if death == "before the call":
    outbox._client.send = die
if death == "before the record":
    outbox.ways.sql.done = die
outbox.drain()
"""


class ChangedMindError(Exception):
    """The app undoes its transaction."""


@pytest.fixture
def server(tmp_path: Path) -> Iterator[Server]:
    made = Server(
        tmp_path / "server", f"sqlite:///{tmp_path / 'ledger.db'}", "", {"MAILONCE_DEV": "true"}
    )
    with running(made) as started:
        yield started


@pytest.fixture
def place(database_url: str, tmp_path: Path) -> Place:
    is_sqlite = database_url.startswith("sqlite")
    app = (
        Place("sqlite", str(tmp_path / "app.db"))
        if is_sqlite
        else Place("postgresql", database_url)
    )
    app.make()
    return app


@contextmanager
def owing(place: Place) -> Iterator[Any]:
    """A transaction of the app's own, as it would write one."""
    if place.dialect == "sqlite":
        connection = sqlite3.connect(place.url, timeout=10)
        try:
            with connection:
                yield connection
        finally:
            connection.close()
    else:
        with psycopg.connect(place.url) as connected:
            yield connected


def client_of(server: Server) -> Client:
    return Client(server.url, ADMIN_KEY)


def sent(server: Server) -> list[str]:
    return [one["to"] for one in server.get("/v1/sends")["data"]]


def test_the_order_and_its_receipt_commit_together(place: Place, server: Server) -> None:
    outbox = SendOutbox(store_of(place), client_of(server))

    with owing(place) as connection:
        connection.execute(ORDER)
        key = outbox.send(
            connection, "Ann <ann@example.net>", cause_id="order-17", stream="receipts", **RECEIPT
        )
        before = outbox.counts() if place.dialect == "postgresql" else None
        assert sent(server) == []
    with suppress(ChangedMindError), owing(place) as connection:
        connection.execute(ORDER)
        outbox.send(connection, "bob@example.net", cause_id="order-18", **RECEIPT)
        raise ChangedMindError
    drained = [outbox.drain(), outbox.drain()]

    assert before in (None, {"due": 0, "done": 0, "dead": 0})
    assert (place.orders(), drained) == (1, [1, 0])
    [send] = server.get("/v1/sends", key=key)["data"]
    assert (send["to"], send["stream"], send["cause_id"]) == (
        "ann@example.net", "receipts", "order-17",
    )  # fmt: skip
    assert sent(server) == ["ann@example.net"]


def test_the_same_mail_is_owed_once_and_another_under_its_key_is_refused(
    place: Place, server: Server
) -> None:
    outbox = SendOutbox(store_of(place), client_of(server))
    file = {"name": "receipt.pdf", "content": b"%PDF", "type": "application/pdf"}
    mail = {**RECEIPT, "attachments": [file]}

    for _ in range(3):
        with owing(place) as connection:
            outbox.send(connection, "ann@example.net", key="k-1", **mail)
    outbox.drain()
    with owing(place) as connection:
        outbox.send(connection, "ann@example.net", key="k-1", **mail)
    with pytest.raises(ClashError, match="another mail already"), owing(place) as connection:
        outbox.send(connection, "ann@example.net", key="k-1", **mail | {"text": "Other"})
    with owing(place) as connection:
        # Of one cause, another recipient and another template are further mails.
        for to in ("ann@example.net", "bob@example.net"):
            outbox.send(connection, to, cause_id="order-1", **mail)
        outbox.send(connection, ["cat@example.net", {"address": "dan@example.net"}], **mail)
    outbox.drain()

    assert outbox.counts() == {"due": 0, "done": 4, "dead": 0}
    assert sorted(sent(server)) == [
        "ann@example.net", "ann@example.net", "bob@example.net", "cat@example.net",
        "dan@example.net",
    ]  # fmt: skip
    [mail_in] = server.get("/v1/inboxes/cat@example.net/messages", wait=20)["data"]
    assert [one["name"] for one in mail_in["attachments"]] == ["receipt.pdf"]


def test_what_the_server_refuses_is_given_up_at_once_and_kept(
    place: Place, server: Server, caplog: pytest.LogCaptureFixture
) -> None:
    outbox = SendOutbox(store_of(place), client_of(server))
    with owing(place) as connection:
        outbox.send(connection, ["bob@example.net"] * 2, key="k-1", **RECEIPT)
        outbox.send(connection, "ann@example.net", key="k-2", from_="a@b.c", template="missing")
    with pytest.raises(ParseError, match="is empty"), owing(place) as connection:
        outbox.send(connection, [], key="k-3", **RECEIPT)

    outbox.drain()

    # A template can still be made; an address that is there twice stays so.
    assert outbox.counts() == {"due": 1, "done": 0, "dead": 1}
    errors = {error for (error,) in place.query("SELECT last_error FROM webhook_outbox")}
    assert len(errors) == 2
    assert any(one.startswith("ParseError: `to`") for one in errors)
    assert any(one.startswith("MissingError: ") and "missing" in one for one in errors)
    told = [one.getMessage() for one in caplog.records if one.name == "mailonce.gate"]
    assert [one.rpartition("; ")[2] for one in sorted(told)] == [
        "see last_error", "tried again in 5 s",
    ]  # fmt: skip
    kinds = ("ParseError: `to`", "MissingError: ")
    assert all(any(one in line for line in told) for one in kinds)
    assert sent(server) == []


def test_a_suppressed_mail_is_done_and_named_and_sent_after_the_lift(
    place: Place, server: Server, caplog: pytest.LogCaptureFixture
) -> None:
    outbox = SendOutbox(store_of(place), client_of(server))
    server.api("/v1/suppressions/ann@example.net", method="PUT")
    with owing(place) as connection:
        outbox.send(connection, "ann@example.net", key="k-1", **RECEIPT)

    outbox.drain()
    [send] = server.get("/v1/sends")["data"]
    [told] = [one.getMessage() for one in caplog.records if one.name == "mailonce.gate"]

    assert outbox.counts() == {"due": 0, "done": 1, "dead": 0}
    assert send["state"] == "suppressed"
    assert f"send {send['id']} (key k-1) is suppressed" in told
    assert f"`mailonce sends resend {send['id']}`" in told
    server.api("/v1/suppressions/ann@example.net", method="DELETE")
    assert server.api(f"/v1/sends/{send['id']}/resend", method="POST").status_code == 200


@pytest.mark.parametrize(
    ("death", "owed"),
    [("before the commit", 0), ("before the call", 1), ("before the record", 1)],
)
def test_a_kill_between_any_two_steps_loses_and_doubles_nothing(
    place: Place, server: Server, death: str, owed: int
) -> None:
    given = [place.dialect, place.url, server.url, ADMIN_KEY, death]
    paths = os.pathsep.join([str(ROOT / "src"), str(ROOT)])
    killed = subprocess.run(
        [sys.executable, "-c", CHILD, *given], env={**os.environ, "PYTHONPATH": paths},
        cwd=ROOT, check=False, timeout=120,
    )  # fmt: skip
    before = len(sent(server))
    place.let_outbox_be_due()

    SendOutbox(store_of(place), client_of(server)).drain()

    assert killed.returncode == -signal.SIGKILL
    assert before == (1 if death == "before the record" else 0)
    assert (place.orders(), len(sent(server))) == (owed, owed)


def test_two_pumps_at_once_hand_each_mail_over_once(place: Place, server: Server) -> None:
    many = 12
    outboxes = [SendOutbox(store_of(place), client_of(server)) for _ in range(2)]
    with owing(place) as connection:
        for number in range(many):
            outboxes[0].send(connection, f"p{number}@example.net", cause_id="news", **RECEIPT)

    def pump(outbox: SendOutbox[Any]) -> None:
        while outbox.counts()["due"]:
            outbox.drain()

    threads = [threading.Thread(target=pump, args=(one,)) for one in outboxes]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join(120)

    assert outboxes[0].counts() == {"due": 0, "done": many, "dead": 0}
    assert sorted(sent(server)) == sorted(f"p{number}@example.net" for number in range(many))
    wait_for(
        lambda: {one["state"] for one in server.get("/v1/sends")["data"]} == {"accepted"},
        what="all of them to be kept in inboxes",
    )


def test_it_is_owed_from_behind_the_gate_too_beside_other_effects(
    place: Place, server: Server
) -> None:
    outbox = SendOutbox(store_of(place), client_of(server))
    receipts: list[Owed] = []
    effects = Outbox(store_of(place), {"receipt": receipts.append})

    def work(passage: Passage[Any]) -> Response:
        passage.tx.execute(ORDER)
        outbox.send(passage.tx, "ann@example.net", key=passage.key, **RECEIPT)
        passage.owe("receipt", b"of order 1")
        return Response.json(201, {"order": "paid"})

    for _ in range(3):
        Gate(store_of(place)).run(ask("hook-1"), work)
    tried = [effects.drain(), effects.drain(), outbox.drain(), outbox.drain()]

    assert (tried, [owed.body for owed in receipts]) == ([1, 0, 1, 0], [b"of order 1"])
    assert (place.orders(), sent(server)) == (1, ["ann@example.net"])


def test_blocking_drivers_owe_in_their_own_transaction(
    place: Place, server: Server, subtests: pytest.Subtests
) -> None:
    url = (
        f"sqlite:///{place.url}"
        if place.dialect == "sqlite"
        else place.url.replace("postgresql://", "postgresql+psycopg://")
    )
    engine = create_engine(url, poolclass=NullPool)
    client = client_of(server)
    with subtests.test("connection"):
        outbox: SendOutbox[Any] = SendOutbox(SqlalchemyStore(engine), client)
        with engine.begin() as connection:
            connection.execute(text(ORDER))
            outbox.send(connection, "ann@example.net", key="connection", **RECEIPT)
        with engine.connect() as connection:
            outbox.send(connection, "ann@example.net", key="undone", **RECEIPT)
        assert outbox.drain() == 1
    with subtests.test("session"):
        outbox = SendOutbox(SqlalchemyStore(engine), client)
        with Session(engine) as session:
            outbox.send(session, "ann@example.net", key="session", **RECEIPT)
            session.rollback()
            outbox.send(session, "ann@example.net", key="session", **RECEIPT)
            session.commit()
        assert outbox.drain() == 1
    with subtests.test("autocommit"):
        with engine.connect() as connection:
            loose = connection.execution_options(isolation_level="AUTOCOMMIT")
            with pytest.raises(ConfigError, match="no transaction is open"):
                outbox.send(loose, "ann@example.net", key="loose", **RECEIPT)
        driver: Any
        if place.dialect == "sqlite":
            driver = sqlite3.connect(place.url, isolation_level=None)
        else:
            driver = psycopg.connect(place.url, autocommit=True)
        with pytest.raises(ConfigError, match="no transaction is open"):
            SendOutbox(store_of(place), client).send(driver, "a@b.cd", key="loose", **RECEIPT)
        driver.close()
    assert len(sent(server)) == 2


@asynccontextmanager
async def async_outboxes(place: Place, client: AsyncClient) -> AsyncIterator[list[Any]]:
    """Give each async driver's outbox, and how the app begins a transaction with it."""
    if place.dialect == "sqlite":
        engine = create_async_engine(f"sqlite+aiosqlite:///{place.url}", poolclass=NullPool)
        yield [
            (AsyncSendOutbox(AsyncSqlalchemyStore(engine), client), engine.begin),
            (AsyncSendOutbox(AsyncSqlalchemyStore(engine), client), lambda: _session(engine)),
        ]
        return
    engine = create_async_engine(
        place.url.replace("postgresql://", "postgresql+asyncpg://"), poolclass=NullPool
    )
    async with asyncpg.create_pool(place.url, min_size=1, max_size=4) as pool:
        yield [
            (AsyncSendOutbox(AsyncSqlalchemyStore(engine), client), engine.begin),
            (AsyncSendOutbox(AsyncSqlalchemyStore(engine), client), lambda: _session(engine)),
            (AsyncSendOutbox(AsyncpgStore(pool), client), lambda: _asyncpg(pool)),
            (AsyncSendOutbox(AsyncPsycopgStore(place.url), client), lambda: _psycopg(place.url)),
        ]


@asynccontextmanager
async def _session(engine: Any) -> AsyncIterator[Any]:
    async with AsyncSession(engine) as session, session.begin():
        yield session


@asynccontextmanager
async def _asyncpg(pool: Any) -> AsyncIterator[Any]:
    async with pool.acquire() as connection, connection.transaction():
        yield connection


@asynccontextmanager
async def _psycopg(url: str) -> AsyncIterator[Any]:
    async with await psycopg.AsyncConnection.connect(url) as connection:
        yield connection


def test_async_drivers_owe_in_their_own_transaction(place: Place, server: Server) -> None:
    async def owe_all() -> int:
        async with (
            AsyncClient(server.url, ADMIN_KEY) as client,
            async_outboxes(place, client) as outboxes,
        ):
            for number, (outbox, begin) in enumerate(outboxes):
                async with begin() as connection:
                    await outbox.send(connection, f"a{number}@example.net", **RECEIPT)
                with suppress(ChangedMindError):
                    async with begin() as connection:
                        await outbox.send(connection, f"b{number}@example.net", **RECEIPT)
                        raise ChangedMindError
                assert await outbox.drain() == 1
                assert await outbox.drain() == 0
            return len(outboxes)

    many = asyncio.run(owe_all())

    assert sorted(sent(server)) == sorted(f"a{number}@example.net" for number in range(many))


def test_asyncpg_outside_of_a_transaction_is_refused(place: Place, server: Server) -> None:
    if place.dialect == "sqlite":
        pytest.skip("asyncpg is for PostgreSQL")

    async def owe_loosely() -> None:
        async with (
            AsyncClient(server.url, ADMIN_KEY) as client,
            asyncpg.create_pool(place.url, min_size=1, max_size=1) as pool,
            pool.acquire() as connection,
        ):
            outbox = AsyncSendOutbox(AsyncpgStore(pool), client)
            await outbox.send(connection, "ann@example.net", **RECEIPT)

    with pytest.raises(ConfigError, match="no transaction is open"):
        asyncio.run(owe_loosely())
