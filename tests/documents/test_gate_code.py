"""The code of docs/gate.md and of the README's gate, run against real databases."""

import asyncio
import hmac
import json
import socket
import sqlite3
import time
from base64 import b64decode, b64encode
from collections.abc import Iterator
from contextlib import contextmanager
from hashlib import sha256
from pathlib import Path
from threading import Thread
from types import SimpleNamespace

import flask
import httpx
import psycopg
import pytest
import uvicorn
from alembic.migration import MigrationContext
from alembic.operations import Operations
from fastapi import FastAPI
from psycopg_pool import ConnectionPool
from pydantic import BaseModel
from sqlalchemy import create_engine
from sqlalchemy.ext.asyncio import async_sessionmaker, create_async_engine
from sqlalchemy.orm import DeclarativeBase, Mapped, mapped_column

from mailonce.gate import Gate, Outcome, Passage, Policy, Request, Response, schema
from mailonce.gate.adapters import flask as flask_adapter
from mailonce.gate.stores.psycopg import PsycopgStore
from mailonce.gate.stores.sqlite import SqliteStore
from tests.documents.code import SECRET, run_block
from tests.gate.rigs import django as django_rig
from tests.gate.test_adoption import SEED
from tests.servers import wait_for


class EndOfPageError(Exception):
    """Ends a loop that a page lets run for ever."""


@pytest.fixture
def app_db(tmp_path: Path) -> Path:
    path = tmp_path / "app.db"
    with sqlite3.connect(path) as connection:
        connection.executescript(schema.script("sqlite") + "CREATE TABLE tickets (subject text);")
    return path


def a_request(key: str = "m-1", body: bytes = b"{}") -> Request:
    return Request(headers=(("idempotency-key", key),), body=body)


def test_a_key_function_reads_the_key_from_the_body(app_db: Path) -> None:
    names = run_block("gate.md | Which senders fit | 1", SECRET=b"shop")
    gate = Gate(SqliteStore(app_db), names["policy"])

    def copy(body: bytes, secret: bytes = b"shop") -> Outcome:
        signature = hmac.new(secret, body, sha256).hexdigest()
        request = Request(headers=(("X-Shop-Signature", signature),), body=body)
        return gate.run(request, lambda _: Response.json(201, {})).outcome

    outcomes = [copy(b'{"id": "e-1"}'), copy(b'{"id": "e-1"}'), copy(b'{"id": "e-2"}')]

    assert outcomes == [Outcome.FIRST, Outcome.REPLAYED, Outcome.FIRST]
    assert copy(b'{"id": "e-3"}', b"other") is Outcome.UNPROVEN
    assert copy(b'{"id": null}') is Outcome.BAD_KEY


def test_the_policies_that_verify_can_be_made() -> None:
    run_block("gate.md | Signatures | 1", Policy=Policy, SECRET=SECRET, OLD_SECRET=SECRET)


def test_a_table_of_before_is_adopted(tmp_path: Path) -> None:
    from mailonce.gate.django.operations import AdoptTable

    engine = create_engine(f"sqlite:///{tmp_path / 'old.db'}")
    with engine.begin() as connection:
        connection.exec_driver_sql(SEED)
        op = Operations(MigrationContext.configure(connection))
        names = {"schema": schema, "policy": Policy(), "op": op, "AdoptTable": AdoptTable}

        run_block("gate.md | Tables | 1", **names)

        columns = connection.exec_driver_sql("PRAGMA table_info(webhook_idempotency)").fetchall()
    engine.dispose()
    assert {"scope", "fencing_token"} <= {column[1] for column in columns}


def test_an_effect_that_is_owed_is_done(app_db: Path) -> None:
    store = SqliteStore(app_db)
    sent: list[bytes] = []
    service = SimpleNamespace(send=lambda body, **_: sent.append(body))

    def owe(passage: Passage[sqlite3.Connection]) -> Response:
        passage.owe("receipt", b"to ann")
        return Response.json(201, {})

    Gate(store).run(a_request(), owe)
    names = {"store": store, "mail_service": service}

    def end(_: float) -> None:
        raise EndOfPageError

    with pytest.raises(EndOfPageError):
        run_block("gate.md | Effects outside | 1", time=SimpleNamespace(sleep=end), **names)

    assert sent == [b"to ann"]


