"""Cut HTML into tags and text, as browsers do, in one pass.

This follows the tokenizer of the HTML standard. We have our own since each character is looked at
a bounded number of times: the parsers at hand need quadratic time for deep nesting, for many
attributes, or for comments that never end (docs/decisions/0010-our-own-html-reader.md).
"""

import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from html.entities import html5

# Attributes that bear on what is seen; all others are skipped as they are read.
ATTRIBUTES = frozenset(
    {
        "bgcolor", "class", "color", "dir", "hidden", "href", "id", "media", "open", "style",
        "text", "type",
    }
)  # fmt: skip
VALUE_CHARS_MAX = 16_384
# What stands in these elements is not markup.
RAW_TEXT = frozenset({"iframe", "noembed", "noframes", "script", "style", "xmp"})
# The same, but character references are decoded.
ESCAPABLE_TEXT = frozenset({"textarea", "title"})

# Any other "<" is text.
_MARKUP = re.compile(r"<[A-Za-z/!?]")
_TAG_NAME = re.compile(r"[^\t\n\f\r />]+")
_SKIPPED = re.compile(r"[\t\n\f\r /]*")
_SPACE = re.compile(r"[\t\n\f\r ]*")
_ATTRIBUTE_NAME = re.compile(r"=?[^\t\n\f\r />=]*")
_UNQUOTED = re.compile(r"[^\t\n\f\r >]*")
_COMMENT_END = re.compile(r"--!?>")
_RAW_END = {
    name: re.compile(rf"</{name}(?=[\t\n\f\r />])", re.IGNORECASE)
    for name in RAW_TEXT | ESCAPABLE_TEXT
}
_REFERENCE = re.compile(r"&(?:#[xX]?([0-9A-Fa-f]+)|[A-Za-z][A-Za-z0-9]{0,31});?")
_NAME_CHARS_MAX = 32


@dataclass(frozen=True, slots=True)
class StartTag:
    name: str
    attributes: Mapping[str, str]
    is_self_closing: bool = False


@dataclass(frozen=True, slots=True)
class EndTag:
    name: str


@dataclass(frozen=True, slots=True)
class TextRun:
    text: str
    # The element whose raw text it is, such as `style`; "" for ordinary text.
    raw_of: str = ""


@dataclass(slots=True)
class HtmlTokens:
    """The tags and texts of a document, in order.

    Who builds elements sets `is_foreign` while inside SVG or MathML, where CDATA is text.
    """

    html: str
    is_foreign: bool = False
    _at: int = field(default=0, init=False)

    def __iter__(self) -> Iterator[StartTag | EndTag | TextRun]:
        html, end = self.html, len(self.html)
        while self._at < end:
            markup = _MARKUP.search(html, self._at)
            opening = markup.start() if markup else end
            if opening > self._at:
                yield TextRun(decode_references(html[self._at : opening]))
                self._at = opening
            if opening < end:
                yield from self._markup(opening)

    def _markup(self, opening: int) -> Iterator[StartTag | EndTag | TextRun]:
        match self.html[opening + 1]:
            case "/":
                yield from self._end_tag(opening + 2)
            case "!":
                yield from self._declaration(opening)
            case "?":
                self._at = _after(self.html, ">", opening)
            case _:
                yield from self._start_tag(opening + 1)

    def _start_tag(self, at: int) -> Iterator[StartTag | TextRun]:
        name, at = _tag_name(self.html, at)
        attributes, at, is_self_closing = _attributes(self.html, at)
        self._at = at
        if at > len(self.html) or self.html[at - 1] != ">":
            # A tag that never ends is dropped, with everything after it.
            self._at = len(self.html)
            return
        yield StartTag(name, attributes, is_self_closing)
        if self.is_foreign:
            return
        if name == "plaintext":
            yield TextRun(self.html[at:])
            self._at = len(self.html)
        elif name in _RAW_END:
            yield self._raw_text(name)

    def _raw_text(self, name: str) -> TextRun:
        ending = _RAW_END[name].search(self.html, self._at)
        stop = ending.start() if ending else len(self.html)
        text = self.html[self._at : stop]
        self._at = stop
        return TextRun(decode_references(text) if name in ESCAPABLE_TEXT else text, raw_of=name)

    def _end_tag(self, at: int) -> Iterator[EndTag]:
        following = self.html[at : at + 1]
        if not (following.isascii() and following.isalpha()):
            # "</>" is nothing; "</" and anything else is a comment.
            self._at = _after(self.html, ">", at)
            return
        name, at = _tag_name(self.html, at)
        _, self._at, _ = _attributes(self.html, at)
        if self._at <= len(self.html) and self.html[self._at - 1] == ">":
            yield EndTag(name)
        else:
            self._at = len(self.html)

    def _declaration(self, opening: int) -> Iterator[TextRun]:
        html = self.html
        if html.startswith("<!--", opening):
            # "<!-->" and "<!--->" are whole comments, so the end may use the opening's dashes.
            ending = _COMMENT_END.search(html, opening + 2)
            self._at = ending.end() if ending else len(html)
        elif self.is_foreign and html.startswith("<![CDATA[", opening):
            stop = html.find("]]>", opening + 9)
            stop = len(html) if stop < 0 else stop
            yield TextRun(html[opening + 9 : stop])
            self._at = stop + 3
        else:
            self._at = _after(html, ">", opening)


