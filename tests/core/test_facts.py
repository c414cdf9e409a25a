"""Facts are a join: neither order nor number of copies can matter. Status is a table."""

from functools import reduce
from itertools import permutations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from mailonce.core.events.event import Bounce, Event, EventType
from mailonce.core.events.facts import (
    AHEAD_MS_MAX,
    IMPLY_DELIVERED,
    RANKED,
    TYPE_OF_KIND,
    Fact,
    Kind,
    Stamp,
    join,
    kind_of,
    stamp_ms,
    stamp_of,
    status,
)
from mailonce.core.events.key import WHOLE, Identity, Key

stamps = st.none() | st.binary(min_size=16, max_size=16).map(Stamp)
facts = st.builds(Fact, st.integers(0, 1000), stamps, stamps)
kinds = st.sets(st.sampled_from(Kind))
NOTHING = Fact(0, None, None)


def make_event(type_: EventType, bounce: Bounce | None = None, *, late: bool = False) -> Event:
    return Event(type=type_, identity=Identity(WHOLE, {}), bounce=bounce, late=late)


@given(facts, facts, facts)
def test_join_is_commutative_and_associative_with_nothing_as_identity(
    a: Fact, b: Fact, c: Fact
) -> None:
    assert join(a, b) == join(b, a)
    assert join(join(a, b), c) == join(a, join(b, c))
    assert join(a, NOTHING) == a


@given(facts)
def test_join_is_idempotent_in_the_stamps(a: Fact) -> None:
    joined = join(a, a)

    assert (joined.first, joined.last) == (a.first, a.last)


@given(st.lists(facts, min_size=1, max_size=5))
def test_every_order_joins_to_the_same(some: list[Fact]) -> None:
    joined = {reduce(join, order) for order in permutations(some)}

    assert len(joined) == 1


@given(st.lists(facts, max_size=6), st.integers(0, 6))
def test_joining_parts_is_joining_the_whole(some: list[Fact], cut: int) -> None:
    def fold(part: list[Fact]) -> Fact:
        return reduce(join, part, NOTHING)

    assert join(fold(some[:cut]), fold(some[cut:])) == fold(some)


@given(facts, facts)
def test_a_missing_stamp_never_erases_one(a: Fact, b: Fact) -> None:
    joined = join(a, b)

    assert (joined.first is None) == (a.first is None and b.first is None)
    assert (joined.last is None) == (a.last is None and b.last is None)


@given(kinds, kinds)
def test_status_only_rises(known: set[Kind], more: set[Kind]) -> None:
    ranks = {None: -1} | {kind.name.lower(): rank for rank, kind in enumerate(RANKED)}

    assert ranks[status(known | more)] >= ranks[status(known)]


@pytest.mark.parametrize(
    ("known", "word"),
    [
        # A retry succeeded.
        ({Kind.SOFT, Kind.DELIVERED}, "delivered"),
        ({Kind.DEFERRED, Kind.DELIVERED}, "delivered"),
        # Acceptance was revoked.
        ({Kind.DELIVERED, Kind.HARD}, "hard"),
        ({Kind.DELIVERED, Kind.LATE_SOFT}, "late_soft"),
        # The strongest consequence, alone or with others.
        ({Kind.COMPLAINED}, "complained"),
        ({Kind.DELIVERED, Kind.COMPLAINED}, "complained"),
        ({Kind.HARD, Kind.COMPLAINED}, "complained"),
        # Delivered is inferred from engagement.
        ({Kind.OPENED}, "delivered"),
        ({Kind.CLICKED, Kind.SENT}, "delivered"),
        ({Kind.UNSUBSCRIBED}, "delivered"),
        # Scanners click before their gateway rejects.
        ({Kind.CLICKED, Kind.HARD}, "hard"),
        # Seed 002's terminals are sticky: hard bounce, complaint and dropped.
        ({Kind.REJECTED, Kind.DELIVERED}, "rejected"),
        ({Kind.REJECTED, Kind.LATE_SOFT}, "rejected"),
        ({Kind.REJECTED, Kind.HARD}, "hard"),
        ({Kind.ACCEPTED}, "accepted"),
        ({Kind.ACCEPTED, Kind.SENT}, "sent"),
        ({Kind.SENT, Kind.DEFERRED}, "deferred"),
        ({Kind.DEFERRED, Kind.SOFT}, "soft"),
        # Held for now: a later delivery, or its failure, is what became of it.
        ({Kind.ACCEPTED, Kind.DEFERRED, Kind.HELD}, "held"),
        ({Kind.HELD, Kind.SOFT}, "soft"),
        ({Kind.HELD, Kind.DELIVERED}, "delivered"),
        ({Kind.HELD, Kind.OPENED}, "delivered"),
        ({Kind.HELD, Kind.REJECTED}, "rejected"),
        # What says nothing about this message's way.
        ({Kind.SUBSCRIBED, Kind.INBOUND, Kind.OTHER}, None),
        (set(), None),
    ],
)
def test_status_follows_the_table(known: set[Kind], word: str | None) -> None:
    assert status(known) == word


@pytest.mark.parametrize("kind", IMPLY_DELIVERED)
def test_what_implies_delivery_ranks_at_least_as_delivered(kind: Kind) -> None:
    assert status({kind}) in {"delivered", "complained"}


@pytest.mark.parametrize(
    ("bounce", "late", "kind"),
    [
        (Bounce.HARD, False, Kind.HARD),
        (Bounce.HARD, True, Kind.HARD),
        (Bounce.SOFT, False, Kind.SOFT),
        (Bounce.SOFT, True, Kind.LATE_SOFT),
        (Bounce.BLOCKED, False, Kind.SOFT),
        (Bounce.UNDETERMINED, False, Kind.SOFT),
        (None, False, Kind.SOFT),
        (None, True, Kind.LATE_SOFT),
    ],
)
def test_a_bounce_that_is_not_surely_hard_is_soft(
    bounce: Bounce | None, *, late: bool, kind: Kind
) -> None:
    assert kind_of(make_event(EventType.BOUNCED, bounce, late=late)) is kind


@pytest.mark.parametrize("type_", EventType)
def test_every_type_makes_a_fact_that_names_it(type_: EventType) -> None:
    assert TYPE_OF_KIND[kind_of(make_event(type_))] is type_


@given(st.integers(0, 1 << 48), st.binary(min_size=16, max_size=16))
def test_a_stamp_tells_its_time_and_sorts_by_it(ms: int, key: bytes) -> None:
    stamp = stamp_of(ms, Key(key), received_ms=ms)
    later = stamp_of(ms + 1, Key(bytes(16)), received_ms=ms)

    assert stamp is not None
    assert later is not None
    assert stamp_ms(stamp) == ms
    assert stamp < later


def test_a_time_too_far_ahead_or_missing_makes_no_stamp() -> None:
    key = Key(bytes(16))

    assert stamp_of(None, key, received_ms=0) is None
    assert stamp_of(AHEAD_MS_MAX, key, received_ms=0) is not None
    assert stamp_of(AHEAD_MS_MAX + 1, key, received_ms=0) is None
