"""Times as people type them."""

import pytest

from mailonce.core.moment import moment
from mailonce.core.reading.values import iso_ms_of
from mailonce.core.time_words import (
    DAY_EXAMPLES,
    EXAMPLES,
    is_to_come,
    past_day_ms_of,
    past_ms_of,
)

NOW_MS = iso_ms_of("2026-03-01T01:30:00Z") or 0


@pytest.mark.parametrize(
    ("text", "time"),
    [
        ("2h", "2026-02-28T23:30:00.000Z"),
        ("30m", "2026-03-01T01:00:00.000Z"),
        ("45 s", "2026-03-01T01:29:15.000Z"),
        ("3d ago", "2026-02-26T01:30:00.000Z"),
        ("1W", "2026-02-22T01:30:00.000Z"),
        ("today", "2026-03-01T00:00:00.000Z"),
        (" Yesterday ", "2026-02-28T00:00:00.000Z"),
        ("01:30", "2026-03-01T01:30:00.000Z"),
        ("0:05", "2026-03-01T00:05:00.000Z"),
        ("01:02:30", "2026-03-01T01:02:30.000Z"),
        ("23:59", "2026-03-01T23:59:00.000Z"),
        ("now", "2026-03-01T01:30:00.000Z"),
        ("999999w", "1970-01-01T00:00:00.000Z"),
        ("2026-01-31", "2026-01-31T00:00:00.000Z"),
        ("2026-01-31T12:00:00+02:00", "2026-01-31T10:00:00.000Z"),
    ],
)
def test_a_time_is_read_as_people_type_it(text: str, time: str) -> None:
    assert moment(past_ms_of(text, now_ms=NOW_MS)) == time


@pytest.mark.parametrize(
    "text", ["", "h", "2", "2y", "-2h", "tomorrow", "٢h", "1234567h", "2h30m", "24:00", "1:5"]
)
def test_what_is_no_time_is_none(text: str) -> None:
    assert past_ms_of(text, now_ms=NOW_MS) is None


def test_each_example_is_a_time() -> None:
    for text in EXAMPLES.replace(" or ", ", ").split(", "):
        assert past_ms_of(text, now_ms=NOW_MS) is not None


def test_a_time_without_a_day_may_be_still_to_come() -> None:
    texts = ("01:30", "01:31", " 23:59 ", "2h", "now", "2099-01-01")

    to_come = [text for text in texts if is_to_come(text, now_ms=NOW_MS)]

    assert to_come == ["01:31", " 23:59 "]


@pytest.mark.parametrize(
    ("text", "time"),
    [
        (" Today", "2026-03-01T00:00:00.000Z"),
        ("yesterday", "2026-02-28T00:00:00.000Z"),
        ("7d", "2026-02-22T00:00:00.000Z"),
        ("1w ago", "2026-02-22T00:00:00.000Z"),
        ("2026-01-31", "2026-01-31T00:00:00.000Z"),
        ("2026-01-31T02:00:00+02:00", "2026-01-31T00:00:00.000Z"),
        *((text, None) for text in ("2h", "48h", "10:00", "now", "2026-01-31T10:00:00Z", "x")),
    ],
)
def test_a_day_is_read_as_people_type_it(text: str, time: str | None) -> None:
    assert moment(past_day_ms_of(text, now_ms=NOW_MS)) == time


def test_each_example_of_a_day_is_one() -> None:
    for text in DAY_EXAMPLES.replace(" or ", ", ").split(", "):
        assert past_day_ms_of(text, now_ms=NOW_MS) is not None
