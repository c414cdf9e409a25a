"""Routes: what passes a filter, what a mapping makes, and what is refused beforehand."""

from dataclasses import replace
from typing import Any

import orjson
import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st
from msgspec import structs
from pydantic import ValidationError

from mailonce.core.arrivals.source import Source
from mailonce.core.deliveries.delivery import shown_event
from mailonce.core.deliveries.route import (
    Route,
    RouteKind,
    RouteSecret,
    Unroutable,
    check_route,
    mapped_body,
    takes,
)
from mailonce.core.events.event import Bounce, Event, EventType
from mailonce.core.events.key import Identity, Key, Recipe
from mailonce.core.ids import EventId, mint
from mailonce.errors import ConfigError
from mailonce.manage.sources import check_source
from mailonce.settings import RouteSettings

IDENTITY = Identity(Recipe(name="test", version=1, identity=("id",)), {"id": 1})
EVENT = Event(
    type=EventType.BOUNCED,
    identity=IDENTITY,
    message_id="m-1",
    recipient="Ada@Mail.Example.com",
    occurred_ms=1_767_225_600_000,
    bounce=Bounce.HARD,
    tags=("receipt", "eu"),
    metadata={"plan": "pro", "seats": 1, "beta": True, "deep": {"a": [1, {"b": "c"}]}},
    url="https://example.com/?a=b",
)
ROUTE = Route(id="rte_1", workspace="default", name="crm", url="https://example.com")
WINDOW_S = 35 * 86_400

JSON = st.recursive(
    st.none() | st.booleans() | st.integers(-(2**53), 2**53) | st.text(max_size=20)
    | st.floats(allow_nan=False, allow_infinity=False),
    lambda inner: st.lists(inner, max_size=4)
    | st.dictionaries(st.text(max_size=8), inner, max_size=4),
    max_leaves=12,
)  # fmt: skip
FUNCTIONS = (
    "abs", "avg", "contains", "ceil", "ends_with", "floor", "join", "keys", "length", "map",
    "max", "max_by", "merge", "min", "not_null", "reverse", "sort", "sort_by", "starts_with",
    "sum", "to_array", "to_number", "to_string", "type", "values",
)  # fmt: skip
FIELDS = ("type", "tags", "metadata", "recipient", "occurred_at", "machine", "nothing", "@", "*")
PIECES = st.sampled_from(
    (*FUNCTIONS, *FIELDS, ".", "[*]", "[]", "[0]", "[?", "]", "(", ")", "|", "||", "&&", "!", "==",
     "<", "&", ",", "`1`", "`null`", "'x'", "{a: @}", "[@, @]", "'1e999'", "metadata.plan")
)  # fmt: skip
SENSIBLE = st.builds(
    lambda function, inner: f"{function}({inner})",
    st.sampled_from(FUNCTIONS),
    st.sampled_from([*FIELDS, "to_number('1e999')", "tags, 'eu'", "',', tags", "&@, tags", "''"]),
)
EXPRESSIONS = SENSIBLE | st.lists(PIECES, max_size=12).map("".join) | st.text(max_size=40)


def shown(event: Event = EVENT) -> dict[str, Any]:
    return shown_event(
        event,
        id_=EventId(mint(1_767_225_600_000, bytes(10))),
        key=Key(bytes(16)),
        source="src_main",
        account="sesmetric/main",
        received_ms=1_767_225_600_000,
        conflict_with=None,
    )


def passes(event: Event = EVENT, source: str = "src_main", **filters: Any) -> bool:
    taken = takes(replace(ROUTE, **filters), source, event, lambda: shown(event))
    assert not isinstance(taken, Unroutable)
    return taken


