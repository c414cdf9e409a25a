"""A handler's rows and "done" become true together, once, whoever else holds the lease."""

import asyncio
import re
import threading
import time
from collections.abc import Callable
from functools import partial
from pathlib import Path
from typing import Any

import asyncpg
import orjson
import pytest
from sqlalchemy import insert, select, text, update

from mailonce import Handlers, Permanent
from mailonce.clock import Clock
from mailonce.core.work.job import AttemptOutcome, LeasedJob, LeaseRequest
from mailonce.core.work.response_outcome import GiveUp, RetryIn, judge
from mailonce.core.work.states import AttemptKind, State
from mailonce.errors import ConfigError
from mailonce.handlers import load_handlers
from mailonce.pipeline.run_handler import LEASE_LOST, handle
from mailonce.store.dialects.contract import Database, Tx
from mailonce.store.schema.tables import ATTEMPTS, DELIVERIES, LANES
from mailonce.store.work import rows
from tests.pipeline.crash_once import patient
from tests.stopwatch import Stopwatch

KEY = bytes(range(32))
EVENT = {"schema": "mailonce.event/1", "key": "aa", "type": "bounced", "recipient": "a@b.example"}
OWNER = b"worker-of-the-test"
# Generous, for a busy machine; the one test about slowness has its own.
LIMIT_S = 5.0
LOADED = Handlers()

Note = Callable[[dict[str, Any], Tx], object]


def note(event: dict[str, Any], tx: Tx) -> None:
    tx.execute(text("INSERT INTO notes VALUES (:word)"), {"word": event["recipient"]})


class Bench:
    """A delivery that is owed to one handler, and ways to lease it and look at it."""

    def __init__(self, database: Database, function: Any, **options: Any) -> None:
        self.database = database
        self.handlers = Handlers()
        self.handlers.on("bounced", name="crm", **{"limit_s": LIMIT_S, **options})(function)
        (self.handler,) = self.handlers
        self.route = self.handler.route

    async def owe(self) -> "Bench":
        def work(tx: Tx) -> None:
            tx.execute(text("CREATE TABLE notes (word text NOT NULL)"))
            lane = {"route": self.route.id, "owner": b"", "until_ms": 0}
            tx.execute(insert(LANES), {**lane, "seq": 0, "acknowledged": 0})
            tx.execute(insert(DELIVERIES), self._row())

        await self.database.write(work)
        return self

    async def lease(self) -> LeasedJob:
        owed = self.database.deliveries
        assert await self.database.lanes.hold([self.route.id], owner=OWNER, hold_ms=60_000)
        lanes = (AttemptKind.FIRST, AttemptKind.RETRY, AttemptKind.REDELIVERY)
        (job,) = await owed.lease([LeaseRequest(self.route.id, 1, 60_000, lanes)], owner=OWNER)
        return job

    async def handle(self, job: LeasedJob) -> AttemptOutcome | None:
        with patient():
            return await handle(self.database, Clock(), self.handlers, self.route, job)

    async def run(self) -> AttemptOutcome | None:
        return await self.handle(await self.lease())

    async def give_away(self) -> None:
        """End the lease as if it had run out; the next one has another token."""
        values = {"state": State.DUE, "lease_ms": None}
        await self.database.write(
            lambda tx: tx.execute(update(DELIVERIES).values(**values)) and None
        )

    async def notes(self) -> int:
        return await self.database.read(
            lambda tx: tx.execute(text("SELECT count(*) FROM notes")).scalar_one()
        )

    async def state(self) -> State:
        return State(
            await self.database.read(lambda tx: tx.execute(select(DELIVERIES.c.state)).scalar_one())
        )

    async def attempts(self) -> int:
        return len(await self.database.read(lambda tx: tx.execute(select(ATTEMPTS)).all()))

    def _row(self) -> dict[str, Any]:
        return {
            "key": KEY, "workspace": "default", "route": self.route.id, "event": bytes(16),
            "day": 0, "body": orjson.dumps(EVENT), "state": State.DUE, "lane": AttemptKind.FIRST,
            "due_ms": 0, "deadline_ms": 1 << 50, "made_ms": 0, "attempts": 0, "round_began": 0,
            "redeliveries": 0, "again": False, "token": 0,
        }  # fmt: skip


async def test_rows_and_done_commit_together(database: Database) -> None:
    bench = await Bench(database, note).owe()

    outcome = await bench.run()

    assert outcome is None
    assert (await bench.notes(), await bench.state(), await bench.attempts()) == (1, State.DONE, 1)