async def test_an_async_handler_owes_an_effect_that_is_done_once(app_db: Path) -> None:
    engine = create_async_engine(f"sqlite+aiosqlite:///{app_db}")
    sent: list[bytes] = []

    async def send(body: bytes, *, idempotency_key: str) -> None:
        assert idempotency_key
        sent.append(body)

    async def end(_: float) -> None:
        raise EndOfPageError

    names = run_block(
        "gate.md | ASGI | 1",
        sessions=async_sessionmaker(engine),
        mail_service=SimpleNamespace(send=send),
        asyncio=SimpleNamespace(sleep=end),
    )
    app = FastAPI()
    app.include_router(names["router"])
    transport = httpx.ASGITransport(app)
    async with httpx.AsyncClient(transport=transport, base_url="http://shop") as client:
        headers = {"Idempotency-Key": "m-1"}
        answers = [await client.post("/hooks", headers=headers) for _ in range(2)]
    with pytest.raises(EndOfPageError):
        await names["work"]()
    await engine.dispose()

    assert [answer.json() for answer in answers] == [{"ticket": "opened"}] * 2
    assert sent == [b"to ann"]
    with sqlite3.connect(app_db) as connection:
        assert connection.execute("SELECT count(*) FROM tickets").fetchone() == (1,)


def test_an_app_is_tested_in_a_loop_of_each_test(tmp_path: Path) -> None:
    names = run_block("gate.md | Tests | 1")

    for number in range(2):
        folder = tmp_path / str(number)
        folder.mkdir()
        asyncio.run(names["test_a_webhook_that_comes_twice_opens_one_ticket"](folder))


