"""A source's settings: when a signature is asked for, and how large they may be."""

from dataclasses import replace
from typing import Any

import pytest

from mailonce.core.arrivals.source import Source, troubles_of_size

SOURCE = Source(id="s", workspace="w", name="n", provider="p", account="a")


@pytest.mark.parametrize(
    ("settings", "is_signed"),
    [
        ({}, True),
        ({"unsigned": True}, False),
        ({"unsigned": True, "secrets": ("s",)}, False),
        ({"unproven": True}, False),
        ({"unproven": True, "secrets": ("s",)}, True),
        ({"unproven": True, "public_keys": ("k",)}, True),
        ({"unproven": True, "topic_arns": ("t",)}, True),
        ({"unproven": True, "tokens": ("t",)}, False),
    ],
)
def test_a_signature_is_asked_for_unless_the_operator_says_that_there_is_none(
    settings: dict[str, Any], *, is_signed: bool
) -> None:
    assert replace(SOURCE, **settings).is_signed is is_signed


@pytest.mark.parametrize(
    ("settings", "named"),
    [
        ({}, None),
        ({"secrets": ("x" * 1_000,) * 10}, None),
        ({"secrets": ("x",) * 11}, "secrets"),
        ({"secrets": ("x" * 1_001,)}, "secrets"),
        ({"public_keys": ("x" * 10_001,)}, "public_keys"),
        ({"allow_ips": ("::1",) * 501}, "allow_ips"),
        ({"headers": ("X-A: \0",)}, "headers"),
        ({"name": "x" * 101}, "name"),
        ({"account": "\ud800"}, "account"),
        ({"options": {"a": "x" * 20_000}}, "options"),
        ({"options": {"a": [[[[[[[[[[[1]]]]]]]]]]]}}, "options"),
    ],
)
def test_a_setting_that_is_too_large_is_named(settings: dict[str, Any], named: str | None) -> None:
    troubles = list(troubles_of_size(replace(SOURCE, **settings)))

    assert len(troubles) == (named is not None)
    assert all(one.startswith(f"`{named}` ") for one in troubles)
