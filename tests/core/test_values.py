"""Taking typed values out of whatever a provider sent."""

from typing import Any

import pytest

from mailonce.core import json_text
from mailonce.core.json_text import Unreadable
from mailonce.core.reading import values
from mailonce.errors import ParseError


@pytest.mark.parametrize(
    ("value", "found"),
    [
        ("Ann <Ann@Example.net>", ("ann@example.net", True)),
        (["ann@example.net"], ("ann@example.net", True)),
        (["ann@example.net", "ANN@example.net", ""], ("ann@example.net", True)),
        (["ann@example.net", "bob@example.net"], ("", False)),
        ([], ("", True)),
        (None, ("", True)),
    ],
)
def test_of_several_recipients_none_is_certain(value: Any, found: tuple[str, bool]) -> None:
    assert values.recipient_of(value) == found


@pytest.mark.parametrize(
    ("value", "ms"),
    [
        (1_767_225_605, 1_767_225_605_000),
        ("1767225605", 1_767_225_605_000),
        ("2026-01-01T00:00:05.123+00:00", 1_767_225_605_123),
        ("2026-01-01 00:00:05", 1_767_225_605_000),
        ("soon", None),
        (True, None),
    ],
)
def test_a_time_is_read_as_seconds_or_as_iso(value: Any, ms: int | None) -> None:
    assert values.time_ms_of(value) == ms


@pytest.mark.parametrize(
    ("value", "found"),
    [
        ('{"order":"77","vip":true}', {"order": "77", "vip": True}),
        ("order-77", {"Payload": "order-77"}),
        ("[1]", {"Payload": "[1]"}),
        ("{" * 300, {"Payload": "{" * 300}),
        (77, {"Payload": "77"}),
        ("", {}),
        (None, {}),
        ({"order": "77"}, {}),
    ],
)
def test_data_within_a_text_is_json_or_the_text(value: Any, found: dict[str, Any]) -> None:
    assert values.metadata_in(value, "Payload") == found


def test_the_first_text_is_the_one_that_is_not_empty() -> None:
    assert values.first_text_of(None, "", {}, 5, "x") == "5"
    assert values.first_text_of() is None


def test_elements_that_are_no_objects_are_set_aside_in_their_places() -> None:
    objects, unreadable = json_text.read_objects(b'[5, {"a":1}, {broken}, [], {"a":2}]')

    assert objects == [{"a": 1}, {"a": 2}]
    assert [(one.position, one.raw) for one in unreadable] == [
        (0, b"5"),
        (2, b"{broken}"),
        (3, b"[]"),
    ]
    assert unreadable[0] == Unreadable(0, "the element is not an object", b"5")


def test_a_bare_object_is_an_array_of_one() -> None:
    assert json_text.read_objects(b' {"a":1}') == ([{"a": 1}], [])


@pytest.mark.parametrize("body", [b"", b"5", b"null", b'"[]"', b"\xff"])
def test_what_is_neither_array_nor_object_is_refused(body: bytes) -> None:
    with pytest.raises(ParseError):
        json_text.read_objects(body)


@pytest.mark.parametrize(
    ("text", "address"),
    [
        ("Ann@Example.com", "ann@example.com"),
        ("Ann <ann@example.com.>", "ann@example.com"),
        ('"Ann"@example.com', "ann@example.com"),
        ('"a b"@example.com', '"a b"@example.com'),
        ("ann@B\u00fccher.example", "ann@xn--bcher-kva.example"),
        ("\u00c4nn@example.com", "\u00e4nn@example.com"),
        ("ann@a\ufffdb", "ann@a\ufffdb"),
        ("no address.", "no address."),
    ],
)
def test_an_address_has_one_spelling(text: str, address: str) -> None:
    assert values.address_of(text) == address
