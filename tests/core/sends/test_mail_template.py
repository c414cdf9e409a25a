"""A template's name and its words."""

import pytest

from mailonce.core.sends.mail_template import check_template, read_reference
from mailonce.errors import ParseError


def test_a_reference_names_a_template_and_perhaps_a_version() -> None:
    assert read_reference("welcome") == ("welcome", None)
    assert read_reference("welcome.2@13") == ("welcome.2", 13)


@pytest.mark.parametrize("text", ["", "@1", "a@", "a@0", "a@x", "a b", "a/b", "x" * 101])
def test_what_names_no_template_is_refused(text: str) -> None:
    with pytest.raises(ParseError, match="third version"):
        read_reference(text)


def test_a_template_has_a_subject_and_something_to_say() -> None:
    check_template(subject="Hi", html=None, text="Hello")
    for words, given in {
        "`html`, `text` or both": {"subject": "a", "html": None, "text": None},
        "`subject` is empty": {"subject": " ", "html": "a", "text": None},
        "`html` is longer": {"subject": "a", "html": "x" * 500_001, "text": None},
    }.items():
        with pytest.raises(ParseError, match=words):
            check_template(**given)  # type: ignore[arg-type]
