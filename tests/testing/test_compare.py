"""The demo's reckoning notices what is lost and what is doubled, wherever it shows."""

from typing import Any

from mailonce.core.events.event import EventType
from mailonce.testing.compare import EffectComparison, ShownEffects, compare_effects
from mailonce.testing.simulator import Happening

ANN = "ann@example.net"
HAPPENED = [
    Happening("e1", EventType.DELIVERED, "m-1", ANN, 0),
    Happening("e2", EventType.OPENED, "m-1", ANN, 0),
]
EVENTS = [
    {"message_id": "m-1", "recipient": ANN, "type": "delivered"},
    {"message_id": "m-1", "recipient": ANN, "type": "opened"},
]
STATS = [{"type": "delivered", "count": 1}, {"type": "opened", "count": 1}]


def messages(**counts: int) -> list[dict[str, Any]]:
    return [{"message_id": "m-1", "recipients": [{"recipient": ANN, "counts": counts}]}]


def test_each_once_is_neither_lost_nor_doubled() -> None:
    shown = ShownEffects(events=EVENTS, stats=STATS, messages=messages(delivered=1, opened=1))

    assert compare_effects(HAPPENED, shown) == EffectComparison(effects=2, lost=0, doubled=0)


def test_what_the_log_does_not_show_is_lost() -> None:
    shown = ShownEffects(events=EVENTS[:1], stats=STATS, messages=messages(delivered=1, opened=1))

    assert compare_effects(HAPPENED, shown) == EffectComparison(effects=1, lost=1, doubled=0)


def test_what_the_stats_do_not_count_is_lost() -> None:
    shown = ShownEffects(events=EVENTS, stats=STATS[:1], messages=messages(delivered=1, opened=1))

    assert compare_effects(HAPPENED, shown).lost == 1


def test_what_a_message_does_not_know_is_lost() -> None:
    shown = ShownEffects(events=EVENTS, stats=STATS, messages=messages(delivered=1))

    assert compare_effects(HAPPENED, shown).lost == 1


def test_an_event_listed_twice_is_doubled() -> None:
    shown = ShownEffects(
        events=[*EVENTS, EVENTS[0]], stats=STATS, messages=messages(delivered=1, opened=1)
    )

    assert compare_effects(HAPPENED, shown) == EffectComparison(effects=3, lost=0, doubled=1)


def test_an_event_counted_twice_is_doubled() -> None:
    in_stats = ShownEffects(
        events=EVENTS,
        stats=[{"type": "delivered", "count": 2}, STATS[1]],
        messages=messages(delivered=1, opened=1),
    )
    in_message = ShownEffects(events=EVENTS, stats=STATS, messages=messages(delivered=1, opened=2))

    assert compare_effects(HAPPENED, in_stats).doubled == 1
    assert compare_effects(HAPPENED, in_message).doubled == 1


def test_what_never_happened_is_doubled() -> None:
    ghost = {"message_id": "ghost", "recipient": ANN, "type": "opened"}
    shown = ShownEffects(
        events=[*EVENTS, ghost], stats=STATS, messages=messages(delivered=1, opened=1)
    )

    assert compare_effects(HAPPENED, shown) == EffectComparison(effects=3, lost=0, doubled=1)
