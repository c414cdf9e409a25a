"""Each way to hide text is known; what can be undone inside is undone."""

import pytest

from mailonce.core.mail.appearance import PAGE, inherit
from mailonce.core.mail.css import parse_declarations

HIDING = (
    "display:none",
    "display:none !important",
    "visibility:hidden",
    "visibility: collapse",
    "opacity:0",
    "opacity:.01",
    "opacity:0%",
    "filter:opacity(0)",
    "font-size:0",
    "font-size:1px",
    "font: 0px/1 Arial",
    "mso-hide:all",
    "max-height:0;overflow:hidden",
    "height:0;width:0;overflow:hidden",
    "width:1px;height:1px;overflow:hidden;clip:rect(1px,1px,1px,1px)",
    "clip:rect(0 0 0 0)",
    "clip-path:inset(100%)",
    "clip-path: circle(0)",
    "position:absolute;left:-9999px",
    "position:fixed;top:-2000px",
    "position:absolute;left:10000px",
    "text-indent:-9999px",
    "margin-left:-5000px",
    "transform:scale(0)",
    "transform:scaleX(0)",
    "transform: translateX(-9999px)",
    "transform:translate(-100%)",
    "scale:0",
    "zoom:0",
    "content-visibility:hidden",
    "color:#fff",
    "color:white",
    "color:#fefefe",
    "color:rgb(250,250,250)",
    "color:transparent",
    "color:rgba(0,0,0,0)",
    "background:#000;color:#000",
    "direction:rtl;unicode-bidi:bidi-override",
    "background-color:#123456;color:#133457",
)
SEEN = (
    "",
    "display:block",
    "display:inline-block",
    "opacity:.6",
    "font-size:11px",
    "font-size:small",
    "font:12px Arial",
    "height:0",
    "overflow:hidden;max-height:200px",
    "overflow:hidden",
    "position:absolute;left:10px",
    "position:relative;top:-2px",
    "margin-left:-4px",
    "text-indent:20px",
    "transform:scale(0.9)",
    "transform:translate(-50%,-50%)",
    "color:#777",
    "color:#eee;background:#222",
    "color:#fff;background:url(x.png)",
    "color:#fff;background-image:linear-gradient(red, blue)",
    "color:var(--unknown)",
    "visibility:visible",
    "direction:rtl",
)


def test_what_hides_hides(subtests: pytest.Subtests) -> None:
    for style in HIDING:
        with subtests.test(style):
            assert not inherit(PAGE, parse_declarations(style).values).can_be_seen


def test_what_does_not_hide_does_not(subtests: pytest.Subtests) -> None:
    for style in SEEN:
        with subtests.test(style):
            assert inherit(PAGE, parse_declarations(style).values).can_be_seen


def test_what_is_inherited_can_be_undone_inside(subtests: pytest.Subtests) -> None:
    cases = {
        "font-size:0": "font-size:14px",
        "visibility:hidden": "visibility:visible",
        "color:#fff": "color:#000",
        "text-indent:-9999px": "text-indent:0",
        "color:transparent": "color:black",
    }
    for outer, inner in cases.items():
        with subtests.test(outer):
            hidden = inherit(PAGE, parse_declarations(outer).values)

            assert not inherit(hidden, parse_declarations("margin-left:1px").values).can_be_seen
            assert inherit(hidden, parse_declarations(inner).values).can_be_seen


def test_what_is_hidden_for_good_stays_hidden(subtests: pytest.Subtests) -> None:
    for outer in (
        "display:none",
        "opacity:0",
        "filter:opacity(0)",
        "max-height:0;overflow:hidden",
        "mso-hide:all",
    ):
        with subtests.test(outer):
            hidden = inherit(PAGE, parse_declarations(outer).values)
            inner = "display:block;opacity:1;max-height:9px;overflow:visible;visibility:visible"

            assert not inherit(hidden, parse_declarations(inner).values).can_be_seen


def test_a_part_of_nothing_is_nothing() -> None:
    tiny = inherit(PAGE, parse_declarations("font-size:0").values)

    assert not inherit(tiny, parse_declarations("font-size:2em").values).can_be_seen
    assert not inherit(tiny, parse_declarations("font-size:larger").values).can_be_seen
    assert inherit(tiny, parse_declarations("font-size:1rem").values).can_be_seen
    part = PAGE
    for _ in range(3):
        part = inherit(part, parse_declarations("font-size:30%;opacity:.3").values)
    assert part.font_px < 1
    assert part.opacity < 0.05


def test_what_is_undone_by_a_word_for_the_default_is_undone() -> None:
    white = inherit(PAGE, parse_declarations("color:#fff").values)

    assert inherit(white, parse_declarations("color:initial").values).can_be_seen
    assert not inherit(white, parse_declarations("color:currentcolor").values).can_be_seen
