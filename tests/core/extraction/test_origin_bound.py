"""Only a last line of the right form binds a code to an origin."""

import pytest

from mailonce.core.extraction.origin_bound import OriginBoundCode, find_origin_bound_code


def test_forms(subtests: pytest.Subtests) -> None:
    cases = {
        "@example.com #747723": ("747723", "example.com"),
        "Your code is 747723\n\n@example.com #747723\n\n": ("747723", "example.com"),
        "@example.com #747723 %trailing words": ("747723", "example.com"),
        "@a.example.com #G-1234 @embedded.example": ("G-1234", "a.example.com"),
        "@example.com  #747723": None,
        "@example.com\t#747723": None,
        " @example.com #747723": None,
        "x @example.com #747723": None,
        "@example.com #747723\nbye": None,
        "@example.com 747723": None,
        "@localhost #747723": None,
        "@example.com #" + "1" * 40: None,
        "@example.com #<b>1234": None,
        "@exаmple.com #747723": None,
        "": None,
    }
    for text, expected in cases.items():
        with subtests.test(text):
            bound = find_origin_bound_code(text)

            assert (None if bound is None else (bound.code, bound.host)) == expected


def test_the_place_of_the_code() -> None:
    text = "a\n@example.com #747723"

    bound = find_origin_bound_code(text)

    assert bound == OriginBoundCode("747723", "example.com", text.index("747723"))
