"""An attempt that asks no endpoint leaves the breaker as it was."""

from typing import Any, cast

import pytest

from mailonce.clock import Clock
from mailonce.core.deliveries.delivery import unroutable_reason
from mailonce.core.deliveries.route import Route
from mailonce.core.work.breaker import BreakerRule
from mailonce.core.work.job import LeasedJob
from mailonce.core.work.states import AttemptKind, WorkKey
from mailonce.queue.attempt import Attempts
from mailonce.queue.configuration import ConfigurationCache
from mailonce.queue.deliveries import Deliveries
from mailonce.queue.work import LaneSettings
from mailonce.queue.work_lane import WorkLane
from mailonce.telemetry import Metrics
from tests.factories import SEALER

ROUTE = Route(id="rte_1", workspace="default", name="one", url="http://x")
UNROUTABLE = b'{"schema":"mailonce.unroutable/1","route_id":"rte_1","reason":"too many steps"}'


class Nothing:
    """A database of which nothing is asked: ends are only collected."""

    deliveries = None


@pytest.mark.parametrize("body", [None, UNROUTABLE], ids=["forgotten", "unroutable"])
async def test_a_probe_with_nothing_to_send_lets_the_next_one_through(body: bytes | None) -> None:
    assert body is None or unroutable_reason(body) is not None
    clock, metrics = Clock(), Metrics()
    database = cast("Any", Nothing())
    work = Deliveries(database, clock, ConfigurationCache(database, clock, SEALER, metrics), {})
    settings = LaneSettings("default", ROUTE.rule, ROUTE)
    breaker = BreakerRule(failures=1, wait_s=0.0)
    lane = WorkLane.of(work, ROUTE.id, settings, breaker, now_s=clock.monotonic())
    lane.held_until_s = clock.monotonic() + 1_000
    lane.breaker.failed(clock.monotonic())
    job = LeasedJob(WorkKey(b"k" * 16), 1, ROUTE.id, AttemptKind.FIRST, 1, 0, 0, 60_000, 0, body)

    def ended(lane: WorkLane, job: LeasedJob) -> None:
        lane.ended(job.lane)

    attempts = Attempts(work, clock, metrics.outgoing, ended=ended, written=lambda: None)
    assert lane.room(clock.monotonic()) == 1
    lane.started(1)

    await attempts.make(lane, job, until_s=clock.monotonic() + 60)

    assert lane.breaker.is_open
    assert lane.room(clock.monotonic()) == 1
