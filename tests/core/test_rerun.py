"""What a rerun goes through, written down and read again."""

from hypothesis import given
from hypothesis import strategies as st

from mailonce.core.deliveries.rerun import RerunFilter, RerunKind
from mailonce.core.events.event import EventType
from mailonce.core.work.states import State

times = st.none() | st.integers(0, 2**53)


@given(
    made=st.builds(
        RerunFilter,
        route=st.none() | st.text(st.characters(exclude_categories=["Cs"])),
        type=st.none() | st.sampled_from(EventType),
        since_ms=times,
        until_ms=times,
        states=st.lists(st.sampled_from(State), max_size=4).map(tuple),
        ids=st.lists(st.binary(min_size=16, max_size=32), max_size=3).map(tuple),
    )
)
def test_a_filter_is_read_as_it_was_written(made: RerunFilter) -> None:
    assert RerunFilter.read(made.written()) == made


def test_by_default_only_what_has_ended_is_gone_through_again() -> None:
    assert set(RerunFilter().states) == {State.DONE, State.DEAD}


def test_the_kinds_are_told_apart_by_their_ids() -> None:
    assert len({kind.prefix for kind in RerunKind}) == len(RerunKind)
