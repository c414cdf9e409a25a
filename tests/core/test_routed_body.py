"""What a route is sent of an event: its own bytes, nothing, or why there are none."""

from dataclasses import replace
from typing import Any

import orjson
import pytest

from mailonce.core.deliveries.delivery import unroutable_reason
from mailonce.core.deliveries.route import Route
from mailonce.core.deliveries.routed_body import body_for, steps_max_of
from tests.core.test_route import EVENT, ROUTE, shown


def body(route: Route, *, steps_max: int = 10_000) -> bytes | None:
    return body_for(route, "src_main", EVENT, shown, steps_max=steps_max)


def test_a_plain_route_is_sent_the_event_and_its_own_name() -> None:
    made = body(ROUTE)

    assert made is not None
    assert orjson.loads(made) == {**shown(), "route_id": ROUTE.id}
    assert body(replace(ROUTE, id="rte_2")) != made


@pytest.mark.parametrize("expression", ["type == 'opened'", "`false`", "nothing"])
def test_a_route_that_does_not_take_it_is_sent_nothing(expression: str) -> None:
    assert body(replace(ROUTE, expression=expression)) is None


def test_a_mapping_sees_the_event_and_the_route() -> None:
    made = body(replace(ROUTE, mapping={"who": "$.recipient", "where": "$.route_id"}))

    assert made is not None
    assert orjson.loads(made) == {"who": EVENT.recipient, "where": ROUTE.id}


@pytest.mark.parametrize(
    ("settings", "reason"),
    [
        ({"expression": "metadata.* | [?@ == 'pro'] && tags[*] && tags[*]"}, "3 steps"),
        ({"mapping": ["$.metadata"] * 100_000}, "bytes"),
    ],
    ids=["expression", "mapping"],
)
def test_what_fails_is_owed_as_a_failure_with_its_reason(
    settings: dict[str, Any], reason: str
) -> None:
    made = body(replace(ROUTE, **settings), steps_max=3)

    assert made is not None
    assert reason in (unroutable_reason(made) or "")
    assert orjson.loads(made)["id"] == shown()["id"]


def test_a_good_body_is_no_failure() -> None:
    made = body(ROUTE)

    assert made is not None
    assert unroutable_reason(made) is None


def test_many_expressions_share_what_few_have_for_themselves() -> None:
    filtered = replace(ROUTE, expression="type")

    assert steps_max_of([ROUTE] * 50) == steps_max_of([])
    assert steps_max_of([filtered] * 100) < steps_max_of([filtered])
