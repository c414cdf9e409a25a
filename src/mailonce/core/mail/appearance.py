"""Whether text can be seen: what an element's style makes of the appearance that it inherits.

A sender may hide text in many ways; each rule below names one that is used in mail. What hides an
element for good (`display: none`) hides everything in it. What is inherited (visibility, font
size, colours) may be undone further inside, as newsletters do: they set the font of a table cell
to nothing, to be rid of gaps, and set it again for the text.
"""

import re
from collections.abc import Mapping
from dataclasses import dataclass

from mailonce.core.mail.css_values import Rgb, is_transparent, length_px, parse_colour

# Text smaller than this is a dot.
FONT_PX_MIN = 1.5
FONT_PX_MAX = 1_000.0
OPACITY_MIN = 0.05
# Further than this outside of the page nobody scrolls.
OFFSCREEN_PX = 500
# A page is some 600 wide, and can be scrolled to the right, but not this far.
OFFSCREEN_RIGHT_PX = 5_000
# Colours whose parts differ by no more look the same.
SAME_COLOUR_MAX = 20

_ZERO_SCALE = re.compile(r"scale[xy3d]*\(\s*(?:0|0?\.0\d*)\s*[,)]")
_FAR_TRANSLATION = re.compile(
    r"translate[xy3d]*\([^)]{0,40}-\s?\d{3,}|translate[xy3d]*\([^)]{0,40}-\s?100%"
)
_NO_FILTER_OPACITY = re.compile(r"opacity\(\s*(?:0|0?\.0\d*|[0-5])(?:%|\s*\))")
_EMPTY_CLIP = re.compile(
    r"rect\(\s*(?:0|1px)\w*[\s,]+(?:0|1px)\w*[\s,]+(?:0|1px)\w*[\s,]+(?:0|1px)\w*\s*\)"
    r"|inset\(\s*(?:[5-9]\d|100)%|circle\(\s*0|polygon\(\s*0\w*\s+0\w*\s*\)"
)
_RELATIVE_SIZE = re.compile(r"(\d{1,6}(?:\.\d{0,6})?|\.\d{1,6})(em|%)")
_OPACITY = re.compile(r"(\d{1,6}(?:\.\d{0,6})?|\.\d{1,6})(%?)")
_FONT_SIZE = re.compile(r"(?:^|\s)(\d+(?:\.\d+)?(?:px|pt|em|rem|%))(?:\s|/|$)")
_WHITE: Rgb = (255, 255, 255)


@dataclass(frozen=True, slots=True)
class Appearance:
    """What text would look like here."""

    # Hidden for good: nothing inside can be seen.
    is_hidden: bool = False
    is_invisible: bool = False
    font_px: float = 16.0
    opacity: float = 1.0
    is_offscreen: bool = False
    is_clear: bool = False
    # Written backwards: what a person sees is not what stands there.
    is_reversed: bool = False
    colour: Rgb | None = (0, 0, 0)
    # None where a picture or something unknown lies behind the text.
    background: Rgb | None = _WHITE
    keeps_line_ends: bool = False

    @property
    def can_be_seen(self) -> bool:
        """Say whether a person sees text that stands here."""
        return not (
            self.is_hidden
            or self.is_invisible
            or self.font_px < FONT_PX_MIN
            or self.opacity <= OPACITY_MIN
            or self.is_offscreen
            or self.is_clear
            or self.is_reversed
            or _look_the_same(self.colour, self.background)
        )


PAGE = Appearance()


def inherit(parent: Appearance, styles: Mapping[str, str]) -> Appearance:
    """Apply the declarations of an element to what it inherits."""
    if not styles:
        return parent
    colour, is_clear = _colour(parent, styles)
    return Appearance(
        is_hidden=parent.is_hidden or hides(styles),
        is_invisible=_inherited(
            styles, "visibility", ("hidden", "collapse"), otherwise=parent.is_invisible
        ),
        font_px=_font_px(parent.font_px, styles),
        opacity=parent.opacity * _opacity(styles.get("opacity", "1")),
        is_offscreen=_is_indented_away(styles, is_offscreen=parent.is_offscreen),
        is_clear=is_clear,
        is_reversed=_is_reversed(styles, is_reversed=parent.is_reversed),
        colour=colour,
        background=_background(parent, styles),
        keeps_line_ends=_inherited(
            styles, "white-space", ("pre", "pre-wrap", "pre-line", "break-spaces"),
            otherwise=parent.keeps_line_ends,
        ),
    )  # fmt: skip


