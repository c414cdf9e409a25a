"""Ids sort by the time they were minted, and are read only as what they are."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from mailonce.core.ids import (
    ArrivalId,
    first_id,
    mint,
    minted_ms,
    nth_event_id,
    private,
    public,
)
from mailonce.errors import MissingError

times = st.integers(0, 2**48 - 1)
chance = st.binary(min_size=10, max_size=10)


@given(one_ms=times, other_ms=times, one=chance, other=chance)
def test_ids_sort_by_their_time_as_bytes_and_as_text(
    one_ms: int, other_ms: int, one: bytes, other: bytes
) -> None:
    first, second = mint(one_ms, one), mint(other_ms, other)

    if one_ms != other_ms:
        assert (first < second) is (one_ms < other_ms)
    assert (public("evt", first) < public("evt", second)) is (first < second)
    assert minted_ms(first) == one_ms


@given(ms=times, entropy=chance)
def test_a_public_id_is_read_back(ms: int, entropy: bytes) -> None:
    raw = mint(ms, entropy)

    assert private("evt", public("evt", raw)) == raw


@pytest.mark.parametrize(
    "text", ["", "evt", "evt_", "evt_zz", "evt_00", "arr_" + "0" * 32, "evt_" + "0" * 34, "é" * 99]
)
def test_what_cannot_be_an_id_is_missing(text: str) -> None:
    with pytest.raises(MissingError, match=r"evt_|id of an arrival"):
        private("evt", text)


@pytest.mark.parametrize("prefix", ["arr", "con", "dead", "evt", "exp", "mail", "rdl", "snd", "x"])
def test_every_kind_of_id_can_be_missing(prefix: str) -> None:
    for text in ("ann@example.net", "msg_1", "evt_" + "0" * 31):
        with pytest.raises(MissingError, match=f"is not an id of the form {prefix}_"):
            private(prefix, text)


@given(ms=st.integers(1, 2**48 - 1), entropy=chance)
def test_the_bound_of_a_time_parts_before_from_after(ms: int, entropy: bytes) -> None:
    assert mint(ms - 1, entropy) < first_id(ms) <= mint(ms, entropy)


def test_events_of_one_arrival_sort_by_position() -> None:
    arrival = ArrivalId(mint(1, b"0123456789"))

    ids = [nth_event_id(arrival, position) for position in (0, 1, 255, 256, 65_536)]

    assert ids == sorted(set(ids))
    assert {minted_ms(one) for one in ids} == {1}
