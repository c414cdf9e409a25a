"""A route's JMESPath expression, evaluated within a budget of steps.

JMESPath has no loops, yet what it makes can double with every operator: `to_string([@])` escapes
its own quotes, `[@, @] | [@, @]` doubles, and `[*][*]` visits every element of every element. It
runs in the process that records events for everybody, so it is counted, and stopped:

- a visit of a node costs one step;
- whatever walks or copies values (a function, a comparison, a flattening, a slice) costs, before
  it starts, one step for every value inside what it is given, and one more for every 64 characters
  of text. A value counts as often as it is reached: two references to one list are two lists.

So the time and the memory of an evaluation are proportional to its steps at most. What runs out of
steps is neither true nor false; the caller has to say so.
"""

from collections.abc import Mapping
from functools import lru_cache
from math import prod
from typing import Any

import jmespath
from jmespath import visitor
from jmespath.exceptions import JMESPathError
from jmespath.functions import Functions

CHARS_MAX = 1_000
# Of one evaluation; some three milliseconds.
STEPS_MAX = 5_000
# Of all the expressions of a workspace over one event: however many routes it has, one event
# costs everybody else no more than this.
EVENT_STEPS_MAX = 20_000
# How many times an expression may repeat what it is given: [@, @] | [@, @] … doubles with each.
COPIES_MAX = 64
# Each escapes the quotes of the one inside it: a text doubles with every level.
TEXTS_DEEP_MAX = 3
# Characters that cost as much as a visit.
STEP_CHARS = 64

# An expression is tried on an event with every field, which shows its faults beforehand.
_SAMPLE: Mapping[str, Any] = {
    **dict.fromkeys(
        ("schema", "id", "key", "identity", "source", "provider", "type", "bounce", "reject",
         "message_id", "recipient", "occurred_at", "received_at", "processed_at", "reason",
         "stream", "url", "user_agent", "ip", "conflict_with"),
        "a text of forty characters, more or less",
    ),
    "tags": ["receipt"] * 10,
    "metadata": {f"field-{number}": "a value of the sender's" for number in range(10)},
    # Present where a mail came in.
    "message": {
        "id": "msg_1",
        "from": {"address": "shop@example.com", "name": "A shop"},
        "to": [{"address": "ann@example.com", "name": None}] * 3,
        "subject": "a text of forty characters, more or less",
        "text": "some sentences that somebody wrote to somebody else " * 10,
        "attachments": [{"name": "invoice.pdf", "type": "application/pdf", "bytes": 1000}] * 3,
    },
    "machine": False,
    "late": False,
    "certain": True,
    "suspect": False,
}  # fmt: skip

# Raised where a function is given a value it cannot take, such as null, or that JSON cannot hold.
_NO_ANSWER = (JMESPathError, RecursionError, TypeError, ValueError, ArithmeticError, LookupError)


class TooManyStepsError(Exception):
    """An expression needs more steps than it has."""


