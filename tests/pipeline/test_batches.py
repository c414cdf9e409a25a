"""How a batch is filled from what waits."""

import asyncio
import itertools
from collections.abc import Iterator

import pytest

from mailonce.clock import Clock
from mailonce.core.ledger.entry import Entry
from mailonce.pipeline.record import Limits, Recorder
from mailonce.store.dialects.contract import Database
from mailonce.telemetry import Metrics
from tests.factories import make_body, make_entry, make_source


@pytest.fixture
def entries() -> Iterator[Entry]:
    source = make_source()
    return (make_entry(source, make_body(number), now_ms=0) for number in itertools.count())


def take(recorder: Recorder) -> int:
    return len(recorder._take())


def wait(recorder: Recorder, entries: Iterator[Entry], many: int) -> None:
    for entry in itertools.islice(entries, many):
        recorder.submit(entry, lambda _: None)


async def test_callers_who_come_back_at_once_are_parted_into_halves(
    database: Database, entries: Iterator[Entry]
) -> None:
    recorder = Recorder(database, Clock(), Metrics(), Limits())

    # Nobody started it, so that nothing is taken but here.
    wait(recorder, entries, 20)
    taken = [take(recorder)]
    wait(recorder, entries, 44)
    for _ in range(4):
        taken.append(take(recorder))
        # The callers of the batch before hear, and come back.
        wait(recorder, entries, taken[-2])

    assert taken == [20, 32, 32, 32, 32]


async def test_what_comes_while_nothing_is_under_way_is_taken_whole(
    database: Database, entries: Iterator[Entry]
) -> None:
    recorder = Recorder(database, Clock(), Metrics(), Limits())
    wait(recorder, entries, 3)
    assert [take(recorder), take(recorder)] == [3, 0]

    wait(recorder, entries, 64)

    assert take(recorder) == 64


async def test_a_batch_is_bounded(database: Database, entries: Iterator[Entry]) -> None:
    recorder = Recorder(database, Clock(), Metrics(), Limits(batch_events_max=10))

    wait(recorder, entries, 25)

    assert [take(recorder) for _ in range(5)] == [10, 10, 5, 0, 0]


async def test_what_clients_are_sending_at_this_moment_joins_the_batch(
    database: Database, entries: Iterator[Entry]
) -> None:
    recorder = Recorder(database, Clock(), Metrics(), Limits())
    wait(recorder, entries, 20)
    take(recorder)
    wait(recorder, entries, 1)

    arriving = asyncio.create_task(arrive_in_turns(recorder, entries, 8))
    await recorder._gather()

    assert take(recorder) == 9
    await arriving


async def test_a_batch_does_not_wait_for_clients_without_end(
    database: Database, entries: Iterator[Entry]
) -> None:
    recorder = Recorder(database, Clock(), Metrics(), Limits(batch_events_max=20))
    wait(recorder, entries, 10)
    take(recorder)
    wait(recorder, entries, 1)

    arriving = asyncio.create_task(arrive_in_turns(recorder, entries, 100))
    await recorder._gather()

    # The database has half of all callers, the others come back meanwhile.
    assert 10 <= recorder.queued_events <= 11
    await arriving


async def arrive_in_turns(recorder: Recorder, entries: Iterator[Entry], many: int) -> None:
    for _ in range(many):
        wait(recorder, entries, 1)
        await asyncio.sleep(0)
