"""What is given in the place of a gate, or of its store, is refused with what to write."""

import sqlite3
from pathlib import Path
from typing import Any

import asyncpg
import psycopg_pool
import pytest
from flask import Blueprint, Flask
from sqlalchemy import create_engine
from sqlalchemy.ext.asyncio import async_sessionmaker, create_async_engine

from mailonce.errors import ConfigError
from mailonce.gate import AsyncGate, Gate, Passage, Response, schema
from mailonce.gate.adapters import django, fastapi, flask
from mailonce.gate.adapters.asgi import GateMiddleware
from mailonce.gate.outbox import Outbox
from mailonce.gate.stores.sqlalchemy import AsyncSqlalchemyStore
from mailonce.gate.stores.sqlite import SqliteStore
from tests.gate.gates import ask


async def app(*_: Any) -> None:
    raise AssertionError("no request is made")


def test_a_gate_says_what_store_to_make_of_what_it_was_given(tmp_path: Path) -> None:
    connection: Any = sqlite3.connect(tmp_path / "app.db")
    engine: Any = create_engine("sqlite://")
    awaited: Any = create_async_engine("sqlite+aiosqlite://")
    sessions: Any = async_sessionmaker(awaited)
    pool: Any = psycopg_pool.ConnectionPool("", open=False)
    awaited_pool: Any = psycopg_pool.AsyncConnectionPool("", open=False)
    path: Any = "app.db"
    nothing: Any = None

    with pytest.raises(ConfigError, match=r"not an Engine; write `Gate\(SqlalchemyStore\(…\)\)`"):
        Gate(engine)
    for given in (awaited, sessions):
        with pytest.raises(ConfigError, match=r"write `AsyncGate\(AsyncSqlalchemyStore\(…\)\)`"):
            AsyncGate(given)
    with pytest.raises(ConfigError, match=r"write `Gate\(PsycopgStore\(…\)\)`"):
        Gate(pool)
    with pytest.raises(ConfigError, match=r"write `AsyncGate\(AsyncPsycopgStore\(…\)\)`"):
        AsyncGate(awaited_pool)
    for given in (connection, path):
        with pytest.raises(ConfigError, match=r"write `Gate\(SqliteStore\(path\)\)`"):
            Gate(given)
    with pytest.raises(ConfigError, match="needs a store, not None"):
        Gate(nothing)
    connection.close()


async def test_an_async_gate_takes_no_pool_of_asyncpg() -> None:
    pool: Any = asyncpg.create_pool()

    with pytest.raises(ConfigError, match=r"write `AsyncGate\(AsyncpgStore\(…\)\)`"):
        AsyncGate(pool)


def test_an_adapter_that_is_given_a_store_asks_for_a_gate(tmp_path: Path) -> None:
    store: Any = SqliteStore(tmp_path / "app.db")
    awaited: Any = AsyncSqlalchemyStore(create_async_engine("sqlite+aiosqlite://"))

    for gated in (flask.gated, django.gated):
        with pytest.raises(ConfigError, match=r"not a SqliteStore; write `gated\(Gate\(store\)\)`"):
            gated(store)
    with pytest.raises(ConfigError, match=r"write `gated\(AsyncGate\(store\)\)`"):
        fastapi.gated(awaited)
    with pytest.raises(ConfigError, match=r"write `GateMiddleware\(app, AsyncGate\(store\)\)`"):
        GateMiddleware(app, awaited)
    with pytest.raises(ConfigError, match=r"write `GateMiddleware\(app, gate\)`"):
        GateMiddleware(awaited, app)  # type: ignore[arg-type]


def test_an_outbox_says_what_it_takes(tmp_path: Path) -> None:
    store = SqliteStore(tmp_path / "app.db")
    gate: Any = Gate(store)
    engine: Any = create_engine("sqlite://")
    handlers: Any = [print]
    name: Any = "send_receipt"

    with pytest.raises(
        ConfigError, match=r"not an Engine; write `Outbox\(SqlalchemyStore\(…\), …\)`"
    ):
        Outbox(engine, {"receipt": print})
    with pytest.raises(
        ConfigError, match="Outbox needs a store, not a Gate; give it the gate's own"
    ):
        Outbox(gate, {"receipt": print})
    with pytest.raises(ConfigError, match=r"give a dict: `{\"receipt\": send_receipt}`"):
        Outbox(store, handlers)
    with pytest.raises(ConfigError, match="the handler of 'receipt' is a str; give a function"):
        Outbox(store, {"receipt": name})


@pytest.mark.parametrize("body", ["text", {"order": 17}, None])
def test_what_is_owed_is_bytes(tmp_path: Path, body: Any) -> None:
    path = tmp_path / "app.db"
    with sqlite3.connect(path) as connection:
        schema.create(connection)
    connection.close()
    gate = Gate(SqliteStore(path))
    outbox = Outbox(gate.store, {"receipt": print})

    def work(passage: Passage[Any]) -> Response:
        passage.owe("receipt", body)
        return Response(201)

    with pytest.raises(ConfigError, match=r"`body` must be bytes; write `json\.dumps"):
        gate.run(ask(), work)

    assert outbox.drain() == 0
    assert gate.run(ask(), lambda _: Response(201)).outcome == "first"


def test_a_policy_and_a_request_are_of_the_gates_own_kind(tmp_path: Path) -> None:
    store = SqliteStore(tmp_path / "app.db")
    verify: Any = lambda request, now_ms: None  # noqa: ARG005, E731 - what a policy holds
    request: Any = {"headers": {}}

    with pytest.raises(ConfigError, match=r"write `Gate\(store, Policy\(…\)\)`"):
        Gate(store, verify)
    with pytest.raises(ConfigError, match=r"not a dict; write `Request\(headers=…, body=…\)`"):
        Gate(store).run(request, lambda _: Response(201))


def test_a_gate_above_its_route_is_refused_in_a_factory_and_of_a_blueprint(tmp_path: Path) -> None:
    gate = Gate(SqliteStore(tmp_path / "app.db"))

    def create_app() -> Flask:
        site = Flask(__name__)

        @flask.gated(gate)
        @site.post("/hooks")
        def receive() -> str:
            return "never"

        return site

    def create_blueprint() -> Blueprint:
        hooks = Blueprint("hooks", __name__)

        @flask.gated(gate)
        @hooks.post("/hooks")
        def receive() -> str:
            return "never"

        return hooks

    for create in (create_app, create_blueprint):
        with pytest.raises(ConfigError, match=r"write `@gated\(gate\)` below `@app\.post"):
            create()


def test_a_route_class_is_no_decorator() -> None:
    gate = AsyncGate(AsyncSqlalchemyStore(create_async_engine("sqlite+aiosqlite://")))
    decorate: Any = fastapi.gated(gate)

    with pytest.raises(ConfigError, match=r"write `APIRouter\(route_class=gated\(gate\)\)`"):
        decorate(app)


def test_two_gated_views_keep_their_names(tmp_path: Path) -> None:
    gate = Gate(SqliteStore(tmp_path / "app.db"))
    site = Flask(__name__)

    def opened() -> str:
        """Open a ticket."""
        return "opened"

    def closed() -> str:
        return "closed"

    site.post("/opened")(flask.gated(gate)(opened))
    site.post("/closed")(flask.gated(gate)(closed))

    assert {"opened", "closed"} <= set(site.view_functions)
    assert site.view_functions["opened"].__doc__ == "Open a ticket."
