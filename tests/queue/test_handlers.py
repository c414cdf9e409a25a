"""Handlers under the worker: who runs them, how often, and what a failure costs the others."""

from dataclasses import asdict
from functools import partial
from typing import Any

import structlog
from sqlalchemy import text

from mailonce import Handlers, Permanent
from mailonce.clock import Clock
from mailonce.core.deliveries.route import RouteKind
from mailonce.core.work.breaker import BreakerRule
from mailonce.core.work.states import State
from mailonce.pipeline.run_handler import handle
from mailonce.queue.deliveries import Runner
from mailonce.store.dialects.contract import Tx
from tests.queue.conftest import Works


async def start(works: Works, handlers: Handlers, **changes: Any) -> None:
    """Start a worker that has these handlers loaded."""
    run = partial(handle, works.database, Clock(), handlers)
    runner = Runner(run, lambda route: handlers.find(route.id) is not None)
    await works.start(runners={RouteKind.HANDLER: runner}, **changes)


async def add_routes(works: Works, handlers: Handlers) -> None:
    """Make the routes of handlers, as a start does."""
    for handler in handlers:
        await works.ledger.add_route(**asdict(handler.route))


async def make_notes(works: Works) -> None:
    await works.database.write(
        lambda tx: tx.execute(text("CREATE TABLE notes (key text NOT NULL)")) and None
    )


async def test_each_event_is_handled_once_and_hopeless_ones_are_dead_letters_at_once(
    works: Works,
) -> None:
    handlers = Handlers()
    failed: set[str] = set()

    @handlers.on(name="notes", waits_s=(0.05, 0.05))
    def note(event: dict[str, Any], tx: Tx) -> None:
        tx.execute(text("INSERT INTO notes VALUES (:key)"), {"key": event["key"]})
        number = int(event["key"], 16) % 3
        if number == 0 and event["key"] not in failed:
            failed.add(event["key"])
            raise ConnectionError(event["key"])
        if number == 1:
            raise Permanent("never")

    await make_notes(works)
    await add_routes(works, handlers)
    await start(works, handlers)
    with structlog.testing.capture_logs() as logs:
        await works.owe(30)
        await works.until_ended()

    rows = await works.rows()
    done = [row for row in rows if row["state"] == State.DONE]
    letters = await works.letters()
    notes = await works.database.read(
        lambda tx: list(tx.execute(text("SELECT key FROM notes")).scalars())
    )
    assert len(notes) == len(set(notes)) == len(done)
    assert len(done) + len(letters) == 30
    assert {(one["reason"], one["attempts"]) for one in letters} == {("permanent", 1)}
    assert sum(row["attempts"] for row in rows) == 30 + len(failed)
    errors = [one for one in logs if one["event"] == "handler_failed"]
    assert len(errors) == len(failed) + len(letters)
    assert {one["name"] for one in errors} == {"notes"}
    assert all("in note" in "".join(one["traceback"]) for one in errors)
    assert not any(key in str(errors) for key in failed), "what an error says may quote a mail"


async def test_only_a_process_that_has_a_handler_loaded_takes_its_lane(works: Works) -> None:
    handlers, seen = Handlers(), []

    @handlers.on(name="tell")
    async def tell(event: dict[str, Any]) -> None:
        seen.append(event["key"])

    await add_routes(works, handlers)
    await start(works, Handlers())
    await works.owe(2)
    await works.look()
    untouched = await works.rows()
    await start(works, handlers)
    await works.until_ended()

    assert {(row["state"], row["attempts"]) for row in untouched} == {(State.DUE, 0)}
    assert len(seen) == 2


async def test_a_handler_that_works_again_closes_its_breaker(works: Works) -> None:
    handlers, runs = Handlers(), []

    @handlers.on(name="tell", waits_s=(0.05,) * 10, concurrency=1)
    async def tell(event: dict[str, Any]) -> None:
        runs.append(event["key"])
        if len(runs) <= 3:
            raise ConnectionError("the other side is away")

    await add_routes(works, handlers)
    await start(works, handlers, breaker=BreakerRule(2, 0.1))
    await works.owe(20)
    await works.until_ended()

    (handler,) = handlers
    assert len(runs) == 23
    assert works.metric("mailonce_breaker_open", route=handler.route.id) == 0
