"""A handler cannot end the transaction that completes its delivery, by whatever call or text."""

from collections.abc import Callable
from contextlib import nullcontext, suppress
from typing import Any

import pytest
from sqlalchemy import text
from sqlalchemy.exc import IntegrityError
from sqlalchemy.orm import Session

from mailonce.core.work.job import AttemptOutcome
from mailonce.core.work.states import State
from mailonce.store.dialects.contract import Database, Tx
from tests.pipeline.test_handle import Bench, note

INSERT = "INSERT INTO notes VALUES ('once more')"


def begin(tx: Tx) -> None:
    with tx.begin():
        tx.execute(text(INSERT))


def begin_elsewhere(tx: Tx) -> None:
    tx.rollback()
    with tx.begin():
        tx.execute(text(INSERT))


def through_driver(words: str) -> Callable[[Tx], object]:
    return lambda tx: tx.connection.cursor().execute(words)


ENDS: dict[str, Callable[[Tx], object]] = {
    "commit": lambda tx: tx.commit(),
    "rollback": lambda tx: tx.rollback(),
    "close": lambda tx: tx.close(),
    "transaction": lambda tx: tx.get_transaction().commit(),  # type: ignore[union-attr]
    "rollback, begin": begin_elsewhere,
    "text": lambda tx: tx.execute(text("COMMIT")),
    "text of the driver": lambda tx: tx.exec_driver_sql("-- done\nEND"),
    "text that rolls back": lambda tx: tx.execute(text("ROLLBACK")),
    "text that begins": lambda tx: tx.execute(text("BEGIN")),
    "commit of the pooled connection": lambda tx: tx.connection.commit(),
    "rollback of the pooled connection": lambda tx: tx.connection.rollback(),
    "close of the pooled connection": lambda tx: tx.connection.close(),
    "text of a cursor": through_driver("COMMIT"),
    "text of a cursor that rolls back": through_driver("/* all */ ROLLBACK"),
}


@pytest.mark.parametrize("swallow", [False, True])
@pytest.mark.parametrize("name", ENDS)
async def test_a_handler_that_ends_its_transaction_keeps_nothing_and_fails(
    database: Database, name: str, *, swallow: bool
) -> None:
    def meddling(event: dict[str, Any], tx: Tx) -> None:
        note(event, tx)
        with suppress(Exception) if swallow else nullcontext():
            ENDS[name](tx)
        with suppress(Exception) if swallow else nullcontext():
            note(event, tx)
        if "commit" in name:
            raise ValueError("half of it is done")

    bench = await Bench(database, meddling).owe()
    outcome = await bench.run()

    assert outcome is not None
    assert not outcome.final
    assert (outcome.error or "").startswith("ConfigError: the handler ")
    assert "remove its begin, commit, rollback or close" in (outcome.error or "")
    assert (await bench.notes(), await bench.state(), await bench.attempts()) == (
        0,
        State.LEASED,
        0,
    )
    # Whoever comes next finds the connection as it was.
    await repaired(bench)


async def test_a_handler_may_not_begin_a_transaction(database: Database) -> None:
    bench = await Bench(database, lambda _, tx: begin(tx)).owe()
    outcome = await bench.run()

    assert "remove its begin, commit" in (outcome.error or "") if outcome else False
    assert (await bench.notes(), await bench.state()) == (0, State.LEASED)
    await repaired(bench)


async def test_a_handler_that_rolls_back_and_raises_is_known_by_its_own_error(
    database: Database,
) -> None:
    def rolling(event: dict[str, Any], tx: Tx) -> None:
        note(event, tx)
        tx.rollback()
        raise LookupError("no such customer")

    bench = await Bench(database, rolling).owe()

    assert await bench.run() == AttemptOutcome(error="LookupError: no such customer")
    assert (await bench.notes(), await bench.state()) == (0, State.LEASED)
    await repaired(bench)


async def test_a_connection_that_the_handler_throws_away_is_replaced(database: Database) -> None:
    def careless(event: dict[str, Any], tx: Tx) -> None:
        note(event, tx)
        tx.invalidate()

    bench = await Bench(database, careless).owe()

    assert await bench.run() is not None
    assert (await bench.notes(), await bench.state()) == (0, State.LEASED)
    await repaired(bench)


async def test_savepoints_and_sessions_of_the_handler_are_its_own(database: Database) -> None:
    def careful(event: dict[str, Any], tx: Tx) -> None:
        note(event, tx)
        with suppress(IntegrityError), tx.begin_nested():
            note(event, tx)
            tx.execute(text("INSERT INTO notes VALUES (NULL)"))
        with tx.begin_nested():
            tx.execute(text("INSERT INTO notes VALUES ('COMMIT; ROLLBACK')"))
        tx.execute(text("SAVEPOINT mine"))
        tx.execute(text(INSERT))
        tx.execute(text("ROLLBACK TO SAVEPOINT mine"))
        with Session(tx) as session:
            session.execute(text(INSERT))
            session.commit()

    bench = await Bench(database, careful).owe()

    assert await bench.run() is None
    assert (await bench.notes(), await bench.state(), await bench.attempts()) == (3, State.DONE, 1)


async def repaired(bench: Bench) -> None:
    """Run the delivery again with a handler that does nothing wrong."""
    await bench.give_away()
    good = Bench(bench.database, note)
    bench.handlers, bench.route = good.handlers, good.route

    assert await bench.run() is None
    assert (await bench.notes(), await bench.state(), await bench.attempts()) == (1, State.DONE, 1)
