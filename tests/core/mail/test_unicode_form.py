"""Text is normalised as Unicode says, and marks without end on one letter are not sorted."""

import unicodedata
from pathlib import Path

from hypothesis import given
from hypothesis import strategies as st

import mailonce
from mailonce.core.extraction.normalise import normalise
from mailonce.core.mail.budget import DigestBudget, DigestLimits
from mailonce.core.mail.headers import read_subject
from mailonce.core.mail.mime.file_name import clean_file_name
from mailonce.core.mail.unicode_form import MARKS_MAX, cut_marks, unicode_form

ACUTE, CEDILLA = "\u0301", "\u0327"
# They are no marks themselves, and become some.
BECOME_MARKS = ("\u0f73", "\u0f75", "\u0f81", "\uff9e", "\uff9f")


def budget() -> DigestBudget:
    return DigestBudget(DigestLimits())


@given(st.text(max_size=60))
def test_what_people_write_is_normalised_as_unicode_says(text: str) -> None:
    for form in ("NFC", "NFKC"):
        assert unicode_form(form, text) == unicodedata.normalize(form, cut_marks(text))
    assert cut_marks(text) == text or _longest(text) > MARKS_MAX


@given(st.lists(st.sampled_from(["a", ACUTE * 20, CEDILLA * 20, *BECOME_MARKS, "\u0345\u1e94a"])))
def test_no_letter_has_more_marks_to_sort_than_the_limit(pieces: list[str]) -> None:
    assert _longest(cut_marks("".join(pieces))) <= MARKS_MAX


def test_the_marks_of_a_subject_a_file_and_a_text_are_bounded() -> None:
    many = "a" + (ACUTE + CEDILLA) * 300

    subject, name = read_subject(many, budget()), clean_file_name(many, budget())
    text = normalise(many)

    assert [len(one or "") <= 1 + MARKS_MAX for one in (subject, name, text)] == [True] * 3


def test_nothing_else_normalises_a_text() -> None:
    folder = Path(mailonce.__file__).parent
    found = {
        path.relative_to(folder).as_posix()
        for path in folder.rglob("*.py")
        if "unicodedata.normalize(" in path.read_text()
    }

    # Of a single character at a time.
    assert found - {"core/extraction/normalise.py"} == {"core/mail/unicode_form.py"}


def _longest(text: str) -> int:
    longest = run = 0
    for character in text:
        first = unicodedata.normalize("NFKD", character)[0]
        run = run + 1 if unicodedata.combining(first) else 0
        longest = max(longest, run)
    return longest