@pytest.mark.parametrize("database_url", ["postgresql"], indirect=True)
def test_a_pool_of_the_lifespan_serves_the_gate_under_uvicorn(
    database_url: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("DATABASE_URL", database_url)
    with psycopg.connect(database_url) as connection:
        connection.execute("CREATE TABLE tickets (subject text)")
    app = run_block("gate.md | A pool of asyncpg | 1")["app"]
    answers = []

    for _ in range(2):
        with served(app) as url:
            headers = {"Idempotency-Key": "m-1"}
            answers.append(httpx.post(f"{url}/hooks", headers=headers))

    assert [answer.json() for answer in answers] == [{"ticket": "opened"}] * 2
    assert answers[1].headers["idempotent-replayed"] == "true"
    with psycopg.connect(database_url) as connection:
        assert connection.execute("SELECT count(*) FROM tickets").fetchone() == (1,)


@contextmanager
def served(app: FastAPI) -> Iterator[str]:
    """Serve an app by uvicorn, in a thread with a loop of its own."""
    with socket.create_server(("127.0.0.1", 0)) as listener:
        server = uvicorn.Server(uvicorn.Config(app, log_level="warning"))
        thread = Thread(target=server.run, args=([listener],))
        thread.start()
        try:
            wait_for(lambda: server.started or not thread.is_alive(), what="uvicorn")
            yield f"http://127.0.0.1:{listener.getsockname()[1]}"
        finally:
            server.should_exit = True
            thread.join(30)


@pytest.mark.parametrize("database_url", ["postgresql"], indirect=True)
def test_a_mail_is_owed_in_the_transaction_of_an_order(
    database_url: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("MAILONCE_URL", "http://127.0.0.1:9")
    monkeypatch.setenv("MAILONCE_KEY", "mok_not_asked")
    with ConnectionPool(database_url, min_size=1) as pool:
        with pool.connection() as connection:
            connection.execute(schema.script("postgresql"))
            connection.execute("CREATE TABLE orders (id int, paid boolean)")
            connection.execute("INSERT INTO orders VALUES (17, false)")

        run_block("gate.md | Effects outside | 2", pool=pool, PsycopgStore=PsycopgStore)

        with pool.connection() as connection:
            counted = connection.execute("SELECT count(*) FROM webhook_outbox").fetchone()
            paid = connection.execute("SELECT paid FROM orders").fetchone()
    assert (counted, paid) == ((1,), (True,))


def test_a_lease_charges_once(app_db: Path) -> None:
    charged: list[str] = []

    def charge(amount: int, *, idempotency_key: str) -> str:
        assert amount == 100
        charged.append(idempotency_key)
        return "ch_1"

    def insert_order(tx: sqlite3.Connection, charge_id: str) -> None:
        tx.execute("INSERT INTO tickets VALUES (?)", (charge_id,))

    names = run_block(
        "gate.md | Effects outside | 3",
        Passage=Passage,
        Connection=sqlite3.Connection,
        Response=Response,
        bank=SimpleNamespace(charge=charge),
        insert_order=insert_order,
    )
    gate: Gate[sqlite3.Connection] = Gate(SqliteStore(app_db), mode="lease")

    answers = [gate.run(a_request(), names["work"]) for _ in range(2)]

    assert [answer.outcome for answer in answers] == [Outcome.FIRST, Outcome.REPLAYED]
    assert len(charged) == 1


def test_django_knows_the_app_and_runs_the_view(app_db: Path) -> None:
    from django.db import connections
    from django.http import JsonResponse
    from django.test import RequestFactory
    from django.views.decorators.csrf import csrf_exempt

    from tests.gate.places import Place

    django_rig.set_up()
    apps = run_block("gate.md | Django | 1")["INSTALLED_APPS"]
    alias = django_rig.add_database(Place("sqlite", str(app_db)))
    made: list[int] = []

    def create(*_: object) -> SimpleNamespace:
        made.append(1)
        return SimpleNamespace(pk=len(made))

    names = run_block(
        "gate.md | Django | 2",
        ("DjangoStore()", f"DjangoStore({alias!r})"),
        settings=SimpleNamespace(WEBHOOK_SECRET=SECRET),
        csrf_exempt=csrf_exempt,
        JsonResponse=JsonResponse,
        Ticket=SimpleNamespace(objects=SimpleNamespace(create=create)),
    )
    requests = [
        RequestFactory().post(
            "/hooks", b"{}", content_type="application/json", headers=signed(b"{}")
        )
        for _ in range(2)
    ]

    answers = [names["receive"](request) for request in requests]

    connections[alias].close()
    assert apps[-1] == "mailonce.gate.django"
    assert [answer.status_code for answer in answers] == [201, 201]
    assert made == [1]


def test_flask_runs_the_view_once(app_db: Path) -> None:
    app = flask.Flask("shop")
    tickets: list[SimpleNamespace] = []

    def open_ticket(session: sqlite3.Connection) -> SimpleNamespace:
        session.execute("INSERT INTO tickets VALUES ('Help')")
        tickets.append(SimpleNamespace(id=1))
        return tickets[-1]

    run_block(
        "gate.md | Flask | 1",
        ("    ...\n", "    ticket = open_ticket(session)\n"),
        app=app,
        gated=flask_adapter.gated,
        gate=Gate(SqliteStore(app_db)),
        g=flask.g,
        open_ticket=open_ticket,
    )
    client = app.test_client()

    answers = [client.post("/hooks", headers={"Idempotency-Key": "m-1"}) for _ in range(2)]

    assert [answer.json for answer in answers] == [{"ticket": 1}] * 2
    assert len(tickets) == 1


def test_a_message_of_a_queue_is_acknowledged(app_db: Path) -> None:
    acknowledged: list[str] = []
    message = SimpleNamespace(id="m-1", body=b"{}", ack=lambda: acknowledged.append("m-1"))
    names = {"gate": Gate(SqliteStore(app_db)), "Request": Request, "Outcome": Outcome}

    for _ in range(2):
        run_block(
            "gate.md | Workers and queue consumers | 1",
            message=message,
            work=lambda _: Response.json(200, {}),
            **names,
        )

    assert acknowledged == ["m-1", "m-1"]


async def test_the_readmes_gate_opens_one_ticket(app_db: Path) -> None:
    class Base(DeclarativeBase):
        pass

    class Ticket(Base):
        __tablename__ = "shop_tickets"
        id: Mapped[int] = mapped_column(primary_key=True)
        subject: Mapped[str]

    class Email(BaseModel):
        subject: str

    engine = create_async_engine(f"sqlite+aiosqlite:///{app_db}")
    async with engine.begin() as connection:
        await connection.run_sync(Base.metadata.create_all)
    names = run_block(
        "README.md | The gate: exactly-once in your own app | 1",
        sessions=async_sessionmaker(engine),
        SECRET=SECRET,
        Email=Email,
        Ticket=Ticket,
    )
    app = FastAPI()
    app.include_router(names["router"])
    body = json.dumps({"subject": "Help"}).encode()
    transport = httpx.ASGITransport(app)
    async with httpx.AsyncClient(transport=transport, base_url="http://shop") as client:
        headers = {"content-type": "application/json", **signed(body)}
        # As Svix and Resend send it: the signed id is the only key.
        del headers["x-idempotency-key"]
        answers = [await client.post("/hooks", content=body, headers=headers) for _ in range(2)]
    async with engine.connect() as connection:
        tickets = (await connection.exec_driver_sql("SELECT * FROM shop_tickets")).fetchall()
    await engine.dispose()

    assert [answer.status_code for answer in answers] == [201, 201]
    assert answers[0].content == answers[1].content
    assert len(tickets) == 1


def signed(body: bytes) -> dict[str, str]:
    now = str(int(time.time()))
    text = b".".join((b"m-1", now.encode(), body))
    secret = b64decode(SECRET.removeprefix("whsec_"))
    signature = b64encode(hmac.new(secret, text, sha256).digest()).decode()
    return {
        "webhook-id": "m-1",
        "webhook-timestamp": now,
        "webhook-signature": f"v1,{signature}",
        "x-idempotency-key": "m-1",
    }
