"""Arrivals that write the same row belong together; all others are apart."""

from types import SimpleNamespace
from typing import Any

from hypothesis import given
from hypothesis import strategies as st
from msgspec.structs import replace

from mailonce.core.ledger.contention import groups_of, rows_of
from mailonce.core.ledger.entry import Entry
from tests.factories import make_body, make_entry, make_source

SOURCE = make_source()
entries = st.builds(
    lambda id_, message: make_entry(SOURCE, make_body(id_, message_id=message), now_ms=0),
    st.integers(1, 8),
    st.sampled_from(["m-1", "m-2", "m-3", "m-4", ""]),
)


@given(st.lists(entries, max_size=10))
def test_every_entry_is_in_one_group_and_no_two_groups_share_a_row(some: list[Entry]) -> None:
    groups = groups_of(some)

    assert sorted(place for group in groups for place in group) == list(range(len(some)))
    rows = [set().union(*(rows_of(some[place]) for place in group)) for group in groups]
    assert sum(map(len, rows)) == len(set().union(*rows))


@given(st.lists(entries, min_size=2, max_size=6, unique_by=lambda entry: entry.body))
def test_those_that_share_no_row_are_apart(some: list[Entry]) -> None:
    apart = [
        entry
        for number, entry in enumerate(some)
        if all(rows_of(entry).isdisjoint(rows_of(other)) for other in some[:number])
    ]
    alone = groups_of(apart)

    assert len(alone) == len(apart)


def _item(key: str, *shared: str) -> Any:
    return SimpleNamespace(key=key, shared_rows=lambda _: shared)


def test_entries_whose_items_share_a_key_or_a_row_belong_together() -> None:
    brought = [["a"], ["b", "row"], ["a"], ["c", "row"], ["d", "another row"]]
    some = [
        replace(
            make_entry(SOURCE, make_body(number, message_id=""), now_ms=0),
            items=(_item(key, *shared),),
        )
        for number, (key, *shared) in enumerate(brought)
    ]

    assert sorted(groups_of(some)) == [[0, 2], [1, 3], [4]]
