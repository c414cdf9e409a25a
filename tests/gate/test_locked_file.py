"""A handler that writes to the SQLite file beside the gate is told who holds the lock."""

import sqlite3
from pathlib import Path
from typing import Any

import pytest
from sqlalchemy import create_engine, text
from sqlalchemy.ext.asyncio import async_sessionmaker, create_async_engine
from sqlalchemy.orm import sessionmaker

from mailonce.errors import ConfigError
from mailonce.gate import AsyncGate, AsyncPassage, Gate, Outcome, Passage, Response
from mailonce.gate.stores.sqlalchemy import AsyncSqlalchemyStore, SqlalchemyStore
from mailonce.gate.stores.sqlite import SqliteStore
from tests.gate.gates import DONE, ask
from tests.gate.places import ORDER, sqlite_place

NO_WAIT = {"timeout": 0}
REMEDY = "another connection to the SQLite file.*write through `passage.tx`"


def test_a_second_session_in_a_handler_is_refused_in_our_words(tmp_path: Path) -> None:
    place = sqlite_place(tmp_path)
    sessions = sessionmaker(create_engine(f"sqlite:///{place.url}", connect_args=NO_WAIT))

    def work(_: Passage[Any]) -> Response:
        with sessions() as other:
            other.execute(text(ORDER))
        return DONE

    with pytest.raises(ConfigError, match=REMEDY):
        Gate(SqlalchemyStore(sessions)).run(ask(), work)

    assert (place.orders(), place.records()) == (0, 0)


async def test_a_second_async_session_in_a_handler_is_refused_in_our_words(tmp_path: Path) -> None:
    place = sqlite_place(tmp_path)
    engine = create_async_engine(f"sqlite+aiosqlite:///{place.url}", connect_args=NO_WAIT)
    sessions = async_sessionmaker(engine)

    async def work(_: AsyncPassage[Any]) -> Response:
        async with sessions() as other:
            await other.execute(text(ORDER))
        return DONE

    with pytest.raises(ConfigError, match=REMEDY):
        await AsyncGate(AsyncSqlalchemyStore(sessions)).run(ask(), work)

    assert (place.orders(), place.records()) == (0, 0)
    await engine.dispose()


def test_a_connection_of_the_handlers_own_is_explained_in_the_log(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    place = sqlite_place(tmp_path)

    def work(_: Passage[Any]) -> Response:
        other = sqlite3.connect(place.url, timeout=0)
        try:
            other.execute(ORDER)
        finally:
            other.close()
        return DONE

    with pytest.raises(sqlite3.OperationalError, match="database is locked"):
        Gate(SqliteStore(place.url)).run(ask(), work)

    assert "write through `passage.tx`" in caplog.text


def test_a_lock_that_another_process_holds_is_no_fault_of_the_handler(tmp_path: Path) -> None:
    place = sqlite_place(tmp_path)
    engine = create_engine(f"sqlite:///{place.url}", connect_args=NO_WAIT)
    other = sqlite3.connect(place.url, isolation_level=None)
    other.execute("BEGIN IMMEDIATE")

    answer = Gate(SqlalchemyStore(engine)).run(ask(), lambda _: DONE)

    other.close()
    assert answer.outcome is Outcome.UNAVAILABLE
