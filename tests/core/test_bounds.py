"""How large settings may be, and what is said where they are larger."""

from types import SimpleNamespace
from typing import Any

import pytest

from mailonce.core import bounds


@pytest.mark.parametrize(
    ("text", "said"),
    [("abc", None), ("abcd", "longer than 3"), ("a\0", "NUL"), ("\ud800", "NUL"), ("", None)],
)
def test_a_text_is_short_and_storable(text: str, said: str | None) -> None:
    [*faults] = bounds.of_text("name", text, 3)

    assert len(faults) == (said is not None)
    assert all(said in one and "`name`" in one for one in faults if said)


def test_lists_are_short_and_so_are_their_values() -> None:
    settings = SimpleNamespace(many=["a"] * 4, long=["ok", "long", "x\0"], fine=["a", "b"])

    faults = list(bounds.of_lists(settings, dict.fromkeys(("many", "long", "fine"), (3, 3))))

    assert [one.split(";")[0] for one in faults] == [
        "`many` has more than 3 values",
        "`long` is longer than 3 characters",
        "`long` has a character that cannot be kept (NUL or half a pair)",
    ]


def nested(depth: int) -> Any:
    value: Any = 1
    for level in range(depth):
        value = [value] if level % 2 else {"a": value}
    return value


@pytest.mark.parametrize(
    ("value", "said"),
    [
        ({"a": [1, "x"]}, None),
        (nested(bounds.DEPTH_MAX), None),
        (nested(bounds.DEPTH_MAX + 1), "deeper"),
        (nested(100_000), "deeper"),
        ({"a": 2**64}, "JSON cannot hold"),
        ("x" * 100, "larger than 100 bytes"),
    ],
    ids=["plain", "deep", "deeper", "bottomless", "integer", "large"],
)
def test_json_is_flat_small_and_json(value: Any, said: str | None) -> None:
    faults = list(bounds.of_json("options", value, 100))

    assert len(faults) == (said is not None)
    assert all(said in one for one in faults if said)
