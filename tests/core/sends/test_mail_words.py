"""What no mail may leave without, and what stands beside a template."""

from typing import Any

import pytest

from mailonce.core.sends.mail_words import trouble_of_words

RIGHT: dict[str, Any] = {
    "subject": "Receipt", "text": "Thank you.", "html": None, "template": None, "has_files": False,
}  # fmt: skip
CASES: tuple[tuple[dict[str, Any], str | None], ...] = (
    ({}, None),
    ({"text": None, "html": "<p>Thank you."}, None),
    ({"text": "", "html": "<p>Thank you."}, None),
    ({"text": "", "has_files": True}, None),
    ({"subject": None, "text": None, "template": "receipt"}, None),
    ({"text": None}, "the mail is empty; give `text`, `html` or `template`"),
    ({"text": None, "has_files": True}, "the mail is empty; give `text`, `html` or `template`"),
    ({"text": " \n\u00a0", "html": ""}, "there is nothing in its `text` or `html`"),
    ({"subject": None}, "`subject` is missing; give one, or a `template`"),
    ({"subject": " "}, "`subject` is empty; give one"),
    ({"text": None, "template": "receipt"}, "`subject` stands beside `template`"),
)


def test_what_is_wrong_with_words_is_said(subtests: pytest.Subtests) -> None:
    for changes, wanted in CASES:
        with subtests.test(str(changes)):
            trouble = trouble_of_words(**RIGHT | changes)

            assert trouble is None if wanted is None else wanted in str(trouble)
