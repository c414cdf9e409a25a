"""The code of a mail is found, and nothing that only looks like one."""

import re

import pytest
from hypothesis import given
from hypothesis import strategies as st

from mailonce.core.extraction import codes
from mailonce.core.extraction.code_format import parse_code_format
from mailonce.core.extraction.codes import extract_code
from mailonce.core.extraction.extraction import (
    Evidence,
    ExtractionOutcome,
    ExtractionRule,
    SearchedPart,
)
from mailonce.core.extraction.mail_texts import MailTexts
from tests.core.extraction.vectors import CODE_FILES, code_in, load, result_of

# Mails whose code we do not find, or find wrongly; each is counted in docs/extraction.md.
KNOWN_FAULTS = {
    # "The code by which the order is handed over": the order is taken for what it numbers.
    ("second-slavic-turkic-greek", "ru: доставка"): "",
    # Codes of doors and parcels: four digits, and a word of their own for the code.
    ("fourth-mails", "en: real estate"): "",
    ("fourth-mails", "de: Carsharing"): "",
    ("fourth-mails", "tr: kargo"): "",
    ("fourth-mails", "ja: 宅配"): "",
    ("fourth-mails", "ar: توصيل"): "",
    ("fourth-mails", "cs: pošta"): "",
    # A PIN that is only called temporary.
    ("fourth-mails", "it: comune"): "",
}
# What an agent may see of a code.
GRAMMAR = re.compile(r"[A-Z0-9]{4,8}|[A-Z]{1,3}-[0-9]{4,8}|[A-Z0-9]{3,4}-[A-Z0-9]{3,4}")
ORIGIN_GRAMMAR = re.compile(r"[A-Za-z0-9-]{4,16}")


@pytest.mark.parametrize("name", CODE_FILES)
def test_the_codes_of_mails(name: str, subtests: pytest.Subtests) -> None:
    for vector in load("codes", name):
        with subtests.test(vector["name"]):
            extraction = code_in(vector)

            expected = KNOWN_FAULTS.get((name, vector["name"]), vector["code"])
            assert result_of(extraction) == expected, extraction.candidates[:3]
            if "digits" in vector:
                assert extraction.winner is not None
                assert extraction.winner.digits == vector["digits"]
            if "origin" in vector:
                assert extraction.winner is not None
                assert extraction.winner.origin == vector["origin"]


def test_a_candidate_says_what_speaks_for_and_against_it() -> None:
    mail = MailTexts(text="Your order 4839201 is here.\nYour verification code is 734 120.")

    first, second = extract_code(mail).candidates

    assert (first.value, first.display, first.rule) == (
        "734120",
        "734 120",
        ExtractionRule.DIGIT_GROUPS,
    )
    assert (first.part, mail.text[first.start : first.end]) == (SearchedPart.TEXT, "734 120")
    assert first.speaks_for == (Evidence.KEYWORD_IN_SENTENCE, Evidence.SIX_DIGITS)
    assert first.speaks_against == ()
    assert second.value == "4839201"
    assert Evidence.OTHER_NUMBER in second.speaks_against


def test_what_is_no_code_at_all_says_why() -> None:
    cases = {
        "Your verification code costs $1299": Evidence.CURRENCY,
        "Your verification code takes 1440 minutes": Evidence.UNIT,
        "Your verification code #445566": Evidence.HASH_SIGN,
        "Your verification code at 10:3000": Evidence.TIME,
        "Your verification code 1203 0000 0000": Evidence.PART_OF_NUMBER,
        "Your verification code on 03-11-26": Evidence.DATE,
        "Your verification code **** 4242": Evidence.MASKED_NUMBER,
        "Your verification code +49123456": Evidence.PHONE,
        "Your verification code Nov 2026": Evidence.DATE,
    }
    for text, evidence in cases.items():
        extraction = extract_code(MailTexts(text=text))

        assert extraction.outcome is ExtractionOutcome.NONE, text
        assert all(one.speaks_against == (evidence,) for one in extraction.candidates), text
        assert extraction.candidates, text


def test_parts_that_disagree_are_ambiguous() -> None:
    mail = MailTexts(
        subject="111222 is your code",
        text="Your verification code is 333444.\n\n333444",
    )

    extraction = extract_code(mail)

    assert extraction.outcome is ExtractionOutcome.AMBIGUOUS
    assert extraction.winner is None
    assert extraction.reason in {Evidence.PARTS_DIFFER, Evidence.EQUALLY_GOOD}


