"""Whatever a body holds, it is parsed or refused: never an accident, never unstorable text."""

import copy
import json
from collections.abc import Iterator, Mapping, Sequence
from types import MappingProxyType
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from mailonce import providers
from mailonce.core import json_text
from mailonce.core.arrivals.arrival import Arrival
from mailonce.core.arrivals.provider import Parsed
from mailonce.core.events.key import keys_of
from mailonce.core.reading.values import ADDRESS_CHARS_MAX, TEXT_CHARS_MAX, TIME_MS_MAX
from mailonce.errors import ParseError
from tests.providers.cases import (
    SCOPE,
    Case,
    all_cases,
    arrival_of,
    each_provider,
    find,
    parse,
    provider_of,
    source_of,
)
from tests.providers.signing import sendgrid_public_key

JSON_CASES = [case for case in all_cases() if case.value is not None]
FORM_CASES = [case for case in all_cases() if case.value is None]
# Elastic Email, for one, knows forms only.
JSON_PROVIDERS = sorted({case.provider for case in JSON_CASES})

REMOVED = object()
HOSTILE: list[Any] = [
    REMOVED,
    None,
    True,
    0,
    -1,
    2**70,
    1e308,
    "",
    "x" * 5_000,
    "\ud800",
    "a\x00b",
    "(" * 5_000 + "<",
    "ﬁ@ẞ.example",
    [],
    [None, {}, "\ud800"],
    {},
    {"a": {"b": [{"c": "\x00"}]}},
]

# On a busy machine the first example, which imports, may be slow.
unhurried = settings(deadline=None)

json_values = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats(allow_nan=False) | st.text(),
    lambda inner: st.lists(inner, max_size=4) | st.dictionaries(st.text(), inner, max_size=4),
    max_leaves=8,
)


# Every field of every case, with some of the values each time: each value meets each kind of field.
@pytest.mark.parametrize(
    "step",
    [20, pytest.param(5, marks=pytest.mark.slow), pytest.param(1, marks=pytest.mark.long)],
)
@each_provider(JSON_CASES)
def test_any_field_may_be_missing_or_of_another_type(
    cases: Sequence[Case], step: int, subtests: pytest.Subtests
) -> None:
    for case in cases:
        with subtests.test(case.name):
            for number, path in enumerate(_paths(case.value)):
                for value in HOSTILE[number % step :: step]:
                    body = json.dumps(_put(case.value, path, value)).encode()

                    _parse_or_refuse(case.provider, arrival_of(body, case.headers), case.options)


@each_provider(FORM_CASES)
def test_a_form_may_end_anywhere(cases: Sequence[Case], subtests: pytest.Subtests) -> None:
    for case in cases:
        with subtests.test(case.name):
            for end in range(len(case.body)):
                _parse_or_refuse(case.provider, arrival_of(case.body[:end], case.headers))


@pytest.mark.parametrize("provider", JSON_PROVIDERS)
@unhurried
@given(data=st.data())
def test_fields_may_hold_anything(provider: str, data: st.DataObject) -> None:
    case = data.draw(st.sampled_from([one for one in JSON_CASES if one.provider == provider]))
    body = case.value
    for _ in range(data.draw(st.integers(1, 3))):
        path = data.draw(st.sampled_from(list(_paths(body)) or [()]))
        body = _put(body, path, data.draw(json_values))

    _parse_or_refuse(provider, arrival_of(json.dumps(body).encode(), case.headers), case.options)


@pytest.mark.parametrize("provider", providers.names())
@unhurried
@given(body=st.binary() | json_values.map(lambda value: json.dumps(value).encode()))
def test_a_body_may_be_anything(provider: str, body: bytes) -> None:
    _parse_or_refuse(provider, arrival_of(body))


