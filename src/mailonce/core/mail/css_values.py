"""Lengths and colours of CSS, as far as they decide whether a text can be seen."""

import colorsys
import re
from collections.abc import Mapping

Rgb = tuple[int, int, int]

_LENGTH = re.compile(
    r"([+-]?(?:\d{1,9}(?:\.\d{0,9})?|\.\d{1,9}))(px|pt|em|rem|ex|ch|%|cm|mm|in|pc|vw|vh)?"
)
_PART = r"([+-]?[\d.]{1,9})(%|deg)?"
_FUNCTION_COLOUR = re.compile(
    rf"(rgb|hsl)a?\(\s*{_PART}[\s,]+{_PART}[\s,]+{_PART}(?:[\s,/]+{_PART})?\s*\)"
)
_HEX_COLOUR = re.compile(r"#([0-9a-f]{3,4}|[0-9a-f]{6}|[0-9a-f]{8})")
# Colours that we do not compute: text in them is taken to be seen.
_OTHER_COLOUR = re.compile(
    r"(?:lab|lch|oklab|oklch|hwb|color|color-mix|var|light-dark|device-cmyk)\(.*\)"
    r"|windowtext|window|linktext|visitedtext|buttontext|buttonface|canvas|canvastext|graytext"
)
_PX = {
    "": 1.0, "px": 1.0, "pt": 1.33, "em": 16.0, "rem": 16.0, "ex": 8.0, "ch": 8.0, "%": 8.0,
    "cm": 37.8, "mm": 3.78, "in": 96.0, "pc": 16.0, "vw": 8.0, "vh": 8.0,
}  # fmt: skip
_COLOUR_NAMES = """
    aliceblue:f0f8ff antiquewhite:faebd7 aqua:00ffff aquamarine:7fffd4 azure:f0ffff
    beige:f5f5dc bisque:ffe4c4 black:000000 blanchedalmond:ffebcd blue:0000ff
    blueviolet:8a2be2 brown:a52a2a burlywood:deb887 cadetblue:5f9ea0 chartreuse:7fff00
    chocolate:d2691e coral:ff7f50 cornflowerblue:6495ed cornsilk:fff8dc crimson:dc143c
    cyan:00ffff darkblue:00008b darkcyan:008b8b darkgoldenrod:b8860b darkgray:a9a9a9
    darkgreen:006400 darkgrey:a9a9a9 darkkhaki:bdb76b darkmagenta:8b008b
    darkolivegreen:556b2f darkorange:ff8c00 darkorchid:9932cc darkred:8b0000
    darksalmon:e9967a darkseagreen:8fbc8f darkslateblue:483d8b darkslategray:2f4f4f
    darkslategrey:2f4f4f darkturquoise:00ced1 darkviolet:9400d3 deeppink:ff1493
    deepskyblue:00bfff dimgray:696969 dimgrey:696969 dodgerblue:1e90ff firebrick:b22222
    floralwhite:fffaf0 forestgreen:228b22 fuchsia:ff00ff gainsboro:dcdcdc ghostwhite:f8f8ff
    gold:ffd700 goldenrod:daa520 gray:808080 green:008000 greenyellow:adff2f grey:808080
    honeydew:f0fff0 hotpink:ff69b4 indianred:cd5c5c indigo:4b0082 ivory:fffff0 khaki:f0e68c
    lavender:e6e6fa lavenderblush:fff0f5 lawngreen:7cfc00 lemonchiffon:fffacd
    lightblue:add8e6 lightcoral:f08080 lightcyan:e0ffff lightgoldenrodyellow:fafad2
    lightgray:d3d3d3 lightgreen:90ee90 lightgrey:d3d3d3 lightpink:ffb6c1 lightsalmon:ffa07a
    lightseagreen:20b2aa lightskyblue:87cefa lightslategray:778899 lightslategrey:778899
    lightsteelblue:b0c4de lightyellow:ffffe0 lime:00ff00 limegreen:32cd32 linen:faf0e6
    magenta:ff00ff maroon:800000 mediumaquamarine:66cdaa mediumblue:0000cd
    mediumorchid:ba55d3 mediumpurple:9370db mediumseagreen:3cb371 mediumslateblue:7b68ee
    mediumspringgreen:00fa9a mediumturquoise:48d1cc mediumvioletred:c71585
    midnightblue:191970 mintcream:f5fffa mistyrose:ffe4e1 moccasin:ffe4b5 navajowhite:ffdead
    navy:000080 oldlace:fdf5e6 olive:808000 olivedrab:6b8e23 orange:ffa500 orangered:ff4500
    orchid:da70d6 palegoldenrod:eee8aa palegreen:98fb98 paleturquoise:afeeee
    palevioletred:db7093 papayawhip:ffefd5 peachpuff:ffdab9 peru:cd853f pink:ffc0cb
    plum:dda0dd powderblue:b0e0e6 purple:800080 rebeccapurple:663399 red:ff0000
    rosybrown:bc8f8f royalblue:4169e1 saddlebrown:8b4513 salmon:fa8072 sandybrown:f4a460
    seagreen:2e8b57 seashell:fff5ee sienna:a0522d silver:c0c0c0 skyblue:87ceeb
    slateblue:6a5acd slategray:708090 slategrey:708090 snow:fffafa springgreen:00ff7f
    steelblue:4682b4 tan:d2b48c teal:008080 thistle:d8bfd8 tomato:ff6347 turquoise:40e0d0
    violet:ee82ee wheat:f5deb3 white:ffffff whitesmoke:f5f5f5 yellow:ffff00
    yellowgreen:9acd32
"""
NAMED_COLOURS: Mapping[str, Rgb] = {
    name: (int(digits[:2], 16), int(digits[2:4], 16), int(digits[4:], 16))
    for name, digits in (entry.split(":") for entry in _COLOUR_NAMES.split())
}