def decode_references(text: str, *, is_attribute: bool = False) -> str:
    """Decode character references as browsers do.

    In an attribute `&copy=` stays what it is: a query string is no place for a copyright sign.
    """
    if "&" not in text:
        return text

    def decode(match: re.Match[str]) -> str:
        reference = match[0]
        if reference.startswith("&#"):
            return _code_point(reference, match[1])
        if is_attribute and not reference.endswith(";"):
            following = text[match.end() : match.end() + 1]
            is_name = reference[1:] in html5 and following != "=" and not following.isalnum()
            return html5[reference[1:]] if is_name else reference
        return _named(reference, is_attribute=is_attribute)

    return _REFERENCE.sub(decode, text)


def _named(reference: str, *, is_attribute: bool) -> str:
    name = reference[1:]
    if name in html5:
        return html5[name]
    if not is_attribute:
        # Old names need no semicolon, so the longest one that fits is meant: "&notit" is "¬it".
        for stop in range(min(len(name), _NAME_CHARS_MAX) - 1, 1, -1):
            if name[:stop] in html5:
                return html5[name[:stop]] + name[stop:]
    return reference


def _code_point(reference: str, digits: str) -> str:
    is_hex = reference[2] in "xX"
    if not is_hex and not digits.isdecimal():
        # "&#12ab" is the number 12, followed by letters.
        decimal = re.match("[0-9]*", digits)
        assert decimal is not None, "the pattern matches anything"
        if not decimal[0]:
            return reference
        return _code_point("&#" + decimal[0], decimal[0]) + reference[2 + decimal.end() :]
    digits = digits.lstrip("0")
    if len(digits) > 7:
        return "\ufffd"
    number = int(digits or "0", 16 if is_hex else 10)
    if number in _WINDOWS_1252:
        return _WINDOWS_1252[number]
    is_character = 0 < number < 0x110000 and not 0xD800 <= number < 0xE000
    return chr(number) if is_character else "\ufffd"


# What is written as a C1 control is meant as Windows-1252, says the standard.
_WINDOWS_1252 = {
    number: bytes([number]).decode("cp1252")
    for number in range(0x80, 0xA0)
    if number not in {0x81, 0x8D, 0x8F, 0x90, 0x9D}
}


def _after(html: str, mark: str, at: int) -> int:
    position = html.find(mark, at)
    return len(html) if position < 0 else position + len(mark)


def _tag_name(html: str, at: int) -> tuple[str, int]:
    name = _TAG_NAME.match(html, at)
    assert name is not None, "a tag starts with a letter"
    return name[0].lower(), name.end()


def _attributes(html: str, at: int) -> tuple[Mapping[str, str], int, bool]:
    """Read to the end of a tag; the position lies behind ">", or behind the document."""
    attributes: dict[str, str] = {}
    end = len(html)
    while True:
        skipped = _SKIPPED.match(html, at)
        assert skipped is not None, "the pattern matches anything"
        at = skipped.end()
        if at >= end:
            return attributes, end + 1, False
        if html[at] == ">":
            return attributes, at + 1, skipped[0].endswith("/")
        name = _ATTRIBUTE_NAME.match(html, at)
        assert name is not None, "the pattern matches anything"
        start, at, stop = _value(html, name.end())
        key = name[0].lower() if len(name[0]) <= _NAME_CHARS_MAX else ""
        # The first of two attributes with one name counts.
        if key in ATTRIBUTES and key not in attributes:
            value = html[start:stop] if stop - start <= VALUE_CHARS_MAX else ""
            attributes[key] = decode_references(value, is_attribute=True)


def _value(html: str, at: int) -> tuple[int, int, int]:
    """Find an attribute's value behind its name: where it starts, what follows it, its end."""
    space = _SPACE.match(html, at)
    assert space is not None, "the pattern matches anything"
    if not html.startswith("=", space.end()):
        return at, at, at
    space = _SPACE.match(html, space.end() + 1)
    assert space is not None, "the pattern matches anything"
    at = space.end()
    quote = html[at : at + 1]
    if quote in {'"', "'"}:
        stop = html.find(quote, at + 1)
        return (at + 1, stop + 1, stop) if stop >= 0 else (at, len(html), at)
    unquoted = _UNQUOTED.match(html, at)
    assert unquoted is not None, "the pattern matches anything"
    return at, unquoted.end(), unquoted.end()