async def test_a_handler_that_raises_keeps_neither_and_is_tried_again(database: Database) -> None:
    def broken(event: dict[str, Any], tx: Tx) -> None:
        note(event, tx)
        raise LookupError("no such customer")

    bench = await Bench(database, broken).owe()
    outcome = await bench.run()

    assert outcome == AttemptOutcome(error="LookupError: no such customer")
    assert (await bench.notes(), await bench.state()) == (0, State.LEASED)
    assert isinstance(judge(outcome, bench.route.rule, step=1, left_ms=10**9, dice=0), RetryIn)


async def test_permanent_is_a_dead_letter_at_once(database: Database) -> None:
    def hopeless(event: dict[str, Any], tx: Tx) -> None:
        note(event, tx)
        raise Permanent("an address of ours")

    bench = await Bench(database, hopeless).owe()
    outcome = await bench.run()

    assert outcome is not None
    assert outcome.error == "Permanent: an address of ours"
    assert judge(outcome, bench.route.rule, step=1, left_ms=10**9, dice=0) == GiveUp("permanent")
    assert await bench.notes() == 0


async def test_a_stale_worker_changes_nothing_and_does_not_even_run(database: Database) -> None:
    runs: list[str] = []

    def counted(event: dict[str, Any], tx: Tx) -> None:
        runs.append(event["key"])
        note(event, tx)

    bench = await Bench(database, counted).owe()
    stale = await bench.lease()
    await bench.give_away()
    fresh = await bench.lease()

    late = await bench.handle(stale)
    assert late == AttemptOutcome(error=LEASE_LOST)
    assert (await bench.notes(), await bench.state(), runs) == (0, State.LEASED, [])
    assert await bench.handle(fresh) is None
    assert await bench.handle(stale) == AttemptOutcome(error=LEASE_LOST)
    assert (await bench.notes(), await bench.state(), len(runs)) == (1, State.DONE, 1)


async def test_a_twin_that_completes_behind_the_handler_is_caught(database: Database) -> None:
    """What most libraries do: run the code, commit, then say that it is done."""

    async def twin(job: LeasedJob) -> bool:
        with patient():
            await database.run_handler(lambda tx: note(EVENT, tx), limit_s=LIMIT_S)
        return await database.write(lambda tx: rows.complete(tx, job, now_ms=1))

    bench = await Bench(database, note).owe()
    stale = await bench.lease()
    await bench.give_away()
    fresh = await bench.lease()

    assert [await twin(job) for job in (stale, fresh)] == [False, True]
    assert await bench.notes() == 2, "the stale one left its row"


async def test_an_error_of_the_database_that_is_swallowed_does_not_pass_for_done(
    database: Database,
) -> None:
    def careless(event: dict[str, Any], tx: Tx) -> None:
        note(event, tx)
        try:
            tx.execute(text("INSERT INTO notes VALUES (NULL)"))
        except Exception:
            return

    bench = await Bench(database, careless).owe()
    outcome = await bench.run()

    # SQLite undoes the one statement; PostgreSQL undoes all, and must not be believed to commit.
    done = outcome is None
    assert done is (database.name == "sqlite")
    assert (await bench.notes() == 1, await bench.state() is State.DONE) == (done, done)


async def test_one_that_takes_too_long_is_undone(database: Database) -> None:
    def sleepy(event: dict[str, Any], tx: Tx) -> None:
        note(event, tx)
        time.sleep(0.35)

    bench = await Bench(database, sleepy, limit_s=0.2).owe()
    outcome = await bench.run()

    assert outcome is not None
    assert "longer than 0.2 s" in (outcome.error or "") or "idle" in (outcome.error or "")
    assert (await bench.notes(), await bench.state()) == (0, State.LEASED)


async def test_a_statement_that_runs_for_ever_is_cut_short(database: Database) -> None:
    endless = (
        "WITH RECURSIVE n (x) AS (SELECT 1 UNION ALL SELECT x + 1 FROM n) SELECT max(x) FROM n"
    )

    def stuck(event: dict[str, Any], tx: Tx) -> None:
        note(event, tx)
        tx.execute(text(endless))

    bench = await Bench(database, stuck, limit_s=0.2).owe()
    with Stopwatch() as watch:
        outcome = await asyncio.wait_for(bench.run(), 60)

    assert outcome is not None
    if database.name == "sqlite":
        assert outcome.error == "SlowError: it took longer than 0.2 s; SQLite has one writer"
    assert watch.seconds < 5
    assert (await bench.notes(), await bench.state()) == (0, State.LEASED)
    # The next one is not cut short by what was left of it.
    await bench.give_away()
    after = Bench(database, note)
    bench.handlers, bench.route = after.handlers, after.route
    assert await bench.run() is None


