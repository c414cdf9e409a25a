"""Lengths and colours are read as browsers read them."""

import pytest

from mailonce.core.mail import css_values as css


def test_lengths_are_about_right(subtests: pytest.Subtests) -> None:
    cases = {
        "0": 0,
        "0px": 0,
        "12.5px": 12.5,
        "-9999px": -9999,
        "13": None,
        ".5em": 8,
        "auto": None,
        "": None,
    }
    for value, px in cases.items():
        with subtests.test(value):
            assert css.length_px(value) == px


def test_colours(subtests: pytest.Subtests) -> None:
    white = (255, 255, 255)
    cases = {"#fff": white, "#ffffff": white, "white": white, "rgb(255, 255,255)": white,
             "rgba(100%,100%,100%,.5)": white, "#ffff": white, "rgb(1 2 3 / 10%)": (1, 2, 3),
             "rgb(....,1,1)": (0, 1, 1), "hsl(0, 0%, 100%)": white,
             "hsla(120deg 100% 50% / 1)": (0, 255, 0), "inherit": None, "#ff": None}  # fmt: skip
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
