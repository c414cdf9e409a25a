"""A clock is trusted to say what is old, unless it leaped ahead a moment ago."""

from mailonce.core.health.clock_leap import (
    DAY_MS,
    WAIT_MS,
    leap_ms,
    next_forget_from,
    waits_until_ms,
)

NOON = 20_000 * DAY_MS
WINDOW_DAYS = 35
FAR = 500 * DAY_MS


def see(from_ms: int, step_ms: int, *, noted_ms: int = NOON) -> int:
    return next_forget_from(
        from_ms, noted_ms=noted_ms, now_ms=noted_ms + step_ms, window_days=WINDOW_DAYS
    )


def test_a_fifth_of_the_window_is_a_leap() -> None:
    limit_ms = leap_ms(WINDOW_DAYS)

    assert limit_ms == 7 * DAY_MS
    assert leap_ms(0) == limit_ms
    assert see(0, limit_ms) == 0
    assert see(0, limit_ms + 1) == NOON + limit_ms + 1 + WAIT_MS


def test_a_clock_that_is_seen_for_the_first_time_has_not_leaped() -> None:
    assert see(0, NOON, noted_ms=0) == 0
    assert waits_until_ms(0, noted_ms=0, now_ms=NOON, window_days=WINDOW_DAYS) is None


def test_the_wait_ends_by_the_clock_that_leaped() -> None:
    from_ms = see(0, FAR)

    for passed_ms, until_ms in ((0, from_ms), (WAIT_MS - 1, from_ms), (WAIT_MS, None)):
        now_ms = NOON + FAR + passed_ms
        assert see(from_ms, 4_000, noted_ms=now_ms) == from_ms
        told = waits_until_ms(from_ms, noted_ms=now_ms, now_ms=now_ms, window_days=WINDOW_DAYS)
        assert told == until_ms


def test_a_second_leap_waits_anew_and_a_large_step_back_ends_the_wait() -> None:
    from_ms = see(0, FAR)

    assert see(from_ms, FAR, noted_ms=NOON + FAR) == NOON + 2 * FAR + WAIT_MS
    assert see(from_ms, -5_000, noted_ms=NOON + FAR) == from_ms - 5_000
    assert see(from_ms, -FAR, noted_ms=NOON + FAR) == 0
    assert see(0, -5_000) == 0


def test_a_leap_that_nobody_has_noted_yet_is_seen_as_well() -> None:
    def until(step_ms: int) -> int | None:
        return waits_until_ms(0, noted_ms=NOON, now_ms=NOON + step_ms, window_days=WINDOW_DAYS)

    assert until(FAR) == NOON + FAR + WAIT_MS
    assert until(DAY_MS) is None
