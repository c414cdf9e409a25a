"""When simulated events happened: lately, and at the same times for every run of a day."""

import pytest

from mailonce.edge.cli.simulate import DAY_S, end_s, storm_name
from mailonce.errors import ConfigError
from mailonce.testing import PlanOptions, make_plan, make_simulator

MIDNIGHT_S = 20_000 * DAY_S
NOON_S = MIDNIGHT_S + DAY_S // 2


def test_a_storm_ended_at_midnight_unless_somebody_says_when() -> None:
    ends = {
        until: end_s(until, now_s=NOON_S) - NOON_S
        for until in (None, "now", "2h", "yesterday", "2024-10-04T11:00:00Z")
    }

    assert ends == {
        None: -DAY_S // 2,
        "now": 0,
        "2h": -7200,
        "yesterday": -DAY_S * 3 // 2,
        "2024-10-04T11:00:00Z": -3600,
    }
    assert end_s(None, now_s=MIDNIGHT_S + DAY_S - 1) == end_s(None, now_s=MIDNIGHT_S) == MIDNIGHT_S


@pytest.mark.parametrize("until", ["soon", "", "2024-10-04T13:00:00Z", "1970-01-01"])
def test_what_is_no_time_or_not_past_is_refused(until: str) -> None:
    with pytest.raises(ConfigError, match="write a time that is past"):
        end_s(until, now_s=NOON_S)


def test_another_run_and_another_spread_are_about_other_messages() -> None:
    ways = [("1", "", None), ("2", "", None), ("1", "again", None), ("1", "", 3)]

    assert len({storm_name(*way) for way in ways}) == len(ways)
    assert storm_name("1", "", 3) == storm_name("1", "", 3)


def test_events_are_spread_over_the_days_that_are_asked_for() -> None:
    options = PlanOptions(events=500, spread_s=3 * DAY_S)

    plan = make_plan(make_simulator("postmark"), options, now_s=NOON_S)

    days = {(NOON_S - one.occurred_s) // DAY_S for one in plan.happened}
    assert days == {0, 1, 2}
    assert max(one.occurred_s for one in plan.happened) <= NOON_S