async def test_a_coroutine_runs_without_a_transaction_and_is_done_behind_it(
    database: Database,
) -> None:
    seen: list[dict[str, Any]] = []

    async def tell(event: dict[str, Any]) -> None:
        await asyncio.sleep(0)
        seen.append(event)
        if len(seen) == 1:
            raise ConnectionError("the other side is away")

    bench = await Bench(database, tell).owe()
    first = await bench.run()
    await bench.give_away()
    second = await bench.run()

    assert first == AttemptOutcome(error="ConnectionError: the other side is away")
    assert second is None
    assert [event["key"] for event in seen] == ["aa", "aa"]
    assert await bench.state() is State.DONE


async def test_a_coroutine_has_a_time_limit_too(database: Database) -> None:
    async def hang(event: dict[str, Any]) -> None:
        await asyncio.sleep(30 + len(event))

    bench = await Bench(database, hang, limit_s=0.3).owe()
    outcome = await bench.run()

    assert outcome == AttemptOutcome(error="TimeoutError")
    assert await bench.state() is State.LEASED


@pytest.mark.parametrize("database_url", ["postgresql"], indirect=True)
async def test_one_that_blocks_keeps_neither_the_loop_nor_its_neighbours_waiting(
    database: Database, database_url: str
) -> None:
    begun, released = threading.Event(), threading.Event()

    def blocking(event: dict[str, Any], tx: Tx) -> None:
        note(event, tx)
        begun.set()
        assert released.wait(60)

    bench = await Bench(database, blocking, limit_s=30).owe()
    job = await bench.lease()
    running = asyncio.create_task(bench.handle(job))
    assert await asyncio.to_thread(begun.wait, 60)

    # It goes on only when it is released: whoever waited for it would wait in vain.
    await database.head()
    assert not running.done()
    # Meanwhile nobody can take the lease away: the row is held until it is done.
    connection = await asyncpg.connect(database_url, server_settings={"lock_timeout": "100ms"})
    with pytest.raises(asyncpg.LockNotAvailableError):
        await connection.execute("UPDATE deliveries SET state = 0")
    await connection.close()
    released.set()
    assert await running is None
    assert await bench.state() is State.DONE


def test_what_cannot_be_a_handler_is_refused_when_it_is_registered() -> None:
    handlers = Handlers()
    handlers.on(name="one")(note)

    async def with_transaction(event: dict[str, Any], tx: Tx) -> None:
        del event, tx

    def without(event: dict[str, Any]) -> None:
        del event

    for options, function, word in (
        ({"name": "one"}, note, "two handlers"),
        ({"name": "a/b"}, note, "`name`"),
        ({"limit_s": 0}, note, "limit_s"),
        ({"limit_s": 60}, note, "limit_s"),
        ({}, with_transaction, "async def with_transaction(event)"),
        ({}, without, "def without(event, tx)"),
    ):
        with pytest.raises(ConfigError) as caught:
            handlers.on("bounced", **options)(function)
        assert word in str(caught.value)
    assert len(handlers) == 1


class Lazy:
    def __call__(self, event: dict[str, Any], tx: Tx) -> Any:
        note(event, tx)
        yield


def test_a_generator_is_refused_when_it_is_registered() -> None:
    def marks(event: dict[str, Any], tx: Tx) -> Any:
        note(event, tx)
        yield

    async def tells(event: dict[str, Any]) -> Any:
        yield event

    handlers = Handlers()
    functions: dict[str, Any] = {"a": marks, "b": tells, "c": partial(marks), "d": Lazy()}
    for name, function in functions.items():
        with pytest.raises(ConfigError, match=f"handler '{name}' is a generator.* without `yield`"):
            handlers.on(name=name)(function)
    assert len(handlers) == 0


async def test_one_that_gives_what_has_not_run_is_not_done(database: Database) -> None:
    def lazy(event: dict[str, Any], tx: Tx) -> Any:
        note(event, tx)
        return (one for one in [event])

    outcome = await (bench := await Bench(database, lazy).owe()).run()

    assert outcome is not None
    assert outcome.error == (
        "ConfigError: the handler gave a generator, of which nothing has run: "
        "go through it in the handler"
    )
    assert await bench.notes() == 0


