"""An attempt that asks no endpoint leaves the breaker as it was."""

from typing import Any, cast

import pytest

from mailonce.clock import Clock
from mailonce.core.breaker import BreakerRule
from mailonce.core.delivery import DeliveryKey, Lane, unroutable_reason
from mailonce.core.job import Leased
from mailonce.core.route import Route
from mailonce.queue.attempt import Attempts
from mailonce.queue.finish import Finisher
from mailonce.queue.lane import RouteLane
from mailonce.telemetry import Metrics

ROUTE = Route(id="rte_1", workspace="default", name="one", url="http://x")
UNROUTABLE = b'{"schema":"mailonce.unroutable/1","route_id":"rte_1","reason":"too many steps"}'


@pytest.mark.parametrize("body", [None, UNROUTABLE], ids=["forgotten", "unroutable"])
async def test_a_probe_with_nothing_to_send_lets_the_next_one_through(body: bytes | None) -> None:
    assert body is None or unroutable_reason(body) is not None
    clock, metrics = Clock(), Metrics().outgoing
    lane = RouteLane.of(ROUTE, BreakerRule(failures=1, wait_s=0.0), now_s=clock.monotonic())
    lane.held_until_s = clock.monotonic() + 1_000
    lane.breaker.failed(clock.monotonic())
    job = Leased(DeliveryKey(b"k" * 16), 1, ROUTE.id, Lane.FIRST, 1, 0, 0, 60_000, 0, body)

    async def never(lane: RouteLane, reason: str) -> None:
        raise AssertionError((lane, reason))

    def ended(lane: RouteLane) -> None:
        lane.running -= 1

    # Nothing is written here: the finisher only collects.
    finisher = Finisher(cast("Any", None), clock, metrics)
    attempts = Attempts(
        clock, metrics, {}, finisher, switch_off=never, ended=ended, written=lambda: None
    )
    assert lane.room(clock.monotonic()) == 1
    lane.started(1)

    await attempts.make(lane, job, until_s=clock.monotonic() + 60)

    assert lane.breaker.is_open
    assert lane.room(clock.monotonic()) == 1
