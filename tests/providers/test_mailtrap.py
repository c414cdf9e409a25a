"""Mailtrap: four shapes of one body, and elements that cannot be read."""

import json
from typing import Any

import pytest

from mailonce.errors import ParseError
from mailonce.providers.mailtrap import PROVIDER
from tests.providers.cases import find, keys, parse, source_of

[DELIVERY, BOUNCE, SPAM] = find("mailtrap", "batch").value["events"]
BROKEN = b'{"event":"open",}'


def as_bytes(*events: Any) -> list[bytes]:
    return [json.dumps(one).encode() for one in events]


def shapes(*elements: bytes) -> list[bytes]:
    array = b"[" + b",".join(elements) + b"]"
    return [array, b'{"events":' + array + b"}", b"\n".join(elements) + b"\n"]


def test_the_shapes_of_one_body_are_copies() -> None:
    event_keys = [keys("mailtrap", body) for body in shapes(*as_bytes(DELIVERY, BOUNCE, SPAM))]

    assert event_keys[0] == event_keys[1] == event_keys[2]
    assert len({one.key for one in event_keys[0]}) == 3


def test_a_bare_event_and_a_line_alone_are_the_same() -> None:
    [line] = as_bytes(DELIVERY)

    assert keys("mailtrap", line) == keys("mailtrap", line + b"\r\n") == keys("mailtrap", DELIVERY)


@pytest.mark.parametrize("shape", [0, 1, 2], ids=["array", "events", "lines"])
@pytest.mark.parametrize("bad", [BROKEN, b"5", b'"x"'])
def test_an_unreadable_element_costs_no_other_in_any_shape(shape: int, bad: bytes) -> None:
    first, last = as_bytes(DELIVERY, SPAM)

    parsed = parse("mailtrap", shapes(first, bad, last)[shape])

    assert [event.raw for event in parsed.events] == [DELIVERY, SPAM]
    assert [(one.position, one.raw) for one in parsed.unreadable] == [(1, bad)]


@pytest.mark.parametrize("body", [b"{}", b'{"events":7}', b'{"event', b"5\n6", b"\n\n", BROKEN])
def test_a_body_without_any_event_is_a_parse_error(body: bytes) -> None:
    with pytest.raises(ParseError):
        parse("mailtrap", body)


@pytest.mark.timeout(60)
def test_a_megabyte_of_brackets_is_refused_in_linear_time() -> None:
    with pytest.raises(ParseError):
        parse("mailtrap", b'{"events":[' + b"] }" * 400_000 + b"x")


@pytest.mark.parametrize(
    "options",
    [{"suspension": "ignored"}, {"suspension": ["rejected"]}, {"blocked_categories": "spam"}],
)
def test_an_unknown_option_is_named(options: dict[str, Any]) -> None:
    source = source_of("mailtrap", secrets=("s",), options=options)

    assert next(iter(options)) in (PROVIDER.check(source) or "")
    assert PROVIDER.check(source_of("mailtrap", secrets=("s",))) is None
