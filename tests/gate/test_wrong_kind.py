"""Wrong use of the gate is refused with a sentence: when it is put together, or at first use."""

import sqlite3
from pathlib import Path
from typing import Any

import pytest
from sqlalchemy import create_engine
from sqlalchemy.ext.asyncio import create_async_engine

from mailonce.errors import ConfigError, UnavailableError
from mailonce.gate import AsyncGate, Gate, Request, Response, schema
from mailonce.gate.adapters import fastapi, flask
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

    with pytest.raises(ConfigError, match="returned a dict"):
        await gate.run(request, wrong)
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

    Gate(SqlalchemyStore(engine)).check()
    engine.dispose()


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
