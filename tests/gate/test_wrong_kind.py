"""Wrong use of the gate is refused with a sentence: when it is put together, or at first use."""

import sqlite3
from functools import partial
from pathlib import Path
from typing import Annotated, Any, assert_type

import httpx
import psycopg
import pytest
from fastapi import APIRouter, Depends, FastAPI
from sqlalchemy import Connection, create_engine, inspect, text
from sqlalchemy.ext.asyncio import (
    AsyncConnection,
    AsyncSession,
    async_sessionmaker,
    create_async_engine,
)
from sqlalchemy.orm import Session, sessionmaker

from mailonce.errors import ConfigError, UnavailableError
from mailonce.gate import AsyncGate, Gate, Policy, Request, Response, schema
from mailonce.gate.adapters import django, fastapi, flask
from mailonce.gate.adapters.asgi import GateMiddleware
from mailonce.gate.signature import standard_webhooks
from mailonce.gate.stores.sqlalchemy import AsyncSqlalchemyStore, SqlalchemyStore
from mailonce.gate.stores.sqlite import SqliteStore


async def app(*_: Any) -> None:
    raise AssertionError("no request is made")


def test_a_gate_and_a_store_of_different_kinds_are_refused(tmp_path: Path) -> None:
    blocking: Any = SqlalchemyStore(create_engine("sqlite://"))
    awaited: Any = AsyncSqlalchemyStore(create_async_engine("sqlite+aiosqlite://"))
    file: Any = SqliteStore(tmp_path / "app.db")

    with pytest.raises(ConfigError, match="use Gate, or an async store"):
        AsyncGate(blocking)
    with pytest.raises(ConfigError, match="AsyncGate cannot use SqliteStore"):
        AsyncGate(file)
    with pytest.raises(ConfigError, match="use AsyncGate, or a blocking store"):
        Gate(awaited)


def test_an_app_that_awaits_refuses_a_blocking_gate(tmp_path: Path) -> None:
    gate: Any = Gate(SqliteStore(tmp_path / "app.db"))

    with pytest.raises(ConfigError, match="use AsyncGate"):
        fastapi.gated(gate)
    with pytest.raises(ConfigError, match="use AsyncGate"):
        GateMiddleware(app, gate)


@pytest.mark.parametrize(
    ("given", "sentence"),
    [
        (async_sessionmaker(), "give it to AsyncSqlalchemyStore"),
        (create_async_engine("sqlite+aiosqlite://"), "give it to AsyncSqlalchemyStore"),
        ("sqlite:///m.db", r"not a str; make one with `create_engine\(url\)`"),
        (Session(create_engine("sqlite://")), "not a Session"),
    ],
    ids=["async sessions", "async engine", "url", "session"],
)
def test_a_blocking_store_says_what_it_takes(given: Any, sentence: str) -> None:
    with pytest.raises(ConfigError, match=sentence):
        SqlalchemyStore(given)


@pytest.mark.parametrize(
    ("given", "sentence"),
    [
        (sessionmaker(), "give it to SqlalchemyStore"),
        (create_engine("sqlite://"), "give it to SqlalchemyStore"),
        ("sqlite:///m.db", r"not a str; make one with `create_async_engine\(url\)`"),
    ],
    ids=["sessions", "engine", "url"],
)
def test_an_async_store_says_what_it_takes(given: Any, sentence: str) -> None:
    with pytest.raises(ConfigError, match=sentence):
        AsyncSqlalchemyStore(given)


def test_a_secret_is_no_function_that_verifies() -> None:
    secret: Any = "whsec_c2VjcmV0"
    header: Any = "webhook-id"

    with pytest.raises(ConfigError, match=r"verify=standard_webhooks\(SECRET\)") as refused:
        Policy(verify=secret)
    with pytest.raises(ConfigError, match="`key` must be a function of the request"):
        Policy(key=header)

    assert secret not in str(refused.value)


def test_a_decorator_without_its_gate_is_refused() -> None:
    view: Any = lambda: "never"  # noqa: E731 - what a decorator is put on
    forgotten: Any = fastapi.gated

    with pytest.raises(ConfigError, match=r"write `@gated\(gate\)`"):
        flask.gated(view)
    with pytest.raises(ConfigError, match=r"write `@gated\(gate\)`"):
        django.gated(view)
    with pytest.raises(ConfigError, match=r"write `route_class=gated\(gate\)`"):
        APIRouter(route_class=forgotten).post("/hooks")(app)