@pytest.mark.filterwarnings("error")
async def test_one_that_gives_what_nobody_awaits_is_not_done(
    database: Database, subtests: pytest.Subtests
) -> None:
    async def tell(event: dict[str, Any]) -> None:
        raise AssertionError(event)

    async def tells(event: dict[str, Any]) -> Any:
        return tell(event)

    bench = await Bench(database, lambda event, _tx: tell(event)).owe()
    for name, handlers in {"plain": bench.handlers, "async": Handlers()}.items():
        with subtests.test(name):
            if name == "async":
                handlers.on("bounced", name="crm")(tells)
                bench.handlers = handlers
                await bench.give_away()

            outcome = await bench.run()

            assert outcome is not None
            assert outcome.error is not None
            assert "a coroutine or task, which nobody awaits: write `async def`" in outcome.error
            assert not outcome.final


async def test_a_cancellation_that_nobody_asked_for_and_an_exit_are_failures(
    database: Database,
) -> None:
    def cancels(event: dict[str, Any], tx: Tx) -> None:
        note(event, tx)
        raise asyncio.CancelledError

    def leaves(event: dict[str, Any], tx: Tx) -> None:
        note(event, tx)
        raise SystemExit(2)

    async def awaits_what_is_cancelled(event: dict[str, Any]) -> None:
        del event
        inner = asyncio.create_task(asyncio.sleep(0))
        inner.cancel()
        await inner

    async def exits(event: dict[str, Any]) -> None:
        del event
        raise SystemExit(3)

    bench = await Bench(database, cancels).owe()
    errors = []
    for function in (cancels, awaits_what_is_cancelled, leaves, exits):
        bench.handlers = Handlers()
        bench.handlers.on("bounced", name="crm")(function)
        outcome = await bench.run()
        errors.append(outcome and outcome.error)
        await bench.give_away()

    cancelled = "HandlerError: the handler raised CancelledError: what it waited for was cancelled"
    exited = "HandlerError: the handler raised SystemExit: "
    assert errors == [cancelled, cancelled, f"{exited}2", f"{exited}3"]
    assert await bench.notes() == 0


async def test_a_worker_that_stops_still_cancels_its_handlers(database: Database) -> None:
    runs = asyncio.Event()

    async def waits(event: dict[str, Any]) -> None:
        del event
        runs.set()
        await asyncio.Event().wait()

    bench = await Bench(database, waits).owe()
    running = asyncio.create_task(bench.run())
    await runs.wait()

    running.cancel()

    with pytest.raises(asyncio.CancelledError):
        await running


def test_on_without_parentheses_is_refused() -> None:
    handlers = Handlers()
    on: Any = handlers.on

    with pytest.raises(ConfigError, match=r"`on` was given a function; write `@handlers.on\(\)`"):
        on(note)
    assert len(handlers) == 0


def test_a_handler_keeps_its_id_over_restarts_and_has_the_filters_of_a_route() -> None:
    first, second = Handlers(), Handlers()
    for handlers in (first, second):
        handlers.on("bounced", domains=["example.com"], tags=["vip"])(note)
    (one,), (other,) = first, second

    assert one.route == other.route
    assert one.route.id.startswith("rte_")
    assert (one.route.name, one.route.events) == ("note", ("bounced",))
    assert one.route.domains == ("example.com",)


async def test_the_example_of_the_documentation_works(database: Database) -> None:
    page = (Path(__file__).parents[2] / "docs" / "handlers.md").read_text()
    code = re.search(r"```python\n(.*?)```", page, re.DOTALL)
    assert code is not None
    names: dict[str, Any] = {}
    exec(code.group(1), names)
    example: Handlers = names["handlers"]
    table = "CREATE TABLE crm_marks (address text, why text)"
    await database.write(lambda tx: tx.execute(text(table)) and None)
    bench = await Bench(database, note).owe()
    # The bench owes to a handler `crm`, which is what the example calls its own.
    bench.handlers = example

    assert await bench.run() is None

    marks = await database.read(lambda tx: tx.execute(text("SELECT * FROM crm_marks")).all())
    assert [tuple(row) for row in marks] == [("a@b.example", "bounced")]
    assert [one.route.name for one in example] == ["crm", "tell"]


def test_an_app_that_cannot_be_loaded_is_one_sentence() -> None:
    assert load_handlers("tests.pipeline.test_handle:LOADED") is LOADED
    for app, word in (
        ("no.such.module:handlers", "cannot be imported (ModuleNotFoundError"),
        ("tests.pipeline.test_handle", "no Handlers object of that name"),
        ("tests.pipeline.test_handle:KEY", "no Handlers object of that name"),
        (":handlers", "cannot be imported (ValueError"),
    ):
        with pytest.raises(ConfigError) as caught:
            load_handlers(app)
        assert word in str(caught.value)
