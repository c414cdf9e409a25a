"""What a reply quotes is blanked, and nothing else; places stay what they are."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from mailonce.core.extraction.quoted_text import blank_quotes


def test_introductions_of_mail_programs(subtests: pytest.Subtests) -> None:
    for line in (
        "On Mon, Nov 2, 2026 at 9:14 AM Ann <ann@example.com> wrote:",
        "Am 02.11.2026 um 09:14 schrieb Ann:",
        "Le lun. 2 nov. 2026 à 09:14, Ann <ann@example.com> a écrit :",
        "-----Original Message-----",
        "2026年11月2日 Ann <ann@example.com> 写道:",
        "On Mon, Nov 2, 2026 at 9:14 AM\nAnn <ann@example.com> wrote:",
        "From: Ann <ann@example.com>\nSent: Monday\nSubject: x\n",
    ):
        with subtests.test(line):
            assert blank_quotes(f"new\n{line}\nold").rstrip() == "new"


def test_lines_with_a_mark_are_blanked_alone() -> None:
    assert blank_quotes("> old\nnew\n > old\nnew").split() == ["new", "new"]


def test_a_mail_that_is_only_forwarded_or_quoted_is_left(subtests: pytest.Subtests) -> None:
    for text in (
        "---------- Forwarded message ---------\nFrom: Ann\nDate: today\n\nYour code is 482910",
        "See below\n---------- Forwarded message ---------\nYour code is 482910",
        "-----Original Message-----\nYour code is 482910",
        "> Your code is 482910",
    ):
        with subtests.test(text):
            assert blank_quotes(text) == text


def test_ordinary_sentences_are_left(subtests: pytest.Subtests) -> None:
    for text in ("a\nOn Monday we wrote a letter.", "a\nFrom: us to you\nwith love", "a\nOn 2026"):
        with subtests.test(text):
            assert blank_quotes(text) == text


@given(st.text("a>\n -:Onwrote", max_size=200))
def test_places_stay(text: str) -> None:
    blanked = blank_quotes(text)

    assert len(blanked) == len(text)
    assert all(new in {old, " "} for new, old in zip(blanked, text, strict=True))
