"""A format is read by a closed grammar, and says what is wrong with it."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from mailonce.core.extraction.code_format import CODE_CHARS_MAX, parse_code_format


def test_formats_match_what_they_say(subtests: pytest.Subtests) -> None:
    cases = {
        "digits:6": (["482910"], ["48291", "4829100", "48291a", "482 910", ""]),
        "digits:4..8": (["4821", "48219377"], ["482", "482193771"]),
        "letters:6": (["QWKZPT", "qwkzpt"], ["QWKZP1"]),
        "alphanumeric:8": (["ab3D9kzQ"], ["ab3-9kzQ"]),
        "alphanumeric:3-alphanumeric:3": (["AB3-9KZ"], ["AB39KZ", "AB3-9K"]),
        "G-digits:6": (["G-482910"], ["482910", "X-482910"]),
    }
    for text, (good, bad) in cases.items():
        with subtests.test(text):
            code_format = parse_code_format(text)

            assert all(code_format.matches(code) for code in good)
            assert not any(code_format.matches(code) for code in bad)


def test_what_is_no_format_is_refused_with_a_sentence(subtests: pytest.Subtests) -> None:
    for text in ("", "digits", "digits:", "digits:0", "digits:9..4", "digits:99", "6", ".*",
                 "(a+)+$", "digits:6|letters:6", "G", "A-B-C", "digits:2", "digits:6-", "Digits:6",
                 "-".join(["digits:2"] * 6), "digits:30-digits:30", "x" * 5_000):  # fmt: skip
        with subtests.test(text[:20]):
            with pytest.raises(
                ValueError, match="is no format of a code; write digits:6"
            ) as caught:
                parse_code_format(text)
            assert len(str(caught.value)) < 300


@given(st.text(max_size=30))
def test_no_other_error_is_raised(text: str) -> None:
    try:
        code_format = parse_code_format(text)
    except ValueError:
        return
    assert code_format.chars_max <= CODE_CHARS_MAX


@given(
    st.lists(st.sampled_from(["digits:1..9", "letters:3", "alphanumeric:2..8", "AB"]), max_size=5),
    st.text("A1-", max_size=CODE_CHARS_MAX),
)
def test_lengths_are_those_of_what_matches(terms: list[str], code: str) -> None:
    try:
        code_format = parse_code_format("-".join(terms))
    except ValueError:
        return
    if code_format.matches(code):
        assert code_format.chars_min <= len(code) <= code_format.chars_max
