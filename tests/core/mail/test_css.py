"""Declarations are read as browsers read them, as far as visibility goes."""

import pytest

from mailonce.core.mail.css import merge, parse_declarations


def test_the_last_declaration_counts_unless_one_is_important(subtests: pytest.Subtests) -> None:
    cases = {
        "display:block; DISPLAY : None": {"display": "none"},
        "display:none!important;display:block": {"display": "none"},
        "dis/*x*/play:none": {"display": "none"},
        r"displa\79:n\6f ne": {"display": "none"},
        "color:red/* never ends; display:none": {"color": "red"},
        # What browsers do not understand does not undo what they did.
        "display:none;display:bogus": {"display": "none"},
        "font-size:0;font-size:13": {"font-size": "0"},
        "color:#fff;color:nocolour": {"color": "#fff"},
        "opacity:0;opacity:x": {"opacity": "0"},
        # A semicolon within quotes or brackets ends nothing.
        "display:none;x:'; display:block'": {"display": "none"},
        "display:none;x:(; display:block)": {"display": "none"},
        r"display:none;x:'\';display:block'": {"display": "none"},
        "display:none;x:'; display:block": {"display": "none"},
        # A short form sets back the long ones.
        "background-color:#000;background:#fff": {"background": "#fff"},
        "background:#fff;background-color:#000": {"background": "#fff", "background-color": "#000"},
    }
    for style, values in cases.items():
        with subtests.test(style):
            assert parse_declarations(style).values == values


def test_a_stronger_short_form_sets_back_the_long_one() -> None:
    assert merge({"font-size": "9px", "color": "red"}, {"font": "0 a"}) == {
        "color": "red",
        "font": "0 a",
    }
