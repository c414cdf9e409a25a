"""Whom the guard of a SQLAlchemy engine stops: the handler that it is for, and nobody else."""

import threading
from collections.abc import Iterator
from contextlib import suppress
from pathlib import Path
from typing import Any

import pytest
from sqlalchemy import Engine, create_engine, text
from sqlalchemy.orm import Session, sessionmaker

from mailonce.errors import ConfigError
from mailonce.gate import Gate, Outcome, Passage, Policy, Request, Response
from mailonce.gate.stores.sqlalchemy import SqlalchemyStore
from tests.gate.gates import DONE, ask
from tests.gate.places import ORDER, Place, sqlite_place
from tests.gate.rigs.web import sqlalchemy_url
from tests.servers import wait_for

Sessions = Gate[Session]


@pytest.fixture
def engine(place: Place) -> Iterator[Engine]:
    engine = create_engine(
        sqlalchemy_url(place, drivers=("pysqlite", "psycopg")), pool_size=2, max_overflow=0
    )
    yield engine
    engine.dispose()


def gate_of(engine: Engine, policy: Policy | None = None, **choices: Any) -> Sessions:
    store: SqlalchemyStore[Session] = SqlalchemyStore(sessionmaker(engine, **choices))
    return Gate(store, policy)


def order(passage: Passage[Session]) -> Response:
    passage.tx.execute(text(ORDER))
    return DONE


def order_apart(engine: Engine) -> None:
    with engine.begin() as connection:
        connection.execute(text(ORDER))


@pytest.mark.parametrize("ending", [Session.close, Session.rollback])
def test_a_connection_that_a_handler_gave_back_serves_others_meanwhile(
    place: Place, engine: Engine, ending: Any
) -> None:
    gate = gate_of(engine)

    def others() -> None:
        # One after the other, so that the pool lends the connection that was given back.
        order_apart(engine)
        order_apart(engine)

    def work(passage: Passage[Session]) -> Response:
        ending(passage.tx)
        # A thread has a context of its own, as another request has.
        other = threading.Thread(target=others)
        other.start()
        other.join()
        return DONE

    with pytest.raises(ConfigError):
        gate.run(ask(), work)
    assert (place.orders(), place.records()) == (2, 0)


def test_a_handler_that_used_another_gate_is_still_guarded(
    postgres_place: Place, tmp_path: Path
) -> None:
    postgres_place.empty()
    engine = create_engine(sqlalchemy_url(postgres_place, drivers=("", "psycopg")))
    elsewhere = create_engine(f"sqlite:///{sqlite_place(tmp_path).url}")
    gate, other = gate_of(engine), gate_of(elsewhere)

    def work(passage: Passage[Session]) -> Response:
        order(passage)
        assert gate.run(ask("inner"), order).outcome is Outcome.FIRST
        assert other.run(ask("other"), order).outcome is Outcome.FIRST
        order_apart(engine)
        return DONE

    with pytest.raises(ConfigError, match="another connection"):
        gate.run(ask(), work)
    assert (postgres_place.orders(), postgres_place.records()) == (1, 1)
    engine.dispose()
    elsewhere.dispose()


def test_another_engine_commits_whether_or_not_it_has_a_gate(
    place: Place, engine: Engine, tmp_path: Path
) -> None:
    (tmp_path / "other").mkdir()
    reports = sqlite_place(tmp_path / "other")
    elsewhere = create_engine(f"sqlite:///{reports.url}")
    gate_of(elsewhere)
    gate = gate_of(engine)

    def work(passage: Passage[Session]) -> Response:
        order_apart(elsewhere)
        return order(passage)

    assert gate.run(ask(), work).outcome is Outcome.FIRST
    assert (place.orders(), reports.orders()) == (1, 1)
    elsewhere.dispose()


def test_without_a_key_a_refused_commit_leaves_nothing_either(place: Place, engine: Engine) -> None:
    gate = gate_of(engine, Policy(key_required=False))
    # A pool with two connections lends the other one next.
    for connection in [engine.connect(), engine.connect()]:
        connection.close()

    def work(passage: Passage[Session]) -> Response:
        order(passage)
        with suppress(ConfigError):
            passage.tx.commit()
        passage.tx.rollback()
        return order(passage)

    with pytest.raises(ConfigError, match="remove"):
        gate.run(Request(headers=(), body=b"{}"), work)
    assert place.orders() == 0


def test_a_connection_that_closed_beneath_the_gate_is_an_unavailable_store(
    place: Place, engine: Engine
) -> None:
    gate = gate_of(engine)

    def work(passage: Passage[Session]) -> Response:
        order(passage)
        driver: Any = passage.tx.connection().connection.driver_connection
        driver.close()
        return DONE

    assert gate.run(ask(), work).outcome is Outcome.UNAVAILABLE
    # PostgreSQL sees a moment later that its client is gone; until then the key is running.
    wait_for(lambda: gate.run(ask(), order).outcome is Outcome.FIRST, what="the backend's end")
    assert gate.run(ask(), order).outcome is Outcome.REPLAYED
    assert place.orders() == 1


def test_sessions_that_do_not_begin_by_themselves_are_begun(place: Place, engine: Engine) -> None:
    gate = gate_of(engine, autobegin=False)

    assert [gate.run(ask(), order).outcome for _ in range(2)] == [Outcome.FIRST, Outcome.REPLAYED]
    assert place.orders() == 1
