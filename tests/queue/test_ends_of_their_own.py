"""Work that writes its ends itself: a lane goes on while they are written, within bounds."""

import asyncio
from collections.abc import Callable
from dataclasses import replace

import pytest_asyncio

from mailonce.core.work.job import AttemptOutcome, End, LeasedJob
from mailonce.core.work.lifecycle import finish
from mailonce.core.work.states import State
from mailonce.queue.work import EndLater, LaneSettings, RunResult
from tests.queue.conftest import Works
from tests.queue.test_add_a_kind_of_work import RULE, Desk, Reminders

OWN = AttemptOutcome(status=200, end="own")


class Unhurried(Reminders):
    """Ends its pieces when a test says so; what `bob` is owed it ends at once."""

    def __init__(self, desk: Desk) -> None:
        super().__init__(desk.database)
        self._desk = desk
        self.people["ada"] = replace(RULE, concurrency=1)
        self.open: dict[str, tuple[LeasedJob, asyncio.Future[None]]] = {}
        self.most = 0
        self.after: Callable[[None], AttemptOutcome] = lambda _: OWN

    async def run(self, lane: LaneSettings, job: LeasedJob) -> RunResult:  # type: ignore[override]
        outcome = await super().run(lane, job)
        if lane.subject.startswith("bob"):
            return outcome
        assert job.body is not None
        written: asyncio.Future[None] = asyncio.get_running_loop().create_future()
        self.open[job.body.decode()] = job, written
        self.most = max(self.most, len(self.open))
        return EndLater(OWN, written, self.after)

    async def until_ran(self, many: int) -> None:
        await self._desk.works.until(lambda: len(self.ran) >= many)

    async def write_all(self) -> None:
        for text in [*self.open]:
            await self.write(text)

    async def write(self, text: str) -> None:
        job, written = self.open.pop(text)
        await self.leases.finish([finish(job.key, job.token, End.DONE)])
        written.set_result(None)


@pytest_asyncio.fixture
async def desk(works: Works) -> Desk:
    return await Desk(works).open()


async def test_a_lane_goes_on_while_as_many_ends_are_written_as_it_has_attempts(desk: Desk) -> None:
    reminders = Unhurried(desk)
    await desk.works.start(more=[reminders], lease_s=60.0)

    await desk.owe(["one", "two", "three", "four"])
    await desk.works.until(lambda: len(reminders.open) == 2)
    # Whoever leases for one lane leases for all that have room.
    await desk.owe(["tea"], person="bob")
    await desk.works.until(lambda: ("bob@example.com", "tea", 1) in reminders.ran)
    assert len(reminders.open) == 2

    while len(reminders.ran) < 5:
        many = len(reminders.ran)
        await reminders.write_all()
        await reminders.until_ran(many + 1)
    await reminders.write_all()
    await desk.until_ended()

    assert {row["attempts"] for row in (await desk.rows()).values()} == {1}


async def test_ends_that_are_not_written_take_the_slots_of_their_process(desk: Desk) -> None:
    reminders = Unhurried(desk)
    reminders.people["ada"] = replace(RULE, concurrency=8)
    await desk.works.start(more=[reminders], lease_s=60.0, concurrency=2)

    await desk.owe([f"number {number}" for number in range(8)])
    for written in range(5):
        # Its lane has slots of its own: as many again.
        await reminders.until_ran(written + 3)
        await reminders.write(next(iter(reminders.open)))

    assert reminders.most <= 4
    await reminders.until_ran(8)
    await reminders.write_all()


async def test_a_worker_that_stops_waits_for_the_ends_of_what_it_ran(desk: Desk) -> None:
    reminders = Unhurried(desk)
    worker = await desk.works.start(more=[reminders], lease_s=60.0, drain_s=60.0)
    await desk.owe(["one"])
    await desk.works.until(lambda: reminders.open)

    async def write_at_last() -> None:
        for _ in range(50):
            await desk.database.head()
        await reminders.write("one")

    writing = asyncio.create_task(write_at_last())
    await worker.stop()

    assert (await desk.rows())["one"]["state"] == State.DONE
    await writing


async def test_an_end_that_is_lost_gives_its_slot_back(desk: Desk) -> None:
    reminders = Unhurried(desk)
    await desk.works.start(more=[reminders], lease_s=60.0, concurrency=1)
    await desk.owe(["one", "two", "three"])

    for text in ("one", "two"):
        await reminders.until_ran(1 if text == "one" else 2)
        _, written = reminders.open.pop(text)
        if text == "one":
            written.set_exception(RuntimeError("a mistake of its kind"))
        else:
            written.cancel()

    await desk.works.until(lambda: "three" in reminders.open)
    await reminders.write("three")


async def test_a_mistake_after_an_end_was_written_gives_its_slot_back(desk: Desk) -> None:
    reminders = Unhurried(desk)

    def fail(_: None) -> AttemptOutcome:
        raise RuntimeError("a mistake of its kind")

    reminders.after = fail
    await desk.works.start(more=[reminders], lease_s=60.0, concurrency=1)
    await desk.owe(["one", "two", "three", "four"])

    for many in range(1, 5):
        await reminders.until_ran(many)
        await reminders.write_all()

    await desk.until_ended()
