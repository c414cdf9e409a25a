"""Digits, dashes and spaces of all alphabets become one form."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from mailonce.core.extraction.normalise import fold, normalise


def test_forms(subtests: pytest.Subtests) -> None:
    cases = {
        "１２３": "123",
        "٤٨٢": "482",
        "५५०": "550",
        "①②": "12",
        "𝟙𝟚": "12",
        "1\ufe0f\u20e32": "12",
        "48\u200b29": "4829",
        "4\u00ad8": "48",
        "1\u20112": "1-2",
        "1–2": "1-2",
        "1 — 2": "1  -  2",
        "1\u00a02\u2009 3": "1 2  3",
        "291048，5分钟": "291048 , 5分钟",
        "コード：1": "コード : 1",
        "「1」": ' " 1 " ',
        "ﬁ": "fi",
    }
    for text, normal in cases.items():
        with subtests.test(text):
            assert normalise(text) == normal


def test_the_comma_of_full_width_is_no_decimal_comma() -> None:
    assert "," in normalise("1，5")
    assert "1,5" not in normalise("1，5")


def test_folding_takes_case_and_accents_of_alphabets_that_have_them() -> None:
    assert fold("Código ПОДТВЕРЖДЕНИЯ й Şifre İıi Ä") == "codigo подтверждения и sifre iii a"
    assert fold("コード 인증 कोड") == "コード 인증 कोड"


@given(st.text())
def test_folding_keeps_every_place(text: str) -> None:
    assert len(fold(text)) == len(text)


@given(st.text())
def test_normalising_twice_changes_nothing_more_but_spaces(text: str) -> None:
    once = normalise(text)

    assert normalise(once).split() == once.split()
