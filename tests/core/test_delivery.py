"""A delivery's key and id, and when an event's work was done."""

from hashlib import sha256

import pytest
from hypothesis import given
from hypothesis import strategies as st

from mailonce.core.deliveries.delivery import delivery_id, delivery_key_of, key_of, processed_ms
from mailonce.core.work.states import State
from mailonce.errors import MissingError

names = st.text(st.characters(exclude_categories=["Cs"], exclude_characters="|"))


def test_a_key_is_the_hash_that_the_contract_names() -> None:
    assert key_of("aa", "rte_1") == sha256(b"aa|rte_1").digest()
    assert key_of("aa", "rte_1", "rpr_1") == sha256(b"aa|rte_1|rpr_1").digest()


@given(one=st.tuples(names, names), other=st.tuples(names, names))
def test_another_event_or_route_has_another_key(
    one: tuple[str, str], other: tuple[str, str]
) -> None:
    assert (key_of(*one) == key_of(*other)) is (one == other)


def test_a_public_id_is_read_with_and_without_its_prefix() -> None:
    key = key_of("aa", "rte_1")

    assert delivery_key_of(delivery_id(key)) == delivery_key_of(key.hex()) == key


@pytest.mark.parametrize("text", ["", "dlv_", "dlv_00", "evt_" + "0" * 64, "dlv_" + "z" * 64])
def test_what_cannot_be_an_id_is_missing(text: str) -> None:
    with pytest.raises(MissingError, match="GET /v1/deliveries"):
        delivery_key_of(text)


@pytest.mark.parametrize(
    ("owed", "done_ms"),
    [
        ([], 100),
        ([(State.DONE, 150), (State.DONE, 120)], 150),
        # The database's clock may have been set back meanwhile.
        ([(State.DONE, 90)], 100),
        ([(State.DONE, 150), (State.LEASED, None)], None),
        ([(State.DUE, None)], None),
        ([(State.DEAD, 150)], None),
    ],
)
def test_an_event_is_processed_when_the_last_thing_it_owed_was_done(
    owed: list[tuple[State, int | None]], done_ms: int | None
) -> None:
    assert processed_ms(100, owed) == done_ms