def test_a_code_that_is_bound_to_an_origin_wins() -> None:
    mail = MailTexts(text="Your code is 111222.\nYour code is 333444.\n\n@shop.example #747723 x")

    extraction = extract_code(mail)

    assert extraction.winner is not None
    assert extraction.winner.value == "747723"
    assert extraction.winner.origin == "shop.example"


def test_a_line_like_an_origin_bound_code_in_the_middle_means_nothing() -> None:
    mail = MailTexts(text="Your code is 111222.\n@shop.example #747723\nThanks, the team")

    assert result_of(extract_code(mail)) == "111222"


def test_numbers_beyond_the_limit_are_left_out_and_it_is_said() -> None:
    mail = MailTexts(text="Your verification code is 482910.\n" + "filler 4821 " * 2_000)

    extraction = extract_code(mail)

    assert result_of(extraction) == "482910"
    assert extraction.is_truncated
    assert len(extraction.candidates) <= codes.NUMBERS_MAX


WORDS = st.sampled_from(
    ["Your verification code is ", "code", "482910", "1299", "734 120", "2026", " EUR", "$", "#",
     "@example.com #747723", "\n", "\n\n", ". ", ": ", "https://a.example/", "order number ", "-",
     "AB3-9KZ", "G-", "验证码", "，", "認証コード", "<b>", "</b>", "<p>", "&nbsp;", "\u200b",
     "\u202e", "٤٨٢٩١٠", "> ", "On Mon wrote:", "1 2 3 4 5 6", "+1 ", "(", ")", "/", "%",
     "minutes", "K7M2Q"]
)  # fmt: skip
TEXTS = st.lists(WORDS | st.text(max_size=8), max_size=30).map("".join)
FORMATS = st.sampled_from(
    [None, "digits:6", "digits:4..8", "alphanumeric:8", "letters:6",
     "alphanumeric:3-alphanumeric:3", "G-digits:6"]
)  # fmt: skip


@given(subject=TEXTS, text=TEXTS, html=TEXTS, spelt=FORMATS)
def test_values_have_a_closed_grammar_and_nothing_raises(
    subject: str, text: str, html: str, spelt: str | None
) -> None:
    mail = MailTexts(subject=subject, text=text, html=html)
    code_format = parse_code_format(spelt) if spelt else None

    extraction = extract_code(mail, code_format)

    assert extraction == extract_code(mail, code_format)
    for candidate in extraction.candidates:
        if code_format is not None:
            assert code_format.matches(candidate.value)
        elif candidate.rule is ExtractionRule.ORIGIN_BOUND:
            assert ORIGIN_GRAMMAR.fullmatch(candidate.value)
        else:
            assert GRAMMAR.fullmatch(candidate.value)


@given(
    digits=st.from_regex(r"[0-9]{4,8}", fullmatch=True),
    link=st.sampled_from(
        ["https://example.com/verify/{}", "http://a.example/?code={}", "https://a.example/#{}",
         "www.example.com/{}", "example.com/c/{}", "https://{}.example.com/", "a{}@example.com",
         "https://a.example/x-{}-y", "mailto:a@b.example?subject={}", "https://a.example/é/{}",
         "https://a.example:{}/", "tel:{}"]
    ),
    where=st.sampled_from(["Your verification code is {}", "{}\nverification code", "Code: {} ok"]),
)  # fmt: skip
def test_digits_in_a_link_are_never_a_code(digits: str, link: str, where: str) -> None:
    text = where.format(link.format(digits))

    extraction = extract_code(
        MailTexts(text=text, html=f'<a href="{link.format(digits)}">{link.format(digits)}</a>')
    )

    assert extraction.outcome is ExtractionOutcome.NONE, extraction.candidates


ONLY = {
    ("492817", "digits:6"): "492817",
    ("Hello 492817", "digits:6"): "492817",
    ("PIN: 4928", "digits:4"): "4928",
    ("Hello 492817, hello 492817", "digits:6"): "492817",
    ("Hello 492817 and 492818", "digits:6"): "",
    ("Order number 492817", "digits:6"): "",
    ("Hello 492817", "digits:4"): "",
    ("It is 2026", "digits:4"): "",
    ("It costs $4928", "digits:4"): "",
}


def test_the_only_code_of_a_format_is_taken_by_those_who_ask_for_it(
    subtests: pytest.Subtests,
) -> None:
    for (text, wanted), code in ONLY.items():
        with subtests.test(text):
            mail, code_format = MailTexts(text=text), parse_code_format(wanted)

            assert result_of(extract_code(mail, code_format, takes_only=True)) == code
            assert result_of(extract_code(mail, takes_only=True)) == result_of(extract_code(mail))
