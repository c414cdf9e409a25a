"""Which step settles an unknown send, and when."""

import pytest

from mailonce.core.sends.sender import SendMode
from mailonce.core.sends.settle_rule import (
    AskPerson,
    AwaitEvents,
    LookUp,
    RepeatCall,
    SendAgain,
    SettleRule,
)

BLIND = SettleRule()
LOOKS = SettleRule(has_lookup=True)
REPEATS = SettleRule(safe_s=600)
BOTH = SettleRule(safe_s=600, has_lookup=True)


@pytest.mark.parametrize(
    ("rule", "elapsed_s", "step"),
    [
        (BLIND, 0, AwaitEvents()),
        (BLIND, 86_000, AwaitEvents()),
        (BLIND, 86_400, AskPerson()),
        (SettleRule(mode=SendMode.AT_LEAST_ONCE), 86_400, SendAgain()),
        (LOOKS, 3, AwaitEvents()),
        (LOOKS, 30, LookUp()),
        (LOOKS, 80_000, LookUp()),
        (REPEATS, 3, AwaitEvents()),
        (REPEATS, 5, RepeatCall()),
        (REPEATS, 599, RepeatCall()),
        (REPEATS, 600, AwaitEvents()),
        (BOTH, 20, RepeatCall()),
        (BOTH, 30, LookUp()),
        (BOTH, 60, RepeatCall()),
        (BOTH, 120, LookUp()),
        (BOTH, 500, RepeatCall()),
        (BOTH, 600, LookUp()),
        # A clock was set back: nobody knows how old the key is.
        (BOTH, -10, AwaitEvents()),
    ],
)
def test_the_step_follows_from_the_time(rule: SettleRule, elapsed_s: float, step: object) -> None:
    assert rule.step(elapsed_s) == step


@pytest.mark.parametrize(
    ("rule", "times"),
    [
        (BLIND, [86_400]),
        (LOOKS, [30, 120, 600, 1_800, 86_400]),
        (REPEATS, [5, 20, 60, 240, 86_400]),
        (BOTH, [5, 20, 30, 60, 120, 240, 600, 1_800, 86_400]),
    ],
)
def test_each_step_says_when_the_next_is_due(rule: SettleRule, times: list[float]) -> None:
    reached = [0.0]
    while reached[-1] < rule.settle_s:
        reached.append(reached[-1] + rule.next_in_s(reached[-1]))

    assert reached[1:] == times


def test_a_step_that_comes_a_little_early_is_not_taken_twice() -> None:
    assert LOOKS.step(29.5) == LookUp()
    assert LOOKS.next_in_s(29.5) == 90.5


def test_no_step_is_due_after_the_deadline() -> None:
    rule = SettleRule(safe_s=600, has_lookup=True, settle_s=60)

    assert [rule.next_in_s(at) for at in (0, 30, 59.5)] == [5, 30, 0]
    assert SettleRule(has_lookup=True, settle_s=1).next_in_s(0) == 0


def test_a_call_may_be_repeated_within_the_safe_part_of_the_window() -> None:
    assert [REPEATS.repeat_left_s(at) for at in (0, 590, 600, 700, -1)] == [600, 10, 0, 0, 0]
    assert BLIND.repeat_left_s(0) == 0