@pytest.mark.parametrize("provider", JSON_PROVIDERS)
def test_a_body_may_be_nested_to_any_depth(provider: str, subtests: pytest.Subtests) -> None:
    case = next(one for one in JSON_CASES if one.provider == provider)
    holder = json.dumps(_put(case.value, next(iter(_paths(case.value))), {"n": "HERE"}))
    for depth in (199, 201, 253, 255, 1_000, 100_000):
        with subtests.test(depth=depth):
            nested = b"[" * depth + b"]" * depth

            _parse_or_refuse(provider, arrival_of(holder.encode().replace(b'"HERE"', nested)))


@pytest.mark.parametrize("provider", ["elasticemail", "mailgun", "smtp2go"])
@unhurried
@given(
    content_type=st.text(max_size=40).map(lambda text: "multipart/form-data; boundary=" + text)
    | st.sampled_from(
        [
            "multipart/form-data",
            "multipart/form-data; boundary=x1",
            "application/x-www-form-urlencoded",
        ]
    ),
    body=st.binary() | st.binary().map(lambda part: b"--x1\r\n" + part + b"\r\n--x1--"),
)
def test_a_form_may_hold_anything(provider: str, content_type: str, body: bytes) -> None:
    _parse_or_refuse(provider, arrival_of(body, {"Content-Type": content_type}))


@pytest.mark.timeout(60)
def test_a_megabyte_of_quotes_is_refused_in_linear_time() -> None:
    with pytest.raises(ParseError):
        parse("sendgrid", b"[" + b'\\"' * 500_000)


def test_a_form_of_a_million_fields_is_refused() -> None:
    headers = find("mailgun", "form_opened").headers

    with pytest.raises(ParseError):
        provider_of("mailgun").parse(arrival_of(b"a=1&" * 1_000_000, headers), source_of("mailgun"))


def _parse_or_refuse(
    name: str, arrival: Arrival, options: Mapping[str, Any] = MappingProxyType({})
) -> None:
    provider = provider_of(name)
    source = source_of(
        name,
        secrets=("old",),
        public_keys=(sendgrid_public_key("old"),),
        options={"parent_signature": True, **options},
    )
    provider.probe(arrival, source)
    provider.verify(arrival, source, {})
    try:
        parsed = provider.parse(arrival, source)
    except ParseError:
        return
    _assert_storable(parsed)


def _assert_storable(parsed: Parsed) -> None:
    texts: list[str | None] = [parsed.delivery_id]
    texts += [parsed.guard.value if parsed.guard else None]
    for event in parsed.events:
        keys_of(SCOPE, event.identity)
        json_text.canonical(event.raw)
        assert event.occurred_ms is None or 0 <= event.occurred_ms <= TIME_MS_MAX
        assert len(event.message_id) <= 400
        # Folding the case may lengthen a text, at most threefold.
        assert len(event.recipient) <= 3 * ADDRESS_CHARS_MAX
        texts += [event.message_id, event.recipient, event.reason, event.stream, *event.tags]
        texts += [event.url, event.user_agent, event.ip, *event.metadata]
        texts += [value for value in event.metadata.values() if not isinstance(value, bool)]
    for text in texts:
        if text is not None:
            assert isinstance(text, str)
            assert len(text) <= TEXT_CHARS_MAX
            assert "\x00" not in text
            text.encode()


def _paths(value: Any, path: tuple[Any, ...] = ()) -> Iterator[tuple[Any, ...]]:
    """Walk to every place within a JSON value, the outermost first."""
    children: Any = ()
    if isinstance(value, dict):
        children = value.items()
    elif isinstance(value, list):
        children = enumerate(value)
    for name, child in children:
        yield (*path, name)
        yield from _paths(child, (*path, name))


def _put(value: Any, path: tuple[Any, ...], new: Any) -> Any:
    """Give a copy of `value` that has `new` at `path`."""
    if not path:
        return new
    changed = copy.copy(value)
    if len(path) == 1 and new is REMOVED:
        del changed[path[0]]
    else:
        changed[path[0]] = _put(value[path[0]], path[1:], new)
    return changed
