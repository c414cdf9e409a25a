"""Words around a number are found where they count: its sentence, its line, the line above."""

import pytest

from mailonce.core.extraction.code_context import CodeContext
from mailonce.core.extraction.extraction import Evidence


def evidence_of(text: str, number: str = "482910") -> set[Evidence]:
    start = text.index(number)
    context = CodeContext(parts=[text], spans=[[(start, start + len(number))]])
    return set(context.evidence(0, start, start + len(number)))


CASES: dict[str, set[Evidence]] = {
    "Your verification code is 482910.": {Evidence.KEYWORD_IN_SENTENCE},
    "482910 is your verification code": {Evidence.KEYWORD_IN_SENTENCE},
    "Get a verification code. Then 482910 things happen": {
        Evidence.KEYWORD_IN_LINE,
        Evidence.WEAK_KEYWORD_NEAR,
    },
    "Verification code:\n\n482910": {
        Evidence.KEYWORD_IN_LINE_ABOVE,
        Evidence.WEAK_KEYWORD_NEAR,
        Evidence.ALONE_ON_LINE,
    },
    "482910\nis your verification code": {
        Evidence.KEYWORD_IN_LINE_BELOW,
        Evidence.ALONE_ON_LINE,
    },
    "Your verification code\n\nplease type it into the form on our page\n\n482910": {
        Evidence.KEYWORD_ABOVE,
        Evidence.ALONE_ON_LINE,
    },
    "PIN: 482910": {Evidence.WEAK_KEYWORD_NEAR},
    "Order number: 482910": {Evidence.OTHER_NUMBER},
    "Order number\n482910": {Evidence.OTHER_NUMBER, Evidence.ALONE_ON_LINE},
    "Your order is here. The verification code is 482910": {Evidence.KEYWORD_IN_SENTENCE},
    "Your Acme ID code is: 482910": {Evidence.KEYWORD_IN_SENTENCE},
    "Your tracking code is: 482910": {Evidence.KEYWORD_IN_SENTENCE, Evidence.OTHER_NUMBER},
    "Dear customer, 482910 is your OTP": {Evidence.KEYWORD_IN_SENTENCE},
    "Use the code 482910 at checkout": {Evidence.KEYWORD_IN_SENTENCE, Evidence.PROMOTION},
    "Type 482910 to log in": {Evidence.INPUT_VERB_NEAR, Evidence.ACTION_IN_SENTENCE},
    "Use code 482910 to confirm": {
        Evidence.WEAK_KEYWORD_NEAR,
        Evidence.INPUT_VERB_NEAR,
        Evidence.ACTION_IN_SENTENCE,
    },
    "482910 bottles": set(),
}


def test_what_stands_around_a_number(subtests: pytest.Subtests) -> None:
    for text, expected in CASES.items():
        with subtests.test(text):
            assert evidence_of(text) == expected


def test_a_keyword_far_away_in_a_long_line_does_not_count_as_near() -> None:
    text = "Your verification code " + "word " * 200 + "482910"

    assert evidence_of(text) == {Evidence.KEYWORD_IN_MAIL}


def test_words_of_another_number_in_the_next_sentence_do_not_count() -> None:
    text = "At 59000 Lille. Your code is 8841"
    spans = [(3, 8), (29, 33)]
    context = CodeContext(parts=[text], spans=[spans])

    assert set(context.evidence(0, *spans[0])) == {Evidence.KEYWORD_IN_MAIL}


def test_a_number_is_introduced_by_a_keyword_right_before_it(subtests: pytest.Subtests) -> None:
    cases = {
        "Your login code is: 2024": True,
        "Your login code 2024": True,
        "Your login code. In 2024": False,
        "Your login code was made in the year 2024": False,
        "2024": False,
    }
    for text, is_introduced in cases.items():
        with subtests.test(text):
            context = CodeContext(parts=[text], spans=[[]])

            assert context.is_introduced(0, text.index("2024")) is is_introduced


def test_entries_of_a_list_share_the_line_above_it() -> None:
    text = "Your recovery codes:\n48201934\n77120386"
    spans = [(21, 29), (30, 38)]
    context = CodeContext(parts=[text], spans=[spans])

    for start, end in spans:
        assert Evidence.KEYWORD_IN_LINE_ABOVE in set(context.evidence(0, start, end))
