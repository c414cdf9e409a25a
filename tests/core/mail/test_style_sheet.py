"""Rules are matched as browsers match them, and comparisons are counted."""

from collections.abc import Sequence

import pytest

from mailonce.core.mail import style_sheet
from mailonce.core.mail.css import Declarations, parse_declarations
from mailonce.core.mail.open_elements import Element
from mailonce.core.mail.style_sheet import StyleSheet, media_matches


def element(spelt: str) -> Element:
    """Make an element of "name#id.class.class"."""
    rest, *classes = spelt.split(".")
    name, _, id_ = rest.partition("#")
    return Element(name, id_, frozenset(classes))


def display_of(css: str, path: Sequence[str], style: str = "") -> str | None:
    sheet = StyleSheet()
    sheet.add(css)
    *ancestors, innermost = (element(spelt) for spelt in path)
    return sheet.values_of(innermost, ancestors, parse_declarations(style)).get("display")


def test_selectors(subtests: pytest.Subtests) -> None:
    hidden = [
        (".x{display:none}", ["p.x"]),
        ("P.x{display:none}", ["p.x.y"]),
        ("p , .x{display:none}", ["div.x"]),
        ("#x{display:none}", ["p#x"]),
        ("*{display:none}", ["p"]),
        (".a p{display:none}", ["div.a", "div", "p"]),
        (".a > p{display:none}", ["div.a", "p"]),
        (".a>.b p{display:none}", ["div.a", "div.b", "div.b", "p"]),
        (".a .b > p{display:none}", ["div.a", "div", "div.b", "p"]),
        (".a{color:red} .a{display:none}", ["p.a"]),
        (".a{display:none", ["p.a"]),
        ("@import 'x'; .a{display:none}", ["p.a"]),
        ("<!-- .a{display:none} -->", ["p.a"]),
        ("@font-face{font-family:x} .a{display:none}", ["p.a"]),
        ("@keyframes x{from{color:red}to{color:blue}} .a{display:none}", ["p.a"]),
        ("@media screen{.b{color:red}.a{display:none}}", ["p.a"]),
        ("@media(min-width:1px){.a{display:none}}", ["p.a"]),
        ("@media print{.a{color:red}} .a{display:none}", ["p.a"]),
        ("@supports (display:grid){.a{display:none}}", ["p.a"]),
        (r".a\:b{display:none}", ["p.a:b"]),
    ]
    for css, path in hidden:
        with subtests.test(css):
            assert display_of(css, path) == "none"
    seen = [
        (".x{display:none}", ["p.y"]),
        (".a > p{display:none}", ["div.a", "div", "p"]),
        (".a .b > p{display:none}", ["div.a", "div.b", "div", "p"]),
        (".a:hover{display:none}", ["p.a"]),
        (".a + p{display:none}", ["div.a", "p"]),
        ("@media print{.a{display:none}}", ["p.a"]),
        ("@media (max-width:600px){.b{color:red}.a{display:none}}", ["p.a"]),
        ("@supports not (display:grid){.a{display:none}}", ["p.a"]),
        (".a{color:red /* } .a{display:none}", ["p.a"]),
    ]
    for css, path in seen:
        with subtests.test(css):
            assert display_of(css, path) is None


def test_the_stronger_rule_counts(subtests: pytest.Subtests) -> None:
    cases = {
        "#x{display:none} .x{display:block}": "none",
        ".x{display:none} p{display:block}": "none",
        ".x{display:none} .x{display:block}": "block",
        ".x{display:none!important} #x{display:block}": "none",
        ".x.y{display:none} .x{display:block}": "none",
    }
    for css, display in cases.items():
        with subtests.test(css):
            assert display_of(css, ["p#x.x.y"]) == display
    assert display_of(".x{display:none}", ["p.x"], "display:block") == "block"
    assert display_of(".x{display:none!important}", ["p.x"], "display:block") == "none"
    assert display_of(".x{display:none!important}", ["p.x"], "display:block!important") == "block"


def test_media_queries(subtests: pytest.Subtests) -> None:
    for query in ("", "all", "screen", "only screen and (min-width: 600px)", "print, screen",
                  "not print", "(prefers-color-scheme: light)"):  # fmt: skip
        with subtests.test(query):
            assert media_matches(query)
    for query in ("print", "screen and (max-width:600px)", "(prefers-color-scheme: dark)",
                  "not all", "(orientation: landscape)"):  # fmt: skip
        with subtests.test(query):
            assert not media_matches(query)


def test_comparisons_end(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(style_sheet, "COMPARISONS_MAX", 1_000)
    sheet = StyleSheet()
    sheet.add("".join(f"div div #x{number} div p{{display:none}}" for number in range(5_000)))
    path = [Element("div")] * 500

    while not sheet.is_full:
        sheet.values_of(Element("p"), path, Declarations())

    assert sheet.comparisons <= 1_001
    assert sheet.values_of(Element("p"), path, Declarations()) == {}
