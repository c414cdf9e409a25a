"""Somebody holds a row: those who need it wait, bounded, and nobody else does."""

import asyncio
from collections import Counter
from collections.abc import AsyncIterator, Iterable
from contextlib import asynccontextmanager

import asyncpg
import pytest

from mailonce.clock import Clock
from mailonce.core.ledger.entry import ArrivalOutcome, Entry, EntryOutcome
from mailonce.errors import UnavailableError
from mailonce.pipeline.record import Limits, Recorder
from mailonce.store.database import open_database
from mailonce.telemetry import Metrics
from tests.factories import make_body, make_entry, make_source
from tests.stopwatch import Stopwatch

# SQLite has one writer: nobody else can hold a row.
pytestmark = pytest.mark.parametrize("database_url", ["postgresql"], indirect=True)

SOURCE = make_source()
# Beyond this a caller has waited for somebody else's row; a busy machine is slow, but not so slow.
SECONDS_MAX = 6
HOLD = "SELECT 1 FROM facts WHERE message_id = 'hot' FOR UPDATE"


def hot(number: int) -> Entry:
    return _entry(f"hot-{number}", message_id="hot")


def cold(number: int) -> Entry:
    return _entry(f"cold-{number}", message_id=f"cold-{number}")


def _entry(id_: str, **fields: str) -> Entry:
    return make_entry(SOURCE, make_body(id_, **fields), now_ms=Clock().now_ms())


@asynccontextmanager
async def recording(url: str) -> AsyncIterator[Recorder]:
    database = await open_database(url)
    recorder = Recorder(database, Clock(), Metrics(), Limits())
    recorder.start()
    try:
        yield recorder
        await recorder.close()
    finally:
        await database.close()


@asynccontextmanager
async def held(url: str, statement: str) -> AsyncIterator[asyncpg.Connection]:
    """A person's transaction that holds what `statement` locks."""
    person = await asyncpg.connect(url)
    try:
        async with person.transaction():
            await person.execute(statement)
            yield person
    finally:
        await person.close()


async def post(recorder: Recorder, entries: Iterable[Entry]) -> tuple[Counter[str], float]:
    """Record all at once; give the outcomes, and how long the last one took."""

    async def one(entry: Entry) -> str:
        try:
            answer: EntryOutcome = await recorder.record(entry)
        except UnavailableError as error:
            return error.code
        return str(answer.status) if isinstance(answer, ArrivalOutcome) else "guard"

    with Stopwatch() as watch:
        done = await asyncio.gather(*(one(entry) for entry in entries))
    return Counter(done), watch.seconds


async def test_callers_of_a_held_row_wait_and_no_others_do(database_url: str) -> None:
    async with recording(database_url) as recorder:
        await recorder.record(hot(0))
        async with held(database_url, HOLD) as person:
            waiting = asyncio.create_task(post(recorder, map(hot, range(1, 129))))
            rounds = [
                await post(recorder, map(cold, range(start, start + 32))) for start in (0, 32, 64)
            ]
            connections = await person.fetchval(
                "SELECT count(*) FROM pg_stat_activity"
                " WHERE datname = current_database() AND query LIKE '%INTO facts%'"
            )
            answers, _ = await waiting

        assert [outcome for outcome, _ in rounds] == [Counter(accepted=32)] * 3
        assert max(seconds for _, seconds in rounds) < SECONDS_MAX
        # The flusher's, and those that wait.
        assert connections <= 3
        assert answers == Counter(locked=128)
        # Once the row is free, all goes through at once.
        answers, seconds = await post(recorder, map(hot, range(1, 129)))
        assert answers == Counter(accepted=128)
        assert seconds < SECONDS_MAX


async def test_a_row_that_is_let_go_in_time_costs_nobody_an_answer(database_url: str) -> None:
    async with recording(database_url) as recorder:
        await recorder.record(hot(0))
        async with held(database_url, HOLD):
            waiting = asyncio.create_task(
                post(recorder, [*map(hot, range(1, 20)), *map(cold, range(5))])
            )
            await asyncio.sleep(0.8)

        assert (await waiting)[0] == Counter(accepted=24)


async def test_a_held_table_is_answered_within_bounds(database_url: str) -> None:
    async with recording(database_url) as recorder:
        await recorder.record(hot(0))
        async with held(database_url, "LOCK TABLE facts IN ACCESS EXCLUSIVE MODE"):
            answers, seconds = await post(recorder, map(cold, range(300)))

        assert answers == Counter(locked=300)
        assert seconds < 2 * SECONDS_MAX