@pytest.mark.parametrize(
    ("filters", "expected"),
    [
        ({}, True),
        ({"events": ("bounced",)}, True),
        ({"events": ("opened", "bounced")}, True),
        ({"events": ("opened",)}, False),
        ({"sources": ("src_main",)}, True),
        ({"sources": ("src_other",)}, False),
        ({"domains": ("mail.example.com",)}, True),
        ({"domains": ("example.com",)}, True),
        ({"domains": ("ple.com",)}, False),
        ({"tags": ("eu", "us")}, True),
        ({"tags": ("us",)}, False),
        ({"metadata": {"plan": "pro", "seats": 1}}, True),
        ({"metadata": {"plan": "pro", "seats": 2}}, False),
        ({"metadata": {"seats": True}}, False),
        ({"metadata": {"beta": 1}}, False),
        ({"metadata": {"deep": {"a": [1, {"b": "c"}]}}}, True),
        ({"metadata": {"missing": None}}, True),
        ({"expression": "bounce == 'hard'"}, True),
        ({"expression": "type == 'bounced' && contains(tags, 'eu')"}, True),
        ({"expression": "tags[0] == 'receipt'"}, True),
        ({"expression": "starts_with(type, 'boun')"}, True),
        ({"expression": "metadata.seats > `0`"}, True),
        ({"expression": "metadata.seats > `1`"}, False),
        ({"expression": "metadata.deep.a[1].b"}, True),
        ({"expression": "metadata.none"}, False),
        ({"expression": "contains(stream, 'x')"}, False),
        ({"expression": "ceil(to_number('1e999'))"}, False),
        ({"expression": "`0`"}, True),
        ({"expression": "`[]`"}, False),
        ({"events": ("bounced",), "tags": ("us",)}, False),
    ],
    ids=str,
)
def test_every_filter_must_agree(filters: dict[str, Any], expected: bool) -> None:  # noqa: FBT001
    assert passes(**filters) is expected


@pytest.mark.parametrize("recipient", ["", "example.com", "a@", "@", "a@notexample.com"])
def test_a_domain_is_that_of_an_address(recipient: str) -> None:
    assert not passes(structs.replace(EVENT, recipient=recipient), domains=("example.com",))


@settings(max_examples=4 * settings().max_examples, deadline=None)
@example("ceil(to_number('1e999'))", {})
@example("sort_by(metadata.a, &b)", {"a": [{"b": 1}, {"b": "x"}]})
@given(expression=EXPRESSIONS, metadata=st.dictionaries(st.text(max_size=8), JSON, max_size=4))
def test_no_expression_that_is_let_in_ever_raises(
    expression: str, metadata: dict[str, Any]
) -> None:
    route = replace(ROUTE, expression=expression)
    try:
        check_route(route, window_s=WINDOW_S)
    except ConfigError:
        return
    event = structs.replace(EVENT, metadata=metadata)

    taken = takes(route, "src_main", event, lambda: shown(event))

    assert isinstance(taken, bool | Unroutable)


@settings(deadline=None)
@given(mapping=JSON, metadata=st.dictionaries(st.text(max_size=8), JSON, max_size=4))
def test_a_mapping_that_is_let_in_always_makes_a_body(mapping: Any, metadata: Any) -> None:
    route = replace(ROUTE, mapping=mapping)
    check_route(route, window_s=WINDOW_S)

    body = mapped_body(route, shown(structs.replace(EVENT, metadata=metadata)))

    assert isinstance(body, bytes)
    assert orjson.loads(body) is not Ellipsis


def test_a_mapping_takes_values_from_the_event() -> None:
    mapping = {
        "what": "$.type", "who": ["$.recipient", "literal"], "first": "$.tags.0",
        "deep": "$.metadata.deep.a.1.b", "none": "$.metadata.x.y", "price": "$$.10",
        "nested": {"bounce": "$.bounce"}, "far": "$.tags.9", "number": 5,
    }  # fmt: skip

    made = mapped_body(replace(ROUTE, mapping=mapping), shown())

    assert isinstance(made, bytes)
    assert orjson.loads(made) == {
        "what": "bounced", "who": ["Ada@Mail.Example.com", "literal"], "first": "receipt",
        "deep": "c", "none": None, "price": "$.10", "nested": {"bounce": "hard"}, "far": None,
        "number": 5,
    }  # fmt: skip


def deep(levels: int) -> Any:
    value: Any = 1
    for _ in range(levels):
        value = [value]
    return value


