"""An outbox refuses what it could not work with, before an effect is done or a mail is owed."""

import asyncio
import sqlite3
from functools import partial, wraps
from pathlib import Path
from typing import Any
from unittest.mock import AsyncMock

import pytest
from sqlalchemy import create_engine
from sqlalchemy.ext.asyncio import create_async_engine

from mailonce import AsyncClient, Client
from mailonce.errors import ConfigError
from mailonce.gate import Gate, Passage, Response
from mailonce.gate.outbox import AsyncOutbox, Outbox, Owed
from mailonce.gate.rules.owed_send import SEND
from mailonce.gate.send_outbox import AsyncSendOutbox, SendOutbox
from mailonce.gate.stores.sqlalchemy import AsyncSqlalchemyStore, SqlalchemyStore
from mailonce.gate.stores.sqlite import SqliteStore
from tests.gate.gates import DONE, ask, async_store_of, store_of
from tests.gate.places import Place

MAIL: dict[str, Any] = {"from_": "shop@example.com", "subject": "a", "text": "b"}


async def send(_: Owed) -> None: ...


def plain(_: Owed) -> None: ...


class Sender:
    async def __call__(self, _: Owed) -> None: ...


@wraps(send)
def wrapped(owed: Owed) -> Any:
    return send(owed)


def awaited_store() -> AsyncSqlalchemyStore[Any]:
    return AsyncSqlalchemyStore(create_async_engine("sqlite+aiosqlite://"))


@pytest.mark.parametrize("handler", [plain, partial(plain), lambda _: None, print])
def test_an_awaited_outbox_refuses_a_plain_function(handler: Any) -> None:
    with pytest.raises(ConfigError, match=r"the handler of 'x' is not async; write `async def`"):
        AsyncOutbox(awaited_store(), {"x": handler})


@pytest.mark.parametrize("handler", [send, partial(send), Sender(), wrapped, AsyncMock()])
def test_an_awaited_outbox_takes_whatever_can_be_awaited(handler: Any) -> None:
    AsyncOutbox(awaited_store(), {"x": handler})


@pytest.mark.parametrize("handler", [send, partial(send), Sender()])
def test_a_blocking_outbox_refuses_whatever_must_be_awaited(handler: Any, tmp_path: Path) -> None:
    with pytest.raises(ConfigError, match="use AsyncOutbox"):
        Outbox(SqliteStore(tmp_path / "app.db"), {"x": handler})


async def test_an_effect_without_anything_to_await_is_done_once(place: Place) -> None:
    seen: list[Owed] = []

    @wraps(send)
    def looks_async(owed: Owed) -> None:
        seen.append(owed)

    def owing(passage: Passage[Any]) -> Response:
        passage.owe("x", b"")
        return DONE

    Gate(store_of(place)).run(ask(), owing)
    handlers: Any = {"x": looks_async}
    outbox = AsyncOutbox(async_store_of(place), handlers)
    await outbox.drain()

    assert len(seen) == 1
    assert await outbox.counts() == {"due": 0, "done": 1, "dead": 0}


@pytest.mark.parametrize(
    "given", [None, "http://127.0.0.1:9", Client], ids=["none", "url", "class"]
)
def test_a_send_outbox_says_that_it_needs_a_client(given: Any, tmp_path: Path) -> None:
    store = SqliteStore(tmp_path / "app.db")

    with pytest.raises(ConfigError, match=r"needs a Client.*`SendOutbox\(store, Client\(\)\)`"):
        SendOutbox(store, given)
    with pytest.raises(ConfigError, match=r"`AsyncSendOutbox\(store, AsyncClient\(\)\)`"):
        AsyncSendOutbox(awaited_store(), given)


def test_swapped_arguments_are_refused(tmp_path: Path) -> None:
    swapped: Any = (Client("http://127.0.0.1:9", "key"), SqliteStore(tmp_path / "app.db"))

    with pytest.raises(ConfigError, match=r"needs a Client, and not a SqliteStore; write"):
        SendOutbox(*swapped)


WRONG = r"`send` was given an? {}, on which {} cannot write; give the connection or session"


def test_a_mail_is_owed_on_a_connection_of_the_stores_own_library(tmp_path: Path) -> None:
    client = Client("http://127.0.0.1:9", "key")
    engine = create_engine(f"sqlite:///{tmp_path / 'app.db'}")
    of_sqlalchemy: Any = SendOutbox(SqlalchemyStore(engine), client)
    of_sqlite: Any = SendOutbox(SqliteStore(tmp_path / "app.db"), client)

    with pytest.raises(ConfigError, match=WRONG.format("Engine", "SqlalchemyStore")):
        of_sqlalchemy.send(engine, "ann@example.net", **MAIL)
    with (
        engine.connect() as connection,
        pytest.raises(ConfigError, match=WRONG.format("Connection", "SqliteStore")),
    ):
        of_sqlite.send(connection, "ann@example.net", **MAIL)


async def test_an_awaited_mail_is_owed_on_a_connection_that_is_awaited() -> None:
    outbox: Any = AsyncSendOutbox(awaited_store(), AsyncClient("http://127.0.0.1:9", "key"))
    connection = await asyncio.to_thread(sqlite3.connect, ":memory:", check_same_thread=False)

    with pytest.raises(ConfigError, match=WRONG.format("Connection", "AsyncSqlalchemyStore")):
        await outbox.send(connection, "ann@example.net", **MAIL)
    connection.close()


def test_a_passage_is_no_connection_and_has_one(place: Place) -> None:
    outbox: Any = SendOutbox(store_of(place), Client("http://127.0.0.1:9", "key"))

    with pytest.raises(ConfigError, match=r"`send` was given a Passage; give it `passage\.tx`"):
        Gate(store_of(place)).run(
            ask(), lambda passage: outbox.send(passage, "ann@example.net", **MAIL)
        )


def test_who_leaves_owed_mails_is_told_of_the_outbox_that_sends_them(
    place: Place, caplog: pytest.LogCaptureFixture
) -> None:
    Outbox(store_of(place), {})._tell([SEND, "x"])

    mail, other = [record.getMessage() for record in caplog.records]
    assert mail.endswith("use SendOutbox(store, client)")
    assert other.endswith("name it: Outbox(store, {'x': function})")