async def test_a_fastapi_handler_must_be_able_to_await_the_gate(tmp_path: Path) -> None:
    engine = create_async_engine(f"sqlite+aiosqlite:///{made(tmp_path)}")
    router = APIRouter(route_class=fastapi.gated(AsyncGate(AsyncSqlalchemyStore(engine))))

    def repository(tx: Annotated[Any, Depends(fastapi.transaction)]) -> Any:
        return tx

    async def direct(tx: Annotated[Any, Depends(fastapi.transaction)]) -> None:
        del tx

    class Receiver:
        async def __call__(self, tx: Annotated[Any, Depends(fastapi.transaction)]) -> None:
            del tx

    def blocking(tx: Annotated[Any, Depends(fastapi.transaction)]) -> None:
        del tx

    async def awaiting(tx: Annotated[Any, Depends(repository)]) -> None:
        del tx

    with pytest.raises(ConfigError, match=r"/hooks is a plain `def`.*write `async def`"):
        router.post("/hooks")(blocking)
    router.post("/hooks")(awaiting)
    router.post("/partial")(partial(direct))
    router.post("/object")(Receiver())
    router.get("/hooks/1")(blocking)
    await engine.dispose()


async def test_a_route_without_a_gate_names_what_puts_it_behind_one() -> None:
    plain = FastAPI()

    @plain.post("/hooks")
    async def receive(tx: Annotated[Any, Depends(fastapi.transaction)]) -> None:
        del tx

    transport = httpx.ASGITransport(plain)
    async with httpx.AsyncClient(transport=transport, base_url="http://app.test") as client:
        with pytest.raises(ConfigError, match=r"/hooks does not .* APIRouter\(route_class=gated"):
            await client.post("/hooks")


def test_the_gate_of_a_flask_view_stands_below_its_route(tmp_path: Path) -> None:
    source = """
from flask import Flask
app = Flask("shop")

@gated(gate)
@app.post("/hooks")
def receive(): ...
"""
    below = source.replace("@gated(gate)\n", "").replace("def receive", "@gated(gate)\ndef receive")
    gated = flask.gated
    gate = Gate(SqliteStore(tmp_path / "app.db"))

    with pytest.raises(ConfigError, match=r"'receive' was added .* below `@app\.post"):
        exec(source, {"gated": gated, "gate": gate})
    exec(below, {"gated": gated, "gate": gate})


def test_the_type_of_a_gate_follows_from_its_store() -> None:
    """The types are looked at by mypy, in `make lint`."""
    engine, awaited = create_engine("sqlite://"), create_async_engine("sqlite+aiosqlite://")
    sessions = async_sessionmaker(awaited)

    assert_type(Gate(SqlalchemyStore(sessionmaker(engine))), Gate[Session])
    assert_type(Gate(SqlalchemyStore(engine)), Gate[Connection])
    assert_type(AsyncGate(AsyncSqlalchemyStore(sessions)), AsyncGate[AsyncSession])
    assert_type(AsyncGate(AsyncSqlalchemyStore(awaited)), AsyncGate[AsyncConnection])


def test_a_body_is_bytes() -> None:
    text: Any = "{}"
    array: Any = bytearray(b"{}")

    with pytest.raises(ConfigError, match="`body` is a str; give the bytes"):
        Request(body=text)
    assert Request(body=array).body == b"{}"


def test_a_handler_that_must_be_awaited_needs_the_other_gate(tmp_path: Path) -> None:
    gate = Gate(SqliteStore(made(tmp_path)))
    handler: Any = app

    with pytest.raises(ConfigError, match="use AsyncGate"):
        gate.run(Request(headers=(("Idempotency-Key", "k-1"),)), handler)


def test_a_connection_is_no_path(tmp_path: Path) -> None:
    connection: Any = sqlite3.connect(tmp_path / "app.db")

    with pytest.raises(ConfigError, match="give it the path, not a Connection"):
        SqliteStore(connection)
    connection.close()


def test_a_view_of_flask_refuses_a_gate_that_must_be_awaited() -> None:
    gate: Any = AsyncGate(AsyncSqlalchemyStore(create_async_engine("sqlite+aiosqlite://")))

    with pytest.raises(ConfigError, match="use Gate with a blocking store"):
        flask.gated(gate)


@pytest.mark.parametrize(
    ("returned", "sentence"),
    [
        ({"ticket": 1}, "your handler returned a dict; return `Response.json"),
        ("done", "returned a str"),
        (None, "returned None"),
        (Response("201", b""), "the status a str and the body a bytes"),  # type: ignore[arg-type]
        (Response(201, "text"), "the status a int and the body a str"),  # type: ignore[arg-type]
    ],
    ids=["dict", "text", "nothing", "status", "body"],
)
def test_a_handler_that_returns_no_response_keeps_nothing(
    tmp_path: Path, returned: Any, sentence: str
) -> None:
    gate = Gate(SqliteStore(made(tmp_path)))
    request = Request(headers=(("Idempotency-Key", "k-1"),), body=b"{}")

    def wrong(passage: Any) -> Any:
        passage.tx.execute("INSERT INTO tickets VALUES ('wrong')")
        return returned

    with pytest.raises(ConfigError, match=sentence):
        gate.run(request, wrong)
    answer = gate.run(request, lambda _: Response.json(201, {}))

    assert answer.outcome == "first", "the key is free, and what it did is undone"
    with sqlite3.connect(tmp_path / "app.db") as connection:
        assert connection.execute("SELECT count(*) FROM tickets").fetchone() == (0,)


