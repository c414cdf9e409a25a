"""What is given in the place of a gate, or of its store, is refused with what to write."""

import sqlite3
from pathlib import Path
from typing import Any

import asyncpg
import psycopg_pool
import pytest
from flask import Flask
from sqlalchemy import create_engine
from sqlalchemy.ext.asyncio import async_sessionmaker, create_async_engine

from mailonce.errors import ConfigError
from mailonce.gate import AsyncGate, Gate
from mailonce.gate.adapters import django, fastapi, flask
from mailonce.gate.adapters.asgi import GateMiddleware
from mailonce.gate.stores.sqlalchemy import AsyncSqlalchemyStore
from mailonce.gate.stores.sqlite import SqliteStore


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
