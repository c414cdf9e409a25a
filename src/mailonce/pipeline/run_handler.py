"""Handle: run the user's own code for one delivery, in the transaction that completes it."""

import asyncio
import traceback

import orjson

from mailonce.clock import Clock
from mailonce.core.deliveries.route import Route
from mailonce.core.work.job import ERROR_CHARS_MAX, AttemptOutcome, LeasedJob
from mailonce.handlers import (
    AtLeastOnce,
    HandledEvent,
    Handlers,
    InTransaction,
    Permanent,
    check_result,
)
from mailonce.store.dialects.contract import Database, Tx
from mailonce.store.work import rows
from mailonce.telemetry import HANDLER_FAILED, log

CANCELLED = "the handler raised CancelledError: what it waited for was cancelled"
LEASE_LOST = "another worker has the lease; nothing was done"


class HandlerError(Exception):
    """A handler raised what would stop more than its own run."""


async def handle(
    database: Database, clock: Clock, handlers: Handlers, route: Route, job: LeasedJob
) -> AttemptOutcome | None:
    """Run the handler of a route for one delivery; None where it is done and committed.

    Invariant: what a handler writes with its transaction and that the delivery is done commit
    together. A crash before the commit keeps neither, and the lease runs out; a crash after it
    keeps both, so it is not run again. A coroutine has no transaction: a crash between its end
    and the commit runs it again, with the same key.
    """
    handler = handlers.find(route.id)
    assert handler is not None, f"route {route.id} is no handler of this process"
    assert job.body is not None, "a job without a body is not run"
    event = orjson.loads(job.body)
    try:
        if handler.in_transaction is not None:
            done = await _in_transaction(database, clock, handler.in_transaction, route, job, event)
        else:
            assert handler.at_least_once is not None, "a handler has one of two functions"
            done = await _at_least_once(database, clock, handler.at_least_once, route, job, event)
    except Permanent as error:
        _log(route, job, event, error)
        return AttemptOutcome(error=_words(error), final=True)
    except Exception as error:  # noqa: BLE001 - the user's code may raise anything
        _log(route, job, event, error)
        return AttemptOutcome(error=_words(error))
    return None if done else AttemptOutcome(error=LEASE_LOST)


async def _in_transaction(
    database: Database,
    clock: Clock,
    run: InTransaction,
    route: Route,
    job: LeasedJob,
    event: HandledEvent,
) -> bool:
    def work(tx: Tx) -> bool:
        began = clock.monotonic()
        # First: a worker that lost the lease stops here, before the user's code.
        if not rows.complete(tx, job, now_ms=clock.now_ms()):
            return False
        try:
            check_result(run(event, tx))
        except (SystemExit, asyncio.CancelledError) as error:
            # PostgreSQL's handlers run in a task, too.
            raise _failure(error) from error
        # A statement after the handler's: where it swallowed an error of the database, PostgreSQL
        # would answer the commit with a rollback and not say so.
        rows.note_latency(tx, job, latency_ms=int((clock.monotonic() - began) * 1000))
        return True

    return await database.run_handler(work, limit_s=route.timeout_s)


async def _at_least_once(
    database: Database,
    clock: Clock,
    run: AtLeastOnce,
    route: Route,
    job: LeasedJob,
    event: HandledEvent,
) -> bool:
    began = clock.monotonic()
    check_result(await asyncio.wait_for(_contained(run, event), route.timeout_s))
    latency_ms = int((clock.monotonic() - began) * 1000)
    return await database.write(
        lambda tx: rows.complete(tx, job, now_ms=clock.now_ms(), latency_ms=latency_ms)
    )


async def _contained(run: AtLeastOnce, event: HandledEvent) -> object:
    """Run a coroutine of the user's, of which a cancellation or an exit is no more than a failure.

    In a task of its own, SystemExit would end the event loop, and so the server. A cancellation
    that nobody asked for would pass for our own, after which it is tried again at once.
    """
    try:
        return await run(event)
    except SystemExit as error:
        raise _failure(error) from error
    except asyncio.CancelledError as error:
        task = asyncio.current_task()
        assert task is not None, "a coroutine is run by a task"
        if task.cancelling():
            raise
        raise _failure(error) from error


def _failure(error: SystemExit | asyncio.CancelledError) -> HandlerError:
    match error:
        case SystemExit(code=code):
            return HandlerError(f"the handler raised SystemExit: {code}")
        case _:
            return HandlerError(CANCELLED)


def _log(route: Route, job: LeasedJob, event: HandledEvent, error: BaseException) -> None:
    """Log where a handler failed; what it says may quote a mail, and is kept with the attempt."""
    id_ = event.get("id") if isinstance(event, dict) else None
    log.warning(
        HANDLER_FAILED,
        route=route.id,
        name=route.name,
        event_id=id_,
        attempt=job.attempt,
        error=type(error).__name__,
        traceback=traceback.format_tb(error.__traceback__),
    )


def _words(error: BaseException) -> str:
    """Name an error with the first line of its message; SQLAlchemy adds statements below."""
    first = str(error).partition("\n")[0]
    name = type(error).__name__
    return (f"{name}: {first}" if first else name)[:ERROR_CHARS_MAX]
