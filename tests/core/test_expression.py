"""Expressions are stopped before they cost anybody else time or memory."""

from collections.abc import Mapping
from dataclasses import replace
from typing import Any

import jmespath
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from jmespath.exceptions import JMESPathError

from mailonce.core.deliveries import expression
from mailonce.core.deliveries.expression import (
    EVENT_STEPS_MAX,
    STEPS_MAX,
    TooManyStepsError,
    steps_of,
)
from mailonce.core.deliveries.route import check_route
from mailonce.errors import ConfigError
from tests.core.test_route import EXPRESSIONS, JSON, ROUTE, WINDOW_S, shown

LARGE: Mapping[str, Any] = {
    **shown(),
    "tags": ["x" * 200] * 50,
    "metadata": {f"field-{number}": "v" * 2_000 for number in range(50)},
}
# Each doubles or squares what it is given with every operator.
BOMBS = [
    "to_string([" * 40 + "@" + "])" * 40,
    "|".join(["to_string([@])"] * 60),
    "|".join(["[@,@][]"] * 90),
    "|".join(["{a:@,b:@}"] * 60) + "|to_string(@)",
    "|".join(["[@,@]"] * 50) + " == " + "|".join(["[@,@]"] * 50),
    "|".join(["[@,@]"] * 60) + "|contains(@, @)",
    "|".join(["map(&[@,@], to_array(@))[]"] * 30),
    "|".join(["[@,@,@,@,@,@,@,@][]|sort_by(@, &to_string(@))"] * 15),
    "values(merge(@, {a: to_string(@), b: to_string(@)}))" + "|[@,@][]" * 60,
]
# These only repeat references, which is cheap as long as nobody walks through them.
WIDE = [
    "|".join(["[@,@]"] * 100),
    "|".join(["[join('" + "x" * 30 + "', values(@.metadata)), @]"] * 12),
    "[*][*][*][*]|" + "|".join(["[@,@]"] * 90),
]


@pytest.mark.parametrize("bomb", [*BOMBS, *WIDE], ids=lambda text: text[:30])
def test_what_would_grow_without_bound_is_refused(bomb: str) -> None:
    with pytest.raises(ConfigError, match=r"`expression` .*; (use fewer|make it simpler)"):
        check_route(replace(ROUTE, expression=bomb), window_s=WINDOW_S)


@pytest.mark.parametrize("bomb", BOMBS, ids=lambda text: text[:30])
def test_one_that_is_stored_already_is_stopped(bomb: str) -> None:
    """None of these could end in a lifetime, or in this machine's memory."""
    with pytest.raises(TooManyStepsError):
        expression.is_true(bomb, LARGE)


def test_a_budget_is_shared_by_the_routes_of_a_workspace() -> None:
    assert steps_of(0) == steps_of(4) == STEPS_MAX
    assert steps_of(200) == EVENT_STEPS_MAX // 200
    with pytest.raises(TooManyStepsError):
        expression.is_true("length(tags[*])", LARGE, steps_max=steps_of(200))


@settings(max_examples=4 * settings().max_examples, deadline=None)
@given(text=EXPRESSIONS, metadata=st.dictionaries(st.text(max_size=8), JSON, max_size=4))
def test_within_its_budget_it_says_what_jmespath_says(text: str, metadata: Any) -> None:
    if expression.trouble_of(text) is not None:
        return
    event = {**shown(), "metadata": metadata}
    try:
        result = jmespath.search(text, event)
        expected = result is not None and result is not False and result not in ("", [], {})
    except (JMESPathError, RecursionError, TypeError, ValueError, ArithmeticError, LookupError):
        expected = False

    assert expression.is_true(text, event) is expected
