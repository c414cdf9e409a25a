"""Read the few declarations of CSS that decide whether a text can be seen."""

import re
from collections.abc import Mapping
from functools import lru_cache

DECLARATIONS_MAX = 100
REMEMBERED_CHARS_MAX = 400
# What bears on whether text is seen; all else is skipped.
PROPERTIES = frozenset(
    {
        "background", "background-color", "background-image", "bottom", "clip", "clip-path",
        "color", "content-visibility", "direction", "display", "filter", "font", "font-size",
        "height", "left", "margin-left", "margin-top", "max-height", "max-width", "mso-hide",
        "opacity", "overflow", "overflow-x", "overflow-y", "position", "right", "scale",
        "text-indent", "top", "transform", "visibility", "white-space", "width", "zoom",
    }
)  # fmt: skip

Rgb = tuple[int, int, int]

_COMMENT = re.compile(r"/\*.*?(?:\*/|\Z)", re.DOTALL)
_ESCAPE = re.compile(r"\\(?:([0-9A-Fa-f]{1,6})[ \t\n\f\r]?|([^\n]))")
_LENGTH = re.compile(
    r"([+-]?(?:\d{1,9}\.?\d{0,9}|\.\d{1,9}))(px|pt|em|rem|ex|ch|%|cm|mm|in|pc|vw|vh)?"
)
_PART = r"([\d.]{1,9})(%?)"
_FUNCTION_COLOUR = re.compile(
    rf"rgba?\(\s*{_PART}[\s,]+{_PART}[\s,]+{_PART}(?:[\s,/]+{_PART})?\s*\)"
)
_HEX_COLOUR = re.compile(r"#?([0-9a-f]{3,4}|[0-9a-f]{6}|[0-9a-f]{8})")
_PX = {
    "": 1.0, "px": 1.0, "pt": 1.33, "em": 16.0, "rem": 16.0, "ex": 8.0, "ch": 8.0, "%": 8.0,
    "cm": 37.8, "mm": 3.78, "in": 96.0, "pc": 16.0, "vw": 8.0, "vh": 8.0,
}  # fmt: skip
_NAMED_COLOURS: Mapping[str, Rgb] = {
    "black": (0, 0, 0), "silver": (192, 192, 192), "gray": (128, 128, 128),
    "grey": (128, 128, 128), "white": (255, 255, 255), "maroon": (128, 0, 0), "red": (255, 0, 0),
    "purple": (128, 0, 128), "fuchsia": (255, 0, 255), "magenta": (255, 0, 255),
    "green": (0, 128, 0), "lime": (0, 255, 0), "olive": (128, 128, 0), "yellow": (255, 255, 0),
    "navy": (0, 0, 128), "blue": (0, 0, 255), "teal": (0, 128, 128), "aqua": (0, 255, 255),
    "cyan": (0, 255, 255), "orange": (255, 165, 0), "snow": (255, 250, 250),
    "ivory": (255, 255, 240), "whitesmoke": (245, 245, 245), "ghostwhite": (248, 248, 255),
    "floralwhite": (255, 250, 240), "mintcream": (245, 255, 250), "azure": (240, 255, 255),
    "seashell": (255, 245, 238), "gainsboro": (220, 220, 220), "lightgray": (211, 211, 211),
    "lightgrey": (211, 211, 211), "darkgray": (169, 169, 169), "dimgray": (105, 105, 105),
}  # fmt: skip


def parse_declarations(style: str) -> Mapping[str, str]:
    """Give the value of each property that matters, in lower case; the last one counts.

    `!important` wins over what is not, as in a browser.
    """
    # A newsletter repeats a few styles hundreds of times.
    return _remembered(style) if len(style) <= REMEMBERED_CHARS_MAX else _parse(style)


@lru_cache(maxsize=512)
def _remembered(style: str) -> Mapping[str, str]:
    return _parse(style)


def _parse(style: str) -> Mapping[str, str]:
    if "/*" in style:
        style = _COMMENT.sub("", style)
    if "\\" in style:
        style = _ESCAPE.sub(_unescape, style)
    values: dict[str, str] = {}
    important: set[str] = set()
    for declaration in style.split(";", DECLARATIONS_MAX)[:DECLARATIONS_MAX]:
        name, _, value = declaration.partition(":")
        name = name.strip().lower()
        if name not in PROPERTIES:
            continue
        value, mark, _ = value.strip().lower().partition("!")
        if mark:
            important.add(name)
        elif name in important:
            continue
        values[name] = value.strip()
    return values


def length_px(value: str) -> float | None:
    """Give a length in pixels, roughly: whether it is about nothing or far away is all we ask."""
    match = _LENGTH.match(value)
    if match is None:
        return None
    return float(match[1]) * _PX[match[2] or ""]


def parse_colour(value: str) -> Rgb | None:
    """Give a colour; one that cannot be seen through at all, or that is unknown, is None."""
    value = value.strip().lower()
    if value in _NAMED_COLOURS:
        return _NAMED_COLOURS[value]
    if match := _HEX_COLOUR.fullmatch(value):
        digits = match[1]
        if len(digits) <= 4:
            digits = "".join(digit * 2 for digit in digits)
        return int(digits[:2], 16), int(digits[2:4], 16), int(digits[4:6], 16)
    if match := _FUNCTION_COLOUR.match(value):
        scale = 2.55 if match[2] else 1.0
        red, green, blue = (min(255, round(_number(match[n]) * scale)) for n in (1, 3, 5))
        return red, green, blue
    return None


def is_transparent(value: str) -> bool:
    """Say whether a colour lets everything through, so that text in it cannot be seen."""
    value = value.strip().lower()
    if value == "transparent":
        return True
    if match := _HEX_COLOUR.fullmatch(value):
        alpha = {4: 3, 8: 6}.get(len(match[1]))
        return alpha is not None and int(match[1][alpha:], 16) <= (1 if alpha == 3 else 16)
    match = _FUNCTION_COLOUR.match(value)
    if match is None or match[7] is None:
        return False
    return _number(match[7]) * (0.01 if match[8] else 1.0) <= 0.05


def _number(digits: str) -> float:
    try:
        return float(digits)
    except ValueError:
        return 0.0


def _unescape(match: re.Match[str]) -> str:
    if match[1] is None:
        return match[2]
    number = int(match[1], 16)
    return chr(number) if 0 < number < 0xD800 else "\ufffd"
