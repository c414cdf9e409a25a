"""When it is proven that no mail came."""

import pytest

from mailonce.core.inboxes.listening import (
    ALIVE_MS,
    ListeningPeriod,
    continued,
    gap_free_since,
)

NOW_MS = 1_000_000


@pytest.mark.parametrize(
    ("periods", "since_ms"),
    [
        ([], None),
        ([(10, NOW_MS)], 10),
        ([(10, NOW_MS - ALIVE_MS)], 10),
        # Silent for too long: it may be dead.
        ([(10, NOW_MS - ALIVE_MS - 1)], None),
        # Another took over in time, or too late by a millisecond.
        ([(10, 500), (500, NOW_MS)], 10),
        ([(10, 499), (500, NOW_MS)], 500),
        # Two at the same time, of which the older one ended.
        ([(10, 900), (500, NOW_MS), (700, 800)], 10),
        ([(10, 100), (90, 600), (600, 700), (650, NOW_MS)], 10),
        ([(10, 100), (101, 600), (600, 700), (650, NOW_MS)], 101),
    ],
)
def test_a_gap_ends_what_is_proven(periods: list[tuple[int, int]], since_ms: int | None) -> None:
    given = [ListeningPeriod(*one) for one in periods]

    assert gap_free_since(given, now_ms=NOW_MS) == since_ms
    assert gap_free_since(reversed(given), now_ms=NOW_MS) == since_ms


def test_a_process_goes_on_with_its_period_unless_it_was_silent() -> None:
    first = continued(None, now_ms=100)
    second = continued(first, now_ms=100 + ALIVE_MS)
    after_a_silence = continued(second, now_ms=second.until_ms + ALIVE_MS + 1)
    with_a_clock_set_back = continued(second, now_ms=50)

    assert first == ListeningPeriod(100, 100)
    assert second == ListeningPeriod(100, 100 + ALIVE_MS)
    assert after_a_silence.since_ms == after_a_silence.until_ms
    assert with_a_clock_set_back == ListeningPeriod(50, 50)
