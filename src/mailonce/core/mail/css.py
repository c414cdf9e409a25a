"""Declarations of CSS that decide whether a text can be seen.

A declaration that a browser would not understand is skipped, as a browser does: otherwise
`display: none; display: bogus` would hide a text from a person and show it to us.
"""

import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from functools import lru_cache

from mailonce.core.mail.css_values import is_colour, length_px

DECLARATIONS_MAX = 100
REMEMBERED_CHARS_MAX = 400

_EVERYWHERE = frozenset({"inherit", "initial", "unset", "revert"})
# What bears on whether text is seen, with the words that each may have; all else is skipped.
_WORDS: Mapping[str, frozenset[str]] = {
    "content-visibility": frozenset({"visible", "auto", "hidden"}),
    "direction": frozenset({"ltr", "rtl"}),
    "display": frozenset(
        {
            "block", "contents", "flex", "flow-root", "grid", "inline", "inline-block",
            "inline-flex", "inline-grid", "inline-table", "list-item", "none", "ruby", "run-in",
            "table", "table-caption", "table-cell", "table-column", "table-column-group",
            "table-footer-group", "table-header-group", "table-row", "table-row-group",
        }
    ),
    "mso-hide": frozenset({"all", "none", "screen"}),
    "position": frozenset({"absolute", "fixed", "relative", "static", "sticky"}),
    "unicode-bidi": frozenset(
        {"normal", "embed", "bidi-override", "isolate", "isolate-override", "plaintext"}
    ),
    "visibility": frozenset({"collapse", "hidden", "visible"}),
    "white-space": frozenset(
        {"break-spaces", "normal", "nowrap", "pre", "pre-line", "pre-wrap", "collapse", "preserve"}
    ),
}  # fmt: skip
_FONT_SIZES = frozenset(
    {
        "xx-small", "x-small", "small", "medium", "large", "x-large", "xx-large", "xxx-large",
        "smaller", "larger",
    }
)  # fmt: skip
_LENGTHS = frozenset(
    {
        "bottom", "height", "left", "margin-left", "margin-top", "max-height", "max-width",
        "right", "text-indent", "top", "width",
    }
)  # fmt: skip
_LENGTH_WORDS = frozenset({"auto", "none", "max-content", "min-content", "fit-content"})
_NUMBER = re.compile(r"[+-]?(?:\d{1,9}(?:\.\d{0,9})?|\.\d{1,9})%?")
_FREE = frozenset(
    {
        "background", "background-image", "clip", "clip-path", "filter", "font", "overflow",
        "overflow-x", "overflow-y", "scale", "transform",
    }
)  # fmt: skip
# A short form sets the long ones back.
_RESETS: Mapping[str, tuple[str, ...]] = {
    "background": ("background-color", "background-image"),
    "font": ("font-size",),
    "overflow": ("overflow-x", "overflow-y"),
}
_COMMENT = re.compile(r"/\*.*?(?:\*/|\Z)", re.DOTALL)
_ESCAPE = re.compile(r"\\(?:([0-9A-Fa-f]{1,6})[ \t\n\f\r]?|([^\n]))")
# Where a semicolon may stand without ending a declaration.
_STRING_OR_MARK = re.compile(
    r"""\\.|"(?:[^"\\]|\\.)*"?|'(?:[^'\\]|\\.)*'?|[()\[\]{};]""", re.DOTALL
)


@dataclass(frozen=True, slots=True)
class Declarations:
    """Values by property, in lower case; what is important wins over what is not."""

    normal: Mapping[str, str] = field(default_factory=dict)
    important: Mapping[str, str] = field(default_factory=dict)

    @property
    def values(self) -> Mapping[str, str]:
        """Give the values that count where no other declarations do."""
        return merge(self.normal, self.important)


def merge(values: Mapping[str, str], stronger: Mapping[str, str]) -> Mapping[str, str]:
    """Put stronger values over others; short forms set back the long ones."""
    if not stronger:
        return values
    result = dict(values)
    for name, long_names in _RESETS.items():
        if name in stronger:
            for long_name in long_names:
                result.pop(long_name, None)
    result.update(stronger)
    return result


def parse_declarations(style: str) -> Declarations:
    """Read the declarations of a `style` attribute or of a rule; the last one counts."""
    # A newsletter repeats a few styles hundreds of times.
    return _remembered(style) if len(style) <= REMEMBERED_CHARS_MAX else _parse(style)


@lru_cache(maxsize=512)
def _remembered(style: str) -> Declarations:
    return _parse(style)


def _parse(style: str) -> Declarations:
    normal: dict[str, str] = {}
    important: dict[str, str] = {}
    for declaration in _split(remove_comments(style)):
        name, _, value = unescape(declaration).partition(":")
        name = name.strip().lower()
        value, mark, _ = value.strip().lower().partition("!")
        value = value.strip()
        if not _is_understood(name, value):
            continue
        values = important if mark else normal
        for long_name in _RESETS.get(name, ()):
            values.pop(long_name, None)
        values[name] = value
    return Declarations(normal, important)


def remove_comments(css: str) -> str:
    """Take out comments, of which the last may lack its end."""
    return _COMMENT.sub("", css) if "/*" in css else css


def unescape(css: str) -> str:
    """Decode what is written with backslashes."""
    return _ESCAPE.sub(_unescape, css) if "\\" in css else css


def _split(style: str) -> Iterator[str]:
    start = depth = count = 0
    for mark in _STRING_OR_MARK.finditer(style):
        match mark[0]:
            case "(" | "[" | "{":
                depth += 1
            case ")" | "]" | "}":
                depth = max(0, depth - 1)
            case ";" if depth == 0:
                yield style[start : mark.start()]
                start = mark.end()
                count += 1
                if count >= DECLARATIONS_MAX:
                    return
            case _:
                pass
    yield style[start:]


def _is_understood(name: str, value: str) -> bool:
    if not value:
        return False
    if name in _WORDS:
        return value in _WORDS[name] or value in _EVERYWHERE
    if name in _FREE:
        return True
    if value in _EVERYWHERE:
        return name in _LENGTHS or name in {"color", "background-color", "font-size", "opacity"}
    if name in {"color", "background-color"}:
        return is_colour(value)
    if name == "font-size":
        return length_px(value) is not None or value in _FONT_SIZES or "(" in value
    if name in _LENGTHS:
        return length_px(value) is not None or value in _LENGTH_WORDS or "(" in value
    return name in {"opacity", "zoom"} and _NUMBER.fullmatch(value) is not None


def _unescape(match: re.Match[str]) -> str:
    if match[1] is None:
        return match[2]
    number = int(match[1], 16)
    return chr(number) if 0 < number < 0xD800 else "\ufffd"
