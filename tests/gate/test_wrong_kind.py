"""A gate, a store or an app of the wrong kind is refused when it is put together, not later."""

import sqlite3
from pathlib import Path
from typing import Any

import pytest
from sqlalchemy import create_engine
from sqlalchemy.ext.asyncio import create_async_engine

from mailonce.errors import ConfigError
from mailonce.gate import AsyncGate, Gate
from mailonce.gate.adapters import fastapi
from mailonce.gate.adapters.asgi import GateMiddleware
from mailonce.gate.stores.sqlalchemy import AsyncSqlalchemyStore, SqlalchemyStore
from mailonce.gate.stores.sqlite import SqliteStore


async def app(*_: Any) -> None:
    raise AssertionError("no request is made")


def test_a_gate_and_a_store_of_different_kinds_are_refused(tmp_path: Path) -> None:
    blocking: Any = SqlalchemyStore(create_engine("sqlite://"))
    awaited: Any = AsyncSqlalchemyStore(create_async_engine("sqlite+aiosqlite://"))
    file: Any = SqliteStore(tmp_path / "app.db")

    with pytest.raises(ConfigError, match="AsyncGate cannot use SqlalchemyStore; use Gate, or an"):
        AsyncGate(blocking)
    with pytest.raises(ConfigError, match="AsyncGate cannot use SqliteStore"):
        AsyncGate(file)
    with pytest.raises(ConfigError, match="Gate cannot use AsyncSqlalchemyStore; use AsyncGate"):
        Gate(awaited)


def test_an_app_that_awaits_refuses_a_blocking_gate(tmp_path: Path) -> None:
    gate: Any = Gate(SqliteStore(tmp_path / "app.db"))

    with pytest.raises(ConfigError, match="use AsyncGate"):
        fastapi.gated(gate)
    with pytest.raises(ConfigError, match="use AsyncGate"):
        GateMiddleware(app, gate)


def test_a_connection_is_no_path(tmp_path: Path) -> None:
    connection: Any = sqlite3.connect(tmp_path / "app.db")

    with pytest.raises(ConfigError, match="give it the path, not a Connection"):
        SqliteStore(connection)
    connection.close()
