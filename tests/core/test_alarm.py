"""When a source counts as silent or refusing."""

from itertools import pairwise

import pytest

from mailonce.core.health.alarm import Alarm, AlarmKind, Pulse, Rhythm, silence_limit_s
from mailonce.core.health.alarm import alarms_of as judged

NOW = 30_000_000
DAY = 24 * 60


def beats(every: int, *, until: int = NOW, days: int = 3) -> list[Pulse]:
    """One arrival every so many minutes."""
    return [Pulse(minute, 1, 0) for minute in range(until - days * DAY, until + 1, every)]


def rhythm_of(pulses: list[Pulse]) -> Rhythm:
    """Learn a rhythm in plain words; `tests/store` compares the database's way with this one."""
    busy = [pulse.minute for pulse in pulses if pulse.taken]
    if not busy:
        return Rhythm()
    pauses = [later - earlier for earlier, later in pairwise(busy)]
    return Rhythm(len(busy), busy[0], busy[-1], max(pauses, default=0))


def alarms_of(pulses: list[Pulse], *, now_minute: int, silence_s: int | None) -> list[Alarm]:
    return judged(rhythm_of(pulses), pulses, now_minute=now_minute, silence_s=silence_s)


def kinds(alarms: list[Alarm]) -> list[AlarmKind]:
    return [alarm.kind for alarm in alarms]


def test_a_steady_source_raises_nothing() -> None:
    assert alarms_of(beats(10), now_minute=NOW + 9, silence_s=None) == []


def test_three_times_its_longest_pause_is_silence() -> None:
    pulses = beats(10)

    assert silence_limit_s(rhythm_of(pulses)) == 1800
    assert alarms_of(pulses, now_minute=NOW + 30, silence_s=None) == []
    assert kinds(alarms_of(pulses, now_minute=NOW + 31, silence_s=None)) == [AlarmKind.SILENT]


def test_a_weekend_that_was_normal_stays_normal() -> None:
    pulses = [pulse for pulse in beats(10, days=8) if not NOW - 4 * DAY < pulse.minute < NOW - DAY]

    assert alarms_of(pulses, now_minute=NOW + DAY, silence_s=None) == []


@pytest.mark.parametrize("pulses", [[], beats(10, days=0), beats(2 * DAY, days=6)])
def test_a_source_that_is_hardly_known_is_not_judged(pulses: list[Pulse]) -> None:
    assert alarms_of(pulses, now_minute=NOW + 10 * DAY, silence_s=None) == []


def test_the_operators_limit_needs_no_history() -> None:
    pulses = [Pulse(NOW, 1, 0)]

    assert alarms_of(pulses, now_minute=NOW + 5, silence_s=300) == []
    assert kinds(alarms_of(pulses, now_minute=NOW + 6, silence_s=300)) == [AlarmKind.SILENT]
    assert alarms_of(pulses, now_minute=NOW + 10**6, silence_s=0) == []


def test_refusals_do_not_break_a_silence() -> None:
    pulses = [Pulse(NOW, 1, 0), Pulse(NOW + 9, 0, 1)]

    assert kinds(alarms_of(pulses, now_minute=NOW + 10, silence_s=300)) == [AlarmKind.SILENT]


@pytest.mark.parametrize(
    ("taken", "refused", "burst"), [(0, 9, False), (0, 10, True), (10, 10, False), (10, 11, True)]
)
def test_a_burst_is_many_refusals_that_outnumber_the_rest(
    taken: int, refused: int, *, burst: bool
) -> None:
    alarms = alarms_of([Pulse(NOW, taken, refused)], now_minute=NOW, silence_s=0)

    assert kinds(alarms) == ([AlarmKind.REFUSING] if burst else [])


def test_an_old_burst_is_over() -> None:
    assert alarms_of([Pulse(NOW - 5, 0, 99)], now_minute=NOW, silence_s=0) == []
