"""Times as users see them, and a clock that never goes back."""

from datetime import UTC, datetime, timedelta

from hypothesis import given
from hypothesis import strategies as st

from mailonce.core.moment import DAY_MS, day_text, moment, steady

EPOCH = datetime(1970, 1, 1, tzinfo=UTC)


@given(ms=st.integers(-62_135_596_800_000, 253_402_300_799_999))
def test_a_time_is_written_as_python_writes_it(ms: int) -> None:
    written = (EPOCH + timedelta(milliseconds=ms)).isoformat(timespec="milliseconds")

    assert moment(ms) == written.replace("+00:00", "Z")


@given(day=st.integers(-719_162, 2_932_896))
def test_a_day_is_written_as_its_moments_begin(day: int) -> None:
    assert moment(day * DAY_MS).startswith(day_text(day) + "T00:00")


def test_no_time_is_none() -> None:
    assert moment(None) is None


@given(
    steps=st.lists(st.tuples(st.integers(-10_000, 10_000), st.floats(0.002, 5)), max_size=30),
)
def test_however_the_wall_clock_is_set_ours_goes_on(steps: list[tuple[int, float]]) -> None:
    wall_ms = last_ms = 1_000_000
    for jump_ms, elapsed_s in steps:
        wall_ms += jump_ms + round(elapsed_s * 1000)
        now_ms = steady(wall_ms, last_ms=last_ms, elapsed_s=elapsed_s)
        assert now_ms > last_ms
        assert now_ms >= wall_ms
        last_ms = now_ms


def test_a_clock_that_is_ahead_and_the_wall_clock_meet_again() -> None:
    wall_ms, ours_ms = 0, 50
    for _ in range(100):
        wall_ms += 1_000
        ours_ms = steady(wall_ms, last_ms=ours_ms, elapsed_s=1.0)

    assert ours_ms == wall_ms