def hides(styles: Mapping[str, str]) -> bool:
    """Say whether declarations hide an element with everything in it."""
    if (
        styles.get("display") == "none"
        or styles.get("mso-hide") == "all"
        or _is_pushed_away(styles)
    ):
        return True
    if styles.get("content-visibility") == "hidden" or styles.get("zoom") in {"0", "0%"}:
        return True
    if "filter" in styles and _NO_FILTER_OPACITY.search(styles["filter"]):
        return True
    transform = styles.get("transform", "")
    if _ZERO_SCALE.search(transform) or _FAR_TRANSLATION.search(transform):
        return True
    if styles.get("scale", "1").split()[:1] == ["0"]:
        return True
    if _EMPTY_CLIP.search(styles.get("clip", "") + " " + styles.get("clip-path", "")):
        return True
    return _has_no_room(styles)


def _opacity(value: str) -> float:
    match = _OPACITY.fullmatch(value)
    if match is None:
        return 1.0
    return min(1.0, float(match[1]) * (0.01 if match[2] else 1))


def _has_no_room(styles: Mapping[str, str]) -> bool:
    """Say whether what does not fit is cut off, and nothing fits."""
    overflow = " ".join(styles.get(name, "") for name in ("overflow", "overflow-x", "overflow-y"))
    if "hidden" not in overflow and "clip" not in overflow and "scroll" not in overflow:
        return False
    sizes = (length_px(styles.get(n, "")) for n in ("height", "width", "max-height", "max-width"))
    return any(size is not None and size <= 1 for size in sizes)


def _is_pushed_away(styles: Mapping[str, str]) -> bool:
    is_placed = styles.get("position") in {"absolute", "fixed", "relative"}
    names = ["margin-left", "margin-top"]
    if is_placed:
        names += ["left", "top", "right", "bottom"]
    for name in names:
        distance = length_px(styles.get(name, ""))
        if distance is None:
            continue
        is_left = name in {"left", "margin-left"}
        if distance <= -OFFSCREEN_PX or (is_left and distance >= OFFSCREEN_RIGHT_PX):
            return True
    return False


def _is_indented_away(styles: Mapping[str, str], *, is_offscreen: bool) -> bool:
    indent = length_px(styles.get("text-indent", ""))
    return is_offscreen if indent is None else abs(indent) >= OFFSCREEN_PX


def _is_reversed(styles: Mapping[str, str], *, is_reversed: bool) -> bool:
    override = styles.get("unicode-bidi", "")
    if "override" in override:
        return styles.get("direction", "ltr") == "rtl"
    return is_reversed and not override.startswith("isolate")


def _inherited(
    styles: Mapping[str, str], name: str, words: tuple[str, ...], *, otherwise: bool
) -> bool:
    value = styles.get(name, "inherit")
    return otherwise if value in {"inherit", "unset", "revert"} else value in words


def _font_px(parent_px: float, styles: Mapping[str, str]) -> float:
    size = styles.get("font-size")
    if size is None and "font" in styles:
        match = _FONT_SIZE.search(styles["font"])
        size = match[1] if match else None
    if size is None or size in {"inherit", "unset", "revert", "larger"}:
        return parent_px
    if match := _RELATIVE_SIZE.fullmatch(size):
        # However often a part of a part is taken, it does not become a size beyond all numbers.
        part = float(match[1]) / (100 if match[2] == "%" else 1)
        return min(FONT_PX_MAX, parent_px * part)
    px = length_px(size)
    if px is not None:
        return px
    return parent_px * 0.8 if size == "smaller" else 16.0


def _colour(parent: Appearance, styles: Mapping[str, str]) -> tuple[Rgb | None, bool]:
    value = styles.get("color")
    if value is None or value in {"currentcolor", "inherit", "unset", "revert"}:
        return parent.colour, parent.is_clear
    if value == "initial":
        return PAGE.colour, False
    return parse_colour(value), is_transparent(value)


def _background(parent: Appearance, styles: Mapping[str, str]) -> Rgb | None:
    image = styles.get("background-image", "")
    value = styles.get("background-color", styles.get("background", "none"))
    if any(word in f"{image} {value}" for word in ("url(", "gradient(", "image(")):
        return None
    if value in {"none", "inherit", "initial", "unset", "revert"} or is_transparent(value):
        return parent.background
    return parse_colour(value) or parse_colour(value.partition(" ")[0])


def _look_the_same(colour: Rgb | None, background: Rgb | None) -> bool:
    if colour is None or background is None:
        return False
    return all(
        abs(part - behind) <= SAME_COLOUR_MAX
        for part, behind in zip(colour, background, strict=True)
    )
