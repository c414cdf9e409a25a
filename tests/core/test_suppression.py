"""What an event says about its address, and what stands of all that was said."""

from itertools import permutations
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from mailonce.core.events.event import Bounce, Event, EventType, Reject
from mailonce.core.events.facts import Stamp
from mailonce.core.events.key import WHOLE, Identity
from mailonce.core.events.suppression import (
    SUPPRESS,
    Cause,
    RecordedStatement,
    SuppressionStatement,
    standing,
    statement_of,
    suppress_in,
    suppress_of,
)
from mailonce.errors import ConfigError


def make_event(type_: EventType, **fields: object) -> Event:
    return Event(
        type=type_,
        identity=Identity(WHOLE, {}),
        **({"recipient": "ada@example.com"} | fields),  # type: ignore[arg-type]
    )


def at(ms: int, key: int = 0) -> Stamp:
    return Stamp(ms.to_bytes(8, "big") + key.to_bytes(8, "big"))


def suppressing(ms: int | None, event: bytes = b"", *, lifted: bool = False) -> RecordedStatement:
    return RecordedStatement(
        lifts=False, stamp=None if ms is None else at(ms), event=event, lifted=lifted
    )


def lifting(ms: int | None) -> RecordedStatement:
    return RecordedStatement(lifts=True, stamp=None if ms is None else at(ms))


said = st.builds(
    RecordedStatement,
    lifts=st.booleans(),
    stamp=st.none() | st.integers(0, 5).map(at),
    lifted=st.booleans(),
    event=st.binary(min_size=1, max_size=2),
)


@pytest.mark.parametrize(
    ("event", "cause"),
    [
        (make_event(EventType.BOUNCED, bounce=Bounce.HARD), Cause.HARD),
        (make_event(EventType.COMPLAINED), Cause.COMPLAINT),
        (make_event(EventType.REJECTED, reject=Reject.SUPPRESSED), Cause.REJECTED),
        (make_event(EventType.REJECTED, reject=Reject.INVALID), Cause.REJECTED),
        (make_event(EventType.REJECTED, reject=Reject.UNSUBSCRIBED), Cause.REJECTED),
        (make_event(EventType.UNSUBSCRIBED), Cause.UNSUBSCRIBE),
    ],
)
def test_these_events_suppress_all_mail(event: Event, cause: Cause) -> None:
    assert statement_of(event) == SuppressionStatement("ada@example.com", "", cause, lifts=False)


@pytest.mark.parametrize(
    "event",
    [
        make_event(EventType.BOUNCED, bounce=Bounce.SOFT),
        make_event(EventType.BOUNCED, bounce=Bounce.BLOCKED),
        make_event(EventType.BOUNCED, bounce=Bounce.UNDETERMINED),
        make_event(EventType.BOUNCED),
        make_event(EventType.REJECTED, reject=Reject.POLICY),
        make_event(EventType.REJECTED, reject=Reject.RENDER),
        make_event(EventType.REJECTED, reject=Reject.QUOTA),
        make_event(EventType.REJECTED),
        make_event(EventType.DELIVERED),
        make_event(EventType.COMPLAINED, certain=False),
        make_event(EventType.COMPLAINED, recipient=""),
    ],
)
def test_these_events_say_nothing(event: Event) -> None:
    assert statement_of(event) is None


def test_an_unsubscribe_and_its_lift_are_limited_to_their_stream() -> None:
    left = statement_of(make_event(EventType.UNSUBSCRIBED, stream="news"))
    returned = statement_of(make_event(EventType.SUBSCRIBED, stream="news"))

    assert left == SuppressionStatement("ada@example.com", "news", Cause.UNSUBSCRIBE, lifts=False)
    assert returned == SuppressionStatement(
        "ada@example.com", "news", Cause.UNSUBSCRIBE, lifts=True
    )


def test_the_earliest_since_the_last_lift_stands() -> None:
    statements = [suppressing(1), lifting(2), suppressing(4), suppressing(3), suppressing(5)]

    assert standing(statements) == suppressing(3)


def test_equal_times_suppress() -> None:
    assert standing([lifting(2), suppressing(2)]) is not None


def test_what_has_no_time_stands_until_a_person_has_seen_it() -> None:
    assert standing([suppressing(None), lifting(9)]) is not None
    assert standing([suppressing(None, lifted=True), lifting(9)]) is None


def test_what_a_person_has_seen_is_lifted_even_when_stamped_ahead() -> None:
    assert standing([suppressing(9, lifted=True), lifting(5)]) is None


def test_a_lift_without_a_time_lifts_nothing() -> None:
    assert standing([suppressing(1), lifting(None)]) is not None


@given(st.lists(said, max_size=5))
def test_the_order_in_which_it_was_said_does_not_matter(some: list[RecordedStatement]) -> None:
    words = {
        None if one is None else (one.stamp, one.event) for one in map(standing, permutations(some))
    }

    assert len(words) == 1


@given(st.lists(said, max_size=6))
def test_saying_it_twice_changes_nothing(some: list[RecordedStatement]) -> None:
    assert standing(some) == standing(some + some)


@pytest.mark.parametrize(
    ("words", "fields", "cause"),
    [
        (["bounced:blocked"], {"type": EventType.BOUNCED, "bounce": Bounce.BLOCKED}, "bounced"),
        (["bounced:blocked"], {"type": EventType.BOUNCED, "bounce": Bounce.HARD}, None),
        (["bounced"], {"type": EventType.BOUNCED, "bounce": Bounce.SOFT}, "bounced"),
        (["bounced"], {"type": EventType.BOUNCED, "bounce": None}, "bounced"),
        (["bounced"], {"type": EventType.BOUNCED, "bounce": Bounce.HARD}, "hard"),
        (["rejected"], {"type": EventType.REJECTED, "reject": Reject.POLICY}, "rejected"),
        (["rejected:quota"], {"type": EventType.REJECTED, "reject": Reject.POLICY}, None),
        ([], {"type": EventType.COMPLAINED}, None),
        ([], {"type": EventType.UNSUBSCRIBED}, None),
        (["complained"], {"type": EventType.COMPLAINED}, "complaint"),
        (["bounced"], {"type": EventType.BOUNCED, "certain": False}, None),
    ],
)
def test_the_setting_says_which_events_suppress(
    words: list[str], fields: dict[str, Any], cause: str | None
) -> None:
    type_ = fields.pop("type")
    say = statement_of(make_event(type_, **fields), suppress_of(words))

    assert (say and say.cause) == cause


def test_the_default_is_a_setting_that_an_operator_could_write() -> None:
    assert suppress_of(SUPPRESS) == SUPPRESS


def test_a_word_that_means_nothing_is_named() -> None:
    with pytest.raises(ConfigError, match="bounced:hrad"):
        suppress_of(["bounced:hrad"])


def test_a_workspace_may_suppress_by_nothing() -> None:
    settings = {"": suppress_of(["bounced"]), "ws_quiet": suppress_of([])}

    assert suppress_in(settings, "ws_quiet") == frozenset()
    assert suppress_in(settings, "ws_other") == {"bounced"}
    assert suppress_in({}, "ws_other") == SUPPRESS
