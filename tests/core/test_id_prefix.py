"""The beginning of an id stands for all ids between two."""

import pytest

from mailonce.core.id_prefix import is_short, read_prefix
from mailonce.errors import ParseError


def test_an_odd_number_of_digits_is_a_beginning_too() -> None:
    prefix = read_prefix("evt_01a1e95")

    assert prefix.kind == "evt"
    assert prefix.first.hex() == "01a1e95" + "0" * 25
    assert prefix.last.hex() == "01a1e95" + "f" * 25


def test_a_copied_ellipsis_does_no_harm() -> None:
    assert read_prefix("dlv_7ae45b…") == read_prefix("dlv_7ae45b")


def test_only_a_part_of_an_id_is_short() -> None:
    assert is_short("dead_01a1e9")
    assert not is_short("dead_" + "0" * 32)
    assert not is_short("main")
    assert not is_short("src_01a1")


@pytest.mark.parametrize("text", ["evt_01a1e", "evt_", "01a1e95", "evt_xyzxyz", "evt_" + "0" * 33])
def test_what_is_no_beginning_is_refused(text: str) -> None:
    with pytest.raises(ParseError, match="beginning of an id"):
        read_prefix(text)
