"""Declarations are read as browsers read them, as far as visibility goes."""

import pytest

from mailonce.core.mail import css


def test_the_last_declaration_counts_unless_one_is_important() -> None:
    assert css.parse_declarations("display:block; DISPLAY : None") == {"display": "none"}
    assert css.parse_declarations("display:none!important;display:block") == {"display": "none"}


def test_comments_and_escapes_do_not_hide_a_declaration() -> None:
    assert css.parse_declarations(r"dis/*x*/play:n\6f ne") == {"display": "none"}
    assert css.parse_declarations("color:red/* never ends; display:none") == {"color": "red"}


def test_lengths_are_about_right(subtests: pytest.Subtests) -> None:
    cases = {"0": 0, "0px": 0, "12.5px": 12.5, "-9999px": -9999, ".5em": 8, "auto": None, "": None}
    for value, px in cases.items():
        with subtests.test(value):
            assert css.length_px(value) == px


def test_colours(subtests: pytest.Subtests) -> None:
    white = (255, 255, 255)
    cases = {"#fff": white, "FFFFFF": white, "White": white, "rgb(255, 255,255)": white,
             "rgba(100%,100%,100%,.5)": white, "#ffff": white, "rgb(1 2 3 / 10%)": (1, 2, 3),
             "rgb(....,1,1)": (0, 1, 1), "inherit": None, "#ff": None}  # fmt: skip
    for value, colour in cases.items():
        with subtests.test(value):
            assert css.parse_colour(value) == colour


def test_colours_that_cannot_be_seen(subtests: pytest.Subtests) -> None:
    for value in ("transparent", "#0000", "#12345600", "rgba(0,0,0,0)", "rgb(0 0 0 / 2%)"):
        with subtests.test(value):
            assert css.is_transparent(value)
    for value in ("#000", "#000f", "rgba(0,0,0,.5)", "red", ""):
        with subtests.test(value):
            assert not css.is_transparent(value)