@pytest.mark.parametrize(
    ("changes", "word"),
    [
        ({"events": ()}, "events"),
        ({"events": ("bounce",)}, "'bounce'"),
        ({"url": ""}, "url"),
        ({"domains": ("a@b",)}, "domains"),
        ({"domains": ("",)}, "domains"),
        ({"expression": "type =="}, "JMESPath"),
        ({"expression": "(" * 900}, "JMESPath"),
        ({"expression": "a" * 1001}, "longer"),
        ({"expression": "|".join(["[@,@]"] * 12)}, "repeats"),
        ({"expression": "to_string(" + "|".join(["{a:@,b:@}"] * 40) + ")"}, "repeats"),
        ({"mapping": deep(30)}, "deep"),
        ({"mapping": ["x" * 30_000]}, "larger"),
        ({"mapping": ["$.metadata"] * 200}, "paths"),
        ({"headers": {"X-Key": "a\r\nb"}}, "X-Key"),
        ({"headers": {"": "a"}}, "headers"),
        ({"headers": {"webhook-id": "a"}}, "sets itself"),
        ({"headers": {"X-Idempotency-Key": "a"}}, "sets itself"),
        ({"headers": {"Content-Type": "a"}}, "sets itself"),
        ({"headers": {f"x-{number}": "" for number in range(21)}}, "headers"),
        ({"deadline_s": WINDOW_S + 1}, "deadline_s"),
        ({"domains": ("example.com",) * 501}, "domains"),
        ({"tags": ("x",) * 101}, "tags"),
        ({"tags": ("x" * 201,)}, "tags"),
        ({"tags": ("\x00",)}, "tags"),
        ({"sources": ("\ud800",)}, "sources"),
        ({"url": "https://example.com/" + "x" * 2_048}, "url"),
        ({"events": ("*",) * 51}, "events"),
        ({"metadata": {str(number): 1 for number in range(21)}}, "metadata"),
        ({"metadata": {"a": "x" * 4_001}}, "metadata"),
        ({"metadata": {"a": 1 << 64}}, "metadata"),
        ({"metadata": {"a": "\ud800"}}, "metadata"),
        ({"metadata": {"a": deep(30)}}, "metadata"),
        ({"mapping": {"a": 1 << 64}}, "mapping"),
        ({"mapping": deep(300)}, "mapping"),
        ({"secrets": (RouteSecret("whsec_x"),) * 6}, "secret"),
        ({"headers": {f"x-{number}": "v" * 1_000 for number in range(9)}}, "headers"),
        ({"waits_s": (1,) * 51}, "waits_s"),
    ],
    ids=lambda value: ascii(value)[:40],
)
def test_what_cannot_work_is_refused_in_one_sentence(changes: dict[str, Any], word: str) -> None:
    with pytest.raises(ConfigError, match=word) as refused:
        check_route(replace(ROUTE, **changes), window_s=WINDOW_S)

    assert "\n" not in str(refused.value)
    assert str(refused.value).startswith("route 'crm'")


SOURCE = Source(id="src_1", workspace="default", name="s", provider="sesmetric", account="a")


@pytest.mark.parametrize(
    ("changes", "word"),
    [
        ({"secrets": ("x",) * 11}, "secrets"),
        ({"secrets": ("x" * 1_001,)}, "secrets"),
        ({"tokens": ("\x00",)}, "tokens"),
        ({"allow_ips": ("10.0.0.1",) * 501}, "allow_ips"),
        ({"topic_arns": ("x",) * 101}, "topic_arns"),
        ({"account": "x" * 201}, "account"),
        ({"account": "\ud800"}, "account"),
        ({"options": {"a": "x" * 20_001}}, "options"),
        ({"options": {"a": deep(300)}}, "options"),
        ({"options": {"a": 1 << 64}}, "options"),
    ],
    ids=lambda value: ascii(value)[:40],
)
def test_a_source_that_is_too_large_is_refused(changes: dict[str, Any], word: str) -> None:
    with pytest.raises(ConfigError, match=f"source 's': `{word}` .*; ") as refused:
        check_source(replace(SOURCE, **changes), window_days=35)

    assert "\n" not in str(refused.value)


def test_a_handler_is_not_made_by_settings() -> None:
    with pytest.raises(ValidationError, match="mailonce serve --app"):
        RouteSettings(kind=RouteKind.HANDLER)
