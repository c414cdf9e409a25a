"""No pattern can take more than linear time, times a small factor: this looks at the patterns.

A clock would show only the input that somebody thought of. So each pattern that mail is compared
with is taken apart: a repetition without a limit may not stand inside of another repetition, nor
right behind another one that could take the same character; bounded ones multiply to little.
"""

import importlib
import pkgutil
import re
from collections.abc import Iterator
from re import _constants as constants  # type: ignore[attr-defined]
from re import _parser as parser  # type: ignore[attr-defined]
from typing import Any

import pytest

import mailonce.core.extraction

# How often a character may be looked at because of repetitions inside each other.
PRODUCT_MAX = 20_000


# How HTML is read on the way to what is searched.
HTML_MODULES = (
    "appearance", "css", "css_values", "html_tokens", "invisible_characters", "open_elements",
    "style_sheet", "visible_text",
)  # fmt: skip


def patterns() -> Iterator[tuple[str, re.Pattern[str]]]:
    package = mailonce.core.extraction
    names = [f"{package.__name__}.{one.name}" for one in pkgutil.iter_modules(package.__path__)]
    names += [f"mailonce.core.mail.{name}" for name in HTML_MODULES]
    for name in names:
        for key, value in vars(importlib.import_module(name)).items():
            for number, one in enumerate(_flat(value)):
                if isinstance(one, re.Pattern):
                    yield f"{name}.{key}[{number}]", one


def _flat(value: Any) -> Iterator[Any]:
    if isinstance(value, dict):
        value = tuple(value.values())
    if isinstance(value, tuple):
        for one in value:
            yield from _flat(one)
    else:
        yield value


def worst(nodes: Any) -> int:
    """Give how often repetitions inside each other multiply; without a limit counts as 1 once."""
    most = 1
    for kind, argument in nodes:
        inner = 1
        if kind in {constants.MAX_REPEAT, constants.MIN_REPEAT}:
            low, high, body = argument
            nested = worst(body)
            is_endless = high is constants.MAXREPEAT
            assert not (is_endless and has_repeat(body)), "a repetition inside an endless one"
            inner = nested if is_endless else max(1, high) * nested
            del low
        elif kind is constants.SUBPATTERN:
            inner = worst(argument[3])
        elif kind is constants.BRANCH:
            inner = max(worst(branch) for branch in argument[1])
        elif kind in {constants.ASSERT, constants.ASSERT_NOT}:
            inner = worst(argument[1])
        most = max(most, inner)
    return most


def has_repeat(nodes: Any) -> bool:
    for kind, argument in nodes:
        if kind in {constants.MAX_REPEAT, constants.MIN_REPEAT}:
            if argument[1] > 1:
                return True
            if has_repeat(argument[2]):
                return True
        elif (kind is constants.SUBPATTERN and has_repeat(argument[3])) or (
            kind is constants.BRANCH and any(has_repeat(branch) for branch in argument[1])
        ):
            return True
    return False


def test_patterns_are_there() -> None:
    assert len(list(patterns())) > 60


def test_no_repetition_multiplies_beyond_bounds(subtests: pytest.Subtests) -> None:
    for name, pattern in patterns():
        with subtests.test(name):
            tree = parser.parse(pattern.pattern, pattern.flags & ~re.UNICODE)

            assert worst(tree) <= PRODUCT_MAX


@pytest.mark.parametrize("bad", [r"(a+)+", r"(?:a*b?)*", r"(?:x{1,500}y{1,500}){1,500}"])
def test_the_check_sees_what_it_should(bad: str) -> None:
    with pytest.raises(AssertionError):
        assert worst(parser.parse(bad)) <= PRODUCT_MAX