def length_px(value: str) -> float | None:
    """Give a length in pixels, roughly: whether it is about nothing or far away is all we ask.

    A number without a unit is no length, unless it is zero.
    """
    match = _LENGTH.fullmatch(value)
    if match is None:
        return None
    number = float(match[1])
    return number * _PX[match[2] or ""] if match[2] or number == 0 else None


def parse_colour(value: str) -> Rgb | None:
    """Give a colour, as if nothing shone through; None for what we do not compute."""
    if value in NAMED_COLOURS:
        return NAMED_COLOURS[value]
    if match := _HEX_COLOUR.fullmatch(value):
        digits = match[1]
        if len(digits) <= 4:
            digits = "".join(digit * 2 for digit in digits)
        return int(digits[:2], 16), int(digits[2:4], 16), int(digits[4:6], 16)
    if match := _FUNCTION_COLOUR.fullmatch(value):
        first, second, third = (_number(match[n]) for n in (2, 4, 6))
        if match[1] == "hsl":
            red, green, blue = colorsys.hls_to_rgb(
                first / 360 % 1, _between(third / 100), _between(second / 100)
            )
            return round(red * 255), round(green * 255), round(blue * 255)
        scale = 1 / 100 if match[3] == "%" else 1 / 255
        red, green, blue = (_between(part * scale) for part in (first, second, third))
        return round(red * 255), round(green * 255), round(blue * 255)
    return None


def is_transparent(value: str) -> bool:
    """Say whether a colour lets nearly everything through, so that text in it is not seen."""
    if value == "transparent":
        return True
    if match := _HEX_COLOUR.fullmatch(value):
        digits = match[1]
        return (len(digits) == 4 and digits[3] == "0") or (len(digits) == 8 and digits[6:] < "10")
    match = _FUNCTION_COLOUR.fullmatch(value)
    if match is None or match[8] is None:
        return False
    return _number(match[8]) * (0.01 if match[9] else 1) <= 0.05


def is_colour(value: str) -> bool:
    """Say whether a browser would take this for a colour."""
    return (
        is_transparent(value)
        or parse_colour(value) is not None
        or _OTHER_COLOUR.fullmatch(value) is not None
        or value == "currentcolor"
    )


def _between(part: float) -> float:
    return min(1.0, max(0.0, part))


def _number(digits: str) -> float:
    try:
        return float(digits)
    except ValueError:
        return 0.0
