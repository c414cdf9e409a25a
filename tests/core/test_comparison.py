"""Two ledgers that were told the same must agree; where they do not, it is said for people."""

from collections import Counter

import pytest

from mailonce.core.events.facts import AHEAD_MS_MAX, Fact, Kind, Stamp
from mailonce.core.ledger.comparison import (
    NOTHING,
    ComparedStatement,
    CountPlace,
    FactPlace,
    SuppressionPlace,
    differ_counts,
    differ_fact,
    differ_suppression,
    may_be_older,
)

PLACE = FactPlace("m1", "ann@example.net", "w", "p/a", Kind.OPENED)
REGISTER = SuppressionPlace("w", "ann@example.net", "", "hard")


def stamp(ms: int, key: str = "aabbcc") -> Stamp:
    return Stamp(ms.to_bytes(8, "big") + bytes.fromhex(key) + bytes(5))


def fact(count: int, first: Stamp | None, last: Stamp | None) -> Fact:
    return Fact(count=count, first=first, last=last)


def test_equal_facts_do_not_differ() -> None:
    one = fact(2, stamp(1_000), stamp(2_000))

    assert differ_fact(PLACE, one, fact(2, stamp(1_000), stamp(2_000))) is None
    assert differ_fact(PLACE, None, None) is None


def test_a_difference_shows_where_it_is_and_both_sides() -> None:
    live = fact(2, stamp(1_000), stamp(2_000, "ddeeff"))

    difference = differ_fact(PLACE, live, None)

    assert difference is not None
    assert (difference.what, difference.where) == ("fact", "m1 ann@example.net opened")
    assert difference.live == "2x at 1970-01-01T00:00:01 #aabbcc to 1970-01-01T00:00:02 #ddeeff"
    assert difference.replayed == NOTHING


@pytest.mark.parametrize(
    ("first", "shown"), [(None, "no time"), (stamp(2**60), "no possible time #aabbcc")]
)
def test_a_stamp_that_is_missing_or_absurd_can_be_shown(first: Stamp | None, shown: str) -> None:
    difference = differ_fact(PLACE, fact(1, first, first), None)

    assert difference is not None
    assert difference.live == f"1x at {shown}"


def test_of_what_was_said_only_the_rest_is_shown() -> None:
    both, more = (
        ComparedStatement(lifts=False, stamp=stamp(1_000)),
        ComparedStatement(lifts=True, stamp=None),
    )

    difference = differ_suppression(REGISTER, Counter([both, more]), Counter([both]))

    assert difference is not None
    assert (difference.live, difference.replayed) == ("lifted at no time", NOTHING)
    assert differ_suppression(REGISTER, Counter([both, more]), Counter([more, both])) is None


def test_what_was_said_twice_is_not_what_was_said_once() -> None:
    say = ComparedStatement(lifts=False, stamp=stamp(1_000))

    assert differ_suppression(REGISTER, Counter([say, say]), Counter([say])) is not None


def test_counts_are_compared_on_both_sides() -> None:
    opened, sent, clicked = (CountPlace("w", "p/a", type_) for type_ in ("opened", "sent", "c"))

    differences = differ_counts({opened: 1_000, sent: 2}, {sent: 2, clicked: 1, opened: 999})

    assert [(one.where, one.live, one.replayed) for one in differences] == [
        ("p/a c", "0", "1"),
        ("p/a opened", "1,000", "999"),
    ]


@pytest.mark.parametrize(
    ("first", "is_older"),
    [(None, True), (stamp(5_000 + AHEAD_MS_MAX), True), (stamp(5_001 + AHEAD_MS_MAX), False)],
)
def test_a_fact_may_rest_on_what_was_pruned_unless_its_first_time_is_later(
    first: Stamp | None, *, is_older: bool
) -> None:
    assert may_be_older(fact(1, first, first), since_ms=5_000) is is_older
