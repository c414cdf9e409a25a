"""JSON of strangers: read whole, in parts, or refused in one sentence."""

import json
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from mailonce.core import json_text
from mailonce.core.json_text import (
    DEPTH_MAX,
    PLAIN_DEPTH_MAX,
    SMALL_BYTES_MAX,
    LargeFieldError,
    Unreadable,
)
from mailonce.errors import ParseError

# Integers as every reader of JSON takes them; see the test of longer ones.
INTEGERS = st.integers(min_value=-(2**63), max_value=2**64 - 1)
json_values = st.recursive(
    st.none() | st.booleans() | INTEGERS | st.floats(allow_nan=False, allow_infinity=False)
    | st.text(),
    lambda inner: st.lists(inner, max_size=4) | st.dictionaries(st.text(), inner, max_size=4),
    max_leaves=8,
)  # fmt: skip
PADDING = {"padding": ["x" * 100] * (SMALL_BYTES_MAX // 100)}


def nested(depth: int) -> bytes:
    return b"[" * depth + b"]" * depth


@given(value=json_values)
def test_what_json_writes_is_read_as_it_was(value: Any) -> None:
    assert json_text.read(json.dumps(value).encode()) == value


@given(value=json_values)
def test_canonical_bytes_are_equal_exactly_where_the_values_are(value: Any) -> None:
    again = json.loads(json.dumps(value))

    assert json_text.canonical(again) == json_text.canonical(value)
    assert json_text.read(json_text.canonical(value)) == value


def test_integers_above_64_bits_are_read_as_floats() -> None:
    """No provider has ids that long; RFC 8259 promises no more than 53 bits."""
    for number in (2**64, -(2**63) - 1):
        assert json_text.read(b'{"id":%d}' % number) == {"id": float(number)}


def test_the_order_of_keys_does_not_show() -> None:
    assert json_text.canonical({"b": 1, "a": {"d": 2, "c": 3}}) == b'{"a":{"c":3,"d":2},"b":1}'


def test_of_duplicate_keys_the_last_counts() -> None:
    assert json_text.read(b'{"a": 1, "a": 2}') == {"a": 2}


@pytest.mark.parametrize("value", [2**70, "\ud800", {"a": [-(2**70)]}], ids=repr)
def test_large_integers_and_half_pairs_are_read_and_written(value: Any) -> None:
    body = json.dumps(value).encode()

    assert json_text.read(body) == value
    assert json_text.canonical(value) == json.dumps(value, separators=(",", ":")).encode()


@pytest.mark.parametrize("body", [b"", b"{", b"NaN", b"[Infinity]", b"\xff", b"{'a': 1}", b"1 2"])
def test_what_is_no_json_is_refused(body: bytes) -> None:
    with pytest.raises(ParseError, match="not JSON"):
        json_text.read(body)


def test_depth_has_a_limit_and_up_to_it_all_is_read() -> None:
    json_text.read(nested(DEPTH_MAX))

    for depth in (260, 1_000, 100_000):
        with pytest.raises(ParseError):
            json_text.read(nested(depth))


def test_one_bad_element_does_not_cost_the_others() -> None:
    values, unreadable = json_text.read_elements(b'[{"a": 1}, {oops}, "x,]", [2, 3]]')

    assert values == [{"a": 1}, "x,]", [2, 3]]
    assert [(one.position, one.raw) for one in unreadable] == [(1, b"{oops}")]


@pytest.mark.parametrize("body", [b'[{"a": 1}, oops', b"oops", b"[oops] x"])
def test_an_array_without_an_end_is_refused_as_a_whole(body: bytes) -> None:
    with pytest.raises(ParseError):
        json_text.read_elements(body)


def test_elements_that_are_no_objects_are_set_aside_with_their_place() -> None:
    objects, aside = json_text.read_objects(b'[7, {"a": 1}, {oops}, null, {"b": 2}]')

    assert objects == [{"a": 1}, {"b": 2}]
    assert [one.position for one in aside] == [0, 2, 3]
    assert aside[0] == Unreadable(0, "the element is not an object", b"7")


def test_a_bare_object_is_an_array_of_one_and_a_bare_value_is_refused() -> None:
    assert json_text.read_objects(b' {"a": 1}') == ([{"a": 1}], [])
    with pytest.raises(ParseError, match="neither"):
        json_text.read_objects(b"5")


@pytest.mark.parametrize("padding", [{}, PADDING], ids=["small", "large"])
def test_fields_are_read_alike_in_small_and_in_large_bodies(padding: dict[str, Any]) -> None:
    body = json.dumps({"a": "x", **padding, "b": {"c": [1]}}).encode()

    assert json_text.read_fields(body, ("a", "b", "missing")) == {"a": "x", "b": {"c": [1]}}


@pytest.mark.parametrize("padding", [b"", b'"p": "' + b"x" * SMALL_BYTES_MAX + b'", '])
@pytest.mark.parametrize("body", [b"[1]", b"{%s", b'{%s "a": }'])
def test_fields_of_what_is_no_object_are_refused(body: bytes, padding: bytes) -> None:
    with pytest.raises(ParseError):
        json_text.read_fields(body.replace(b"%s", padding), ("a",))


def test_half_a_pair_elsewhere_does_not_hide_a_field_but_one_in_it_does() -> None:
    padding = b'"p": "' + b"x" * SMALL_BYTES_MAX + b'"'

    fields = json_text.read_fields(b'{"a": "sign", "b": "\\ud800", ' + padding + b"}", ("a",))

    assert fields == {"a": "sign"}
    with pytest.raises(ParseError):
        json_text.read_fields(b'{"a": "\\ud800", ' + padding + b"}", ("a",))


def test_a_field_that_is_large_and_no_text_is_too_large() -> None:
    body = json.dumps({"a": PADDING}).encode()

    with pytest.raises(LargeFieldError, match="'a'"):
        json_text.read_fields(body, ("a",))


@pytest.mark.parametrize(
    ("value", "said"),
    [
        ("a\0b", "NUL"),
        ({"\0": 1}, "NUL"),
        (["\udfff"], "surrogate"),
        ({"a": 2**63}, "64 bits"),
        (-(2**63) - 1, "64 bits"),
        ([float("nan")], "NaN"),
        (float("inf"), "infinite"),
        (json.loads(nested(PLAIN_DEPTH_MAX + 1)), "deeper"),
    ],
    ids=lambda value: repr(value)[:20],
)
def test_a_value_that_cannot_be_kept_is_refused_with_the_reason(value: Any, said: str) -> None:
    with pytest.raises(ParseError, match=said):
        json_text.check_plain(value)


@pytest.mark.parametrize("value", [2**63 - 1, -(2**63), "ß€", {"a": [None, True, 0.5]}, []])
def test_a_plain_value_is_accepted(value: Any) -> None:
    json_text.check_plain(value)
