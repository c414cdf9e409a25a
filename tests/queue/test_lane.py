"""A lane lets through what its route's limits allow, and says when to look again."""

from dataclasses import replace
from typing import Any, cast

from mailonce.core.deliveries.route import Route
from mailonce.core.work.breaker import BreakerRule
from mailonce.core.work.states import AttemptKind
from mailonce.queue.work import LaneSettings
from mailonce.queue.work_lane import ASK_WAIT_S, TURNS, WorkLane

ROUTE = Route(id="rte_1", workspace="default", name="one", url="http://x", concurrency=8)


def make_lane(**changes: Any) -> WorkLane:
    settings = LaneSettings("default", replace(ROUTE, **changes).rule)
    work, breaker = cast("Any", None), BreakerRule(failures=2, wait_s=5)
    lane = WorkLane.of(work, "rte_1", settings, breaker, now_s=0.0)
    lane.held_until_s = 1_000.0
    return lane


def test_a_lane_that_is_not_ours_or_off_starts_nothing() -> None:
    not_ours, off = make_lane(), make_lane(off="by a person")
    not_ours.held_until_s = 0.0

    assert (not_ours.room(1.0), off.room(1.0), make_lane().room(1.0)) == (0, 0, 8)
    assert (not_ours.wakes_at(1.0), off.wakes_at(1.0)) == (None, None)


def test_concurrency_bounds_what_runs() -> None:
    lane = make_lane()

    lane.started(8)

    assert lane.room(1.0) == 0


def test_a_busy_lane_asks_for_several_slots_at_once_but_not_for_ever() -> None:
    lane = make_lane()
    lane.started(7)

    at_once = lane.room(1.0)
    asks_at = lane.wakes_at(1.0)
    later = lane.room(1.0 + ASK_WAIT_S)
    lane.running = 6

    assert (at_once, asks_at, later) == (0, 1.0 + ASK_WAIT_S, 1)
    assert lane.room(1.0) == 2


def test_a_lane_without_a_breaker_goes_on_whatever_fails() -> None:
    settings = LaneSettings("", ROUTE.rule, has_breaker=False)
    lane = WorkLane.of(cast("Any", None), "x", settings, BreakerRule(failures=1), now_s=0.0)
    lane.held_until_s = 1_000.0

    opened = [lane.breaker.failed(1.0) for _ in range(10_000)]

    assert not any(opened)
    assert lane.room(1.0) == 8


def test_an_idle_lane_with_one_slot_asks_at_once() -> None:
    assert make_lane(concurrency=1).room(0.0) == 1


def test_the_rate_is_a_bucket_of_one_second() -> None:
    lane = make_lane(rate_per_s=2.0)

    first = lane.room(0.0)
    lane.started(first)
    lane.running = 0

    assert (first, lane.room(0.0)) == (2, 0)
    assert lane.wakes_at(0.0) == 0.5
    assert lane.room(0.5) == 1
    assert lane.room(100.0) == 2


def test_a_slow_rate_still_lets_one_through() -> None:
    lane = make_lane(rate_per_s=0.1)

    lane.started(lane.room(0.0))
    lane.running = 0

    assert lane.room(9.9) == 0
    assert lane.room(10.0) == 1


def test_nothing_is_asked_until_something_is_due() -> None:
    lane = make_lane()
    lane.begin_lease()
    lane.due_in(3.0, now_s=1.0)
    lane.due_in(9.0, now_s=1.0)

    assert (lane.room(3.9), lane.wakes_at(3.9)) == (0, 4.0)
    assert lane.room(4.0) == 8


def test_an_open_breaker_is_looked_at_when_its_wait_is_over() -> None:
    lane = make_lane()
    for _ in range(2):
        lane.breaker.failed(10.0)

    assert (lane.room(11.0), lane.wakes_at(11.0)) == (0, 15.0)
    assert lane.room(15.0) == 1
    # A lease that found nothing has not looked.
    lane.started(0)
    assert lane.room(15.0) == 1
    lane.started(1)
    assert (lane.room(16.0), lane.wakes_at(16.0)) == (0, None)


def test_first_attempts_go_first_but_nobody_starves() -> None:
    lane = make_lane()

    heads = [lane.next_turn(1)[1][0] for _ in TURNS]

    assert heads.count(AttemptKind.FIRST) > len(TURNS) / 2
    assert {*heads} == set(AttemptKind)
    assert all({*order} == set(AttemptKind) for order in TURNS)


def test_where_slots_are_reserved_the_later_kinds_never_take_all() -> None:
    first, later = AttemptKind.FIRST, AttemptKind.REDELIVERY
    lane = make_lane()
    lane.rule = replace(lane.rule, reserved=2)

    asked = lane.next_turn(8)
    lane.begin_lease()
    lane.answered([later] * 6, most=6)
    full = (lane.next_turn(2), lane.ready)
    lane.begin_lease()
    lane.answered([first], most=2)

    assert asked == (6, (first, AttemptKind.RETRY, later))
    assert full == ((2, (first, None, None)), False)
    # One of the later kinds ends: only then is there room for another.
    assert not lane.ready
    lane.ended(first)
    assert not lane.ready
    lane.ended(later)
    assert lane.ready
    assert (lane.running, lane.next_turn(8)[0]) == (5, 1)


def test_a_lane_of_one_slot_reserves_none_of_it() -> None:
    lane = make_lane(concurrency=1)
    lane.rule = replace(lane.rule, reserved=2)

    assert lane.next_turn(1)[1] == (AttemptKind.FIRST, AttemptKind.RETRY, AttemptKind.REDELIVERY)


def test_an_endpoint_that_asks_for_a_pause_gets_it_within_bounds() -> None:
    lane = make_lane()

    lane.pause(30, now_s=1.0)
    lane.pause(5, now_s=1.0)
    held = (lane.room(30.9), lane.wakes_at(1.0), lane.takes(1, 1.0))
    stopped = (lane.is_stopped(30.9), lane.is_stopped(31.0))
    stays = (lane.must_stay(30.9), lane.must_stay(31.0))
    lane.pause(10**9, now_s=1.0)

    assert held == (0, 31.0, False)
    assert stopped == stays == (True, False)
    assert lane.paused_until_s == 3_601.0


def test_what_is_made_now_starts_at_once_only_ahead_of_nobody() -> None:
    free, waiting, asking, timed, leaving = (make_lane() for _ in range(5))
    for lane in (free, asking, timed, leaving):
        lane.ready = False
    asking.begin_lease()
    timed.due_in(0.5, now_s=0.0)
    leaving.is_leaving = True

    assert free.takes(8, 1.0)
    assert not free.takes(9, 1.0)
    assert not free.takes(1, 1_000.0), "it is not held any more"
    assert timed.takes(1, 0.4)
    assert not any(lane.takes(1, 1.0) for lane in (waiting, asking, timed, leaving))


def test_what_is_made_now_keeps_to_the_rate_and_the_breaker() -> None:
    limited, broken = make_lane(rate_per_s=2), make_lane()
    limited.ready = broken.ready = False
    broken.breaker.failed(0.0)
    broken.breaker.failed(0.0)

    assert limited.takes(2, 0.0)
    assert not limited.takes(3, 0.0)
    assert not broken.takes(1, 100.0), "an open breaker asks one question at a time"
    limited.started(2)
    assert not limited.takes(1, 0.1)
    limited.freed(2)
    assert limited.takes(2, 0.1)