def steps_of(expressions: int) -> int:
    """Divide a workspace's budget of steps for one event by the number of its expressions."""
    return min(STEPS_MAX, EVENT_STEPS_MAX // max(1, expressions))


def is_true(expression: str, shown: Mapping[str, Any], *, steps_max: int = STEPS_MAX) -> bool:
    """Say whether an event, as it is sent, passes an expression.

    Raises: TooManyStepsError.
    """
    try:
        result = _Counting(steps_max).visit(_parsed(expression), shown)
    except _NO_ANSWER:
        # A function was handed what it cannot take, such as null: that is no match.
        return False
    # JMESPath's own idea of truth: 0 is true, what is empty is not.
    return result is not None and result is not False and result not in ("", [], {})


def trouble_of(expression: str) -> str | None:
    """Say what is wrong with an expression and how to correct it, or None."""
    if len(expression) > CHARS_MAX:
        return f"`expression` is longer than {CHARS_MAX} characters; shorten it"
    try:
        node = _parsed(expression)
        copies, texts = _copies(node), _texts_deep(node)
    except (JMESPathError, RecursionError, ValueError) as error:
        first = str(error).partition("\n")[0][:200]
        return f"`expression` is not JMESPath ({first}); correct it"
    if copies > COPIES_MAX:
        return "`expression` repeats what it is given too often; use fewer […, …] and {…}"
    if texts > TEXTS_DEEP_MAX:
        return (
            f"`expression` has to_string or join more than {TEXTS_DEEP_MAX} deep inside each "
            "other; use fewer"
        )
    try:
        is_true(expression, _SAMPLE)
    except TooManyStepsError:
        return f"`expression` takes more than {STEPS_MAX} steps for one event; make it simpler"
    return None


class _Counting(visitor.TreeInterpreter):
    """JMESPath's own interpreter, which counts its steps."""

    def __init__(self, steps_max: int) -> None:
        super().__init__()
        self._left = steps_max

    def visit(self, node: Any, value: Any) -> Any:
        self._left -= 1
        if self._left < 0:
            raise TooManyStepsError
        return _VISITS[node["type"]](self, node, value)

    def visit_comparator(self, node: Any, value: Any) -> Any:
        left, right = (self.visit(child, value) for child in node["children"])
        self._pay(left, right)
        literals = [{"type": "literal", "value": one, "children": []} for one in (left, right)]
        given: Any = {**node, "children": literals}
        return super().visit_comparator(given, value)

    def visit_flatten(self, node: Any, value: Any) -> Any:
        base = self.visit(node["children"][0], value)
        if isinstance(base, list):
            self._spend(sum(len(one) if isinstance(one, list) else 1 for one in base))
        literal = {"type": "literal", "value": base, "children": []}
        given: Any = {**node, "children": [literal]}
        return super().visit_flatten(given, value)

    def visit_slice(self, node: Any, value: Any) -> Any:
        self._spend(len(value) if isinstance(value, list) else 0)
        return super().visit_slice(node, value)

    def visit_function_expression(self, node: Any, value: Any) -> Any:
        given = [self.visit(child, value) for child in node["children"]]
        self._pay(*given)
        if node["value"] == "join" and len(given) == 2 and isinstance(given[1], list):
            self._spend(len(given[1]) * (len(str(given[0])[:CHARS_MAX]) // STEP_CHARS))
        return _FUNCTIONS.call_function(node["value"], given)

    def _spend(self, steps: int) -> None:
        self._left -= steps
        if self._left < 0:
            raise TooManyStepsError

    def _pay(self, *values: Any) -> None:
        """Pay for walking through values, as often as each is reached."""
        waiting = list(values)
        while waiting:
            value = waiting.pop()
            steps = 1
            if isinstance(value, str):
                steps += len(value) // STEP_CHARS
            elif isinstance(value, list):
                self._spend(len(value))
                waiting += value
            elif isinstance(value, dict):
                self._spend(len(value))
                waiting += value.values()
            self._spend(steps)


_FUNCTIONS = Functions()
_VISITS = {
    name.removeprefix("visit_"): getattr(_Counting, name)
    for name in dir(_Counting)
    if name.startswith("visit_")
}


@lru_cache(maxsize=1024)
def _parsed(expression: str) -> Any:
    return jmespath.compile(expression).parsed


def _copies(node: Any) -> int:
    """Give an upper bound of how often an expression repeats its input in its result."""
    children = node["children"]
    own = len(children) if node["type"] in {"multi_select_list", "multi_select_dict"} else 1
    inner = prod(_copies(child) for child in children if isinstance(child, dict))
    return min(max(own, 1) * inner, COPIES_MAX + 1)


def _texts_deep(node: Any) -> int:
    own = node["type"] == "function_expression" and node["value"] in {"to_string", "join"}
    inner = (_texts_deep(child) for child in node["children"] if isinstance(child, dict))
    return own + max(inner, default=0)
