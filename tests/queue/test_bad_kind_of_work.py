"""A kind of work that goes wrong in its own way costs its own attempts, and nobody else's slots."""

import asyncio
from dataclasses import replace

import pytest_asyncio

from mailonce.core.work.job import AttemptOutcome, LeasedJob
from mailonce.core.work.states import State
from mailonce.queue.work import LaneSettings
from tests.queue.conftest import Works
from tests.queue.test_add_a_kind_of_work import RULE, Desk, Reminders


@pytest_asyncio.fixture
async def desk(works: Works) -> Desk:
    return await Desk(works).open()


class Hanging(Reminders):
    """Never ends one of its pieces, unless somebody ends it."""

    async def run(self, lane: LaneSettings, job: LeasedJob) -> AttemptOutcome | None:
        outcome = await super().run(lane, job)
        if job.body == b"hangs":
            await asyncio.Event().wait()
        return outcome


class Unswitchable(Reminders):
    """Has a mistake where lanes are switched off."""

    async def switch_off(self, lane: str, reason: str) -> None:
        raise RuntimeError(f"{lane} cannot be switched off: {reason}")


async def test_an_attempt_that_never_ends_gives_its_slot_back_after_its_lease(desk: Desk) -> None:
    reminders = Hanging(desk.database)
    reminders.people["ada"] = replace(RULE, concurrency=1, timeout_s=0.1)
    await desk.works.start(more=[reminders], lease_s=0.3, drain_s=0.1, lost_leases_max=2)

    await desk.owe(["hangs"])
    await desk.works.until(lambda: reminders.ran)
    await desk.owe(["tea"])
    await desk.until_ended()

    rows = await desk.rows()
    assert (rows["tea"]["state"], rows["tea"]["attempts"]) == (State.DONE, 1)
    assert (rows["hangs"]["state"], rows["hangs"]["attempts"]) == (State.DEAD, 2)


async def test_an_error_as_a_lane_is_switched_off_ends_the_attempt(desk: Desk) -> None:
    reminders = Unswitchable(desk.database)
    reminders.answers = lambda _text, attempt: AttemptOutcome(status=410 if attempt == 1 else 200)
    await desk.works.start(more=[reminders], concurrency=1, lease_s=60.0)

    await desk.owe(["one", "two"])
    await desk.until_ended()
