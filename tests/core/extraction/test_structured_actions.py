"""Actions are read from structured data, within limits."""

import json

import pytest

from mailonce.core.extraction import structured_actions
from mailonce.core.extraction.structured_actions import StructuredAction, find_structured_actions


def script(value: object) -> str:
    return f'<script type="application/ld+json">{json.dumps(value)}</script>'


def test_the_forms_of_an_action(subtests: pytest.Subtests) -> None:
    url = "https://a.example/x"
    cases: list[object] = [
        {
            "@type": "EmailMessage",
            "potentialAction": {"@type": "ConfirmAction", "handler": {"url": url}},
        },
        [
            {
                "@type": "EmailMessage",
                "potentialAction": [{"@type": "SaveAction", "handler": {"url": url}}],
            }
        ],
        {"@graph": [{"potentialAction": {"@type": "ConfirmAction", "target": url}}]},
        {"@type": "ConfirmAction", "url": url},
        {"@type": "ConfirmAction", "target": {"urlTemplate": url}},
    ]
    for value in cases:
        with subtests.test(json.dumps(value)[:60]):
            assert find_structured_actions(script(value)) == (StructuredAction(url, "", True),)


def test_a_view_does_not_confirm() -> None:
    (action,) = find_structured_actions(
        script({"@type": "ViewAction", "url": "https://a.example", "name": "See"})
    )

    assert (action.name, action.is_confirming) == ("See", False)


def test_what_is_broken_or_something_else_is_nothing(subtests: pytest.Subtests) -> None:
    for html in ("", "<script>ld+json</script>", script({"@type": "ConfirmAction"}),
                 script({"@type": ["ConfirmAction"], "url": "x"}), script("ConfirmAction"),
                 '<script type="application/ld+json">{"@type": </script>', "ld+json",
                 script({"@type": "ConfirmAction", "url": {"a": 1}}),
                 f"<!-- {script({'@type': 'ConfirmAction', 'url': 'x'})} -->"):  # fmt: skip
        with subtests.test(html[:60]):
            assert find_structured_actions(html) == ()


def test_bombs_are_bounded(subtests: pytest.Subtests) -> None:
    deep = '<script type="application/ld+json">' + '{"potentialAction":' * 5_000 + "</script>"
    one: object = {"@type": "ConfirmAction", "url": "https://a.example"}
    for name, html in {
        "deep": deep,
        "nested": '<script type="application/ld+json">' + "[" * 900 + "]" * 900 + "</script>",
        "wide": script([one] * 1_000),
        "large": script(["x" * 60_000, one]),
        "scripts": script(one) * 100,
    }.items():
        with subtests.test(name):
            assert len(find_structured_actions(html)) <= structured_actions.ACTIONS_MAX