async def test_an_async_handler_that_returns_no_response_keeps_nothing(tmp_path: Path) -> None:
    engine = create_async_engine(f"sqlite+aiosqlite:///{made(tmp_path)}")
    store: Any = AsyncSqlalchemyStore(engine)
    gate = AsyncGate(store)
    request = Request(headers=(("Idempotency-Key", "k-1"),))

    async def wrong(_: Any) -> Any:
        return {}

    async def right(_: Any) -> Response:
        return Response(204)

    plain: Any = lambda _: Response(204)  # noqa: E731 - it is not async

    with pytest.raises(ConfigError, match="returned a dict"):
        await gate.run(request, wrong)
    with pytest.raises(ConfigError, match="your handler is not async; write `async def`"):
        await gate.run(request, plain)
    answer = await gate.run(request, right)
    await engine.dispose()

    assert answer.outcome == "first"


def test_headers_may_be_a_dict_or_any_pairs_and_nothing_else() -> None:
    given: Any = {"Idempotency-Key": "k-1"}
    pairs: Any = [["Location", "/1"]]
    wrong: Any = ["Location"]

    assert list(Request(headers=given).values("idempotency-key")) == ["k-1"]
    assert Response(201, b"", pairs).header("location") == "/1"
    with pytest.raises(ConfigError, match="give pairs of name and value, or a dict"):
        Response(201, b"", wrong)


@pytest.mark.parametrize("form", [tuple, list, dict])
@pytest.mark.parametrize(
    ("value", "kind"), [(17, "a int"), (None, "None"), (b"k-1", "a bytes")], ids=str
)
def test_a_header_is_a_text(form: Any, value: Any, kind: str) -> None:
    """A key of None would be the same for every request."""
    sentence = f"header 'Idempotency-Key' is {kind}; give a text, or leave the header out"

    with pytest.raises(ConfigError, match=sentence):
        Request(headers=form([("Idempotency-Key", value)]))


def test_missing_tables_are_reported_at_the_start_with_what_makes_them(tmp_path: Path) -> None:
    gate = Gate(SqliteStore(tmp_path / "app.db"))

    with pytest.raises(UnavailableError, match=r"schema\.create\(connection\)"):
        gate.check()
    made(tmp_path)
    gate.check()


def test_tables_are_made_once_however_often_it_is_called(tmp_path: Path) -> None:
    engine = create_engine(f"sqlite:///{made(tmp_path)}")
    nothing: Any = object()

    with engine.connect() as connection:
        schema.create(connection)
        schema.create(connection)
    with pytest.raises(ConfigError, match=r"run the SQL of `schema\.script"):
        schema.create(nothing)
    awaited = create_async_engine("sqlite+aiosqlite://").connect()
    for wrong in (engine, Session(engine), awaited):
        with pytest.raises(ConfigError, match=r"use that of `engine\.begin\(\)`"):
            schema.create(wrong)

    Gate(SqlalchemyStore(engine)).check()
    engine.dispose()


def test_tables_are_made_in_the_transaction_that_is_open(database_url: str) -> None:
    engine = create_engine(database_url.replace("postgresql://", "postgresql+psycopg://"))

    with engine.begin() as connection:
        schema.create(connection)
        connection.execute(text("CREATE TABLE orders (id int)"))

    found = set(inspect(engine).get_table_names())
    engine.dispose()
    assert {"webhook_idempotency", "webhook_outbox", "orders"} <= found


@pytest.mark.parametrize("database_url", ["postgresql"], indirect=True)
def test_tables_go_with_the_transaction_that_is_rolled_back(database_url: str) -> None:
    engine = create_engine(database_url.replace("postgresql://", "postgresql+psycopg://"))

    with engine.connect() as connection, connection.begin() as transaction:
        schema.create(connection)
        transaction.rollback()

    found = inspect(engine).get_table_names()
    engine.dispose()
    assert "webhook_idempotency" not in found


@pytest.mark.parametrize("database_url", ["postgresql"], indirect=True)
def test_a_transaction_of_psycopg_stays_open_as_well(database_url: str) -> None:
    with psycopg.connect(database_url) as connection:
        with connection.transaction():
            schema.create(connection)
            connection.execute("SELECT 1 FROM webhook_idempotency")
        schema.create(connection, table="other_keys", outbox="other_outbox")

    with psycopg.connect(database_url) as again:
        again.execute("SELECT 1 FROM webhook_idempotency, other_keys")


def test_a_secret_that_cannot_work_is_refused_in_words_of_the_gate() -> None:
    with pytest.raises(ConfigError, match="copy the secret whole") as refused:
        standard_webhooks("whsec_%%%")

    assert "option" not in str(refused.value)


def made(folder: Path) -> Path:
    """Make the tables of an app."""
    path = folder / "app.db"
    with sqlite3.connect(path) as connection:
        schema.create(connection)
        connection.execute("CREATE TABLE IF NOT EXISTS tickets (subject text)")
    connection.close()
    return path
