"""The visible text of HTML, with its anchors: what a person sees, and no more.

Dropped: scripts, styles, titles, comments, templates, attributes and alternative texts, and all
text that a sender hid (`appearance.py` has the ways). Blocks and line breaks become newlines, table
cells are parted by a space, and inline elements are joined as they stand, so that a code whose
digits are in one `span` each is one word. Nothing is fetched. What goes beyond a limit is left
out, and the result says so.

>>> read_visible_text('<p>Hi<b style="display:none">1</b> <a href="https://a.example">you</a>').text
'Hi you'
"""

import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass

from mailonce.core.mail.css import merge, parse_declarations
from mailonce.core.mail.css_values import NAMED_COLOURS
from mailonce.core.mail.html_tokens import EndTag, HtmlTokens, StartTag, TextRun
from mailonce.core.mail.invisible_characters import remove_invisible, remove_reversed
from mailonce.core.mail.open_elements import CELLS, UNSEEN, VOID, Element, OpenElements
from mailonce.core.mail.style_sheet import StyleSheet, media_matches

HTML_CHARS_MAX = 2_000_000
TOKENS_MAX = 200_000
TEXT_CHARS_MAX = 200_000
ANCHORS_MAX = 1_000
HREF_CHARS_MAX = 8_192
CLASSES_MAX = 50

_SPACES = re.compile(r"[ \t\n\f\r\u00a0\u1680\u2000-\u200a\u202f\u205f\u3000]+")
_BLANKS = re.compile(r"[ \t\u00a0\u1680\u2000-\u200a\u202f\u205f\u3000]+")
_HEX = re.compile(r"[0-9a-f]{3}|[0-9a-f]{6}")
_KEEPS_LINE_ENDS = frozenset({"listing", "plaintext", "pre", "textarea", "xmp"})
# Their text is no markup; it is seen only in these.
_SEEN_RAW = frozenset({"textarea", "xmp"})
_IGNORED = frozenset({"body", "frameset", "head", "html", "title", "style", "script"})


@dataclass(frozen=True, slots=True, kw_only=True)
class Anchor:
    """A link that a person sees, and where its text stands; a picture has none."""

    href: str
    text: str
    start: int
    end: int


@dataclass(frozen=True, slots=True, kw_only=True)
class VisibleText:
    text: str
    anchors: tuple[Anchor, ...] = ()
    # Characters of text that the sender hid, without spaces.
    hidden_chars: int = 0
    # Something was left out, since a limit was reached.
    is_truncated: bool = False


def read_visible_text(html: str, *, chars_max: int = TEXT_CHARS_MAX) -> VisibleText:
    """Give what a person sees of `html`; never raises, whatever it is given."""
    reader = _Reader(StyleSheet(), chars_max)
    is_whole = reader.read(html[:HTML_CHARS_MAX])
    if reader.has_late_style:
        # Rules hold for the text above them, too: read again, with all of them.
        reader = _Reader(reader.sheet, chars_max, is_sheet_whole=True)
        is_whole = reader.read(html[:HTML_CHARS_MAX])
    text = reader.text()
    return VisibleText(
        text=text,
        anchors=tuple(_anchors(text, reader.links)),
        hidden_chars=reader.hidden_chars,
        is_truncated=not is_whole or len(html) > HTML_CHARS_MAX,
    )


@dataclass(frozen=True, slots=True)
class _Link:
    href: str
    start: int
    end: int
    is_seen: bool


class _Reader:
    """Reads tokens, keeps the open elements, and writes down what is seen."""

    def __init__(self, sheet: StyleSheet, chars_max: int, *, is_sheet_whole: bool = False) -> None:
        self.sheet = sheet
        self.links: list[_Link] = []
        self.hidden_chars = 0
        self.has_late_style = False
        self._is_sheet_whole = is_sheet_whole
        self._is_style = False
        self._elements = OpenElements()
        self._line = _Lines(chars_max)
        self._is_cut = False

    def read(self, html: str) -> bool:
        """Read a document; say whether it was read to its end."""
        tokens = HtmlTokens(html)
        is_whole = True
        for count, token in enumerate(tokens):
            if count >= TOKENS_MAX or self._is_full:
                is_whole = False
                break
            match token:
                case StartTag():
                    self._start(token)
                case EndTag(name=name):
                    self._end(name)
                case TextRun():
                    self._write(token)
            tokens.is_foreign = self._elements.is_foreign
        self._leave(self._elements.close_all())
        return is_whole and not self._is_cut and not self._line.is_cut

    def text(self) -> str:
        return self._line.text()

    @property
    def _is_full(self) -> bool:
        return self._elements.is_full or self._line.is_full or self.sheet.is_full

    def _start(self, tag: StartTag) -> None:
        name = "img" if tag.name == "image" else tag.name
        self._is_style = name == "style" and media_matches(tag.attributes.get("media", ""))
        if name == "body":
            self._start_body(tag.attributes)
        if name in _IGNORED:
            return
        self._start_body({})
        if self._elements.ignores(name):
            return
        if name == "select" and self._elements.has(name) and not self._elements.is_foreign:
            # A choice within a choice ends it.
            self._end(name)
            return
        closed, opened = self._elements.close_before(name)
        self._leave(closed)
        self._enter_again(opened)
        if name in VOID:
            self._void(name)
            return
        if tag.is_self_closing and self._elements.is_foreign:
            return
        element = self._open(name, tag.attributes)
        element.start = self._line.chars
        if name == "a":
            element.href = self._href(tag.attributes.get("href", ""))
        if element.is_block and not element.appearance.is_hidden:
            self._line.end()
        elif name in CELLS:
            self._line.part()

    def _open(self, name: str, attributes: Mapping[str, str]) -> Element:
        classes = attributes.get("class", "").split()[:CLASSES_MAX]
        element = Element(name, attributes.get("id", ""), frozenset(classes))
        inline = parse_declarations(attributes.get("style", ""))
        values = self.sheet.values_of(element, self._elements.path, inline)
        element.styles = merge(_presentation(name, attributes), values)
        if name in UNSEEN:
            element.styles = merge(element.styles, {"display": "none"})
        self._elements.push(element)
        return element

    def _start_body(self, attributes: Mapping[str, str]) -> None:
        """Open the body, at its tag or at what must stand in it: after the sheets of the head."""
        if not self._elements.path:
            self._open("html", {})
            self._open("body", attributes)

    def _end(self, name: str) -> None:
        self._is_style = False
        if name == "br":
            self._void("br")
            return
        if name in {"body", "html"}:
            # Browsers go on with the body behind its end tag.
            return
        closed, opened = self._elements.close(name)
        self._leave(closed)
        self._enter_again(opened)

    def _void(self, name: str) -> None:
        if self._elements.appearance.is_hidden:
            return
        match name:
            case "br":
                self._line.end(is_break=True)
            case "hr":
                self._line.end()
            case "img" | "input" | "embed":
                # A picture stands between what is to its left and right.
                self._line.part()
            case _:
                pass

    def _write(self, run: TextRun) -> None:
        if self._is_style:
            self._add_style(run.text)
            return
        if run.raw_of and run.raw_of not in _SEEN_RAW:
            return
        text = remove_invisible(remove_reversed(run.text))
        if not text.strip():
            self._line.write(text, keeps_line_ends=self._elements.appearance.keeps_line_ends)
            return
        self._start_body({})
        appearance = self._elements.appearance
        if appearance.can_be_seen:
            self._line.write(text, keeps_line_ends=appearance.keeps_line_ends)
        else:
            self.hidden_chars += len(_SPACES.sub("", text))

    def _add_style(self, css: str) -> None:
        if self._is_sheet_whole:
            return
        self.sheet.add(css)
        self.has_late_style |= self._line.chars > 0 or self.hidden_chars > 0

    def _href(self, href: str) -> str:
        href = href.strip("\t\n\f\r ")
        if len(href) > HREF_CHARS_MAX:
            self._is_cut = True
            return ""
        return href

    def _leave(self, closed: Sequence[Element]) -> None:
        for element in closed:
            if element.href:
                self._keep_link(element)
            if element.is_block and not element.appearance.is_hidden:
                self._line.end()
            elif element.name in CELLS:
                self._line.part()

    def _enter_again(self, opened: Sequence[Element]) -> None:
        for element in opened:
            element.start = self._line.chars

    def _keep_link(self, element: Element) -> None:
        if len(self.links) >= ANCHORS_MAX:
            self._is_cut = True
            return
        is_seen = element.appearance.can_be_seen
        self.links.append(_Link(element.href, element.start, self._line.chars, is_seen))


class _Lines:
    """Text whose spaces are collapsed as in a browser, within a limit."""

    def __init__(self, chars_max: int) -> None:
        self._pieces: list[str] = []
        self._chars_max = chars_max
        self._is_parted = False
        # Line ends that wait for text: none are written before the first or after the last line.
        self._ends = 0
        self.chars = 0
        self.is_cut = False

    @property
    def is_full(self) -> bool:
        return self.chars >= self._chars_max

    def write(self, text: str, *, keeps_line_ends: bool) -> None:
        if keeps_line_ends:
            for number, line in enumerate(text.split("\n")):
                if number:
                    self.end(is_break=True)
                self._write_line(_BLANKS.sub(" ", line))
        else:
            self._write_line(_SPACES.sub(" ", text))

    def part(self) -> None:
        """Part what comes next by a space."""
        self._is_parted = True

    def end(self, *, is_break: bool = False) -> None:
        """End a line that has text; a break also ends an empty one, once."""
        if self.chars == 0:
            return
        self._ends = min(2, self._ends + 1) if is_break else max(1, self._ends)

    def text(self) -> str:
        return "".join(self._pieces)

    def _write_line(self, text: str) -> None:
        words = text.strip(" ")
        if not words:
            self._is_parted |= bool(text)
            return
        if self._ends:
            self._put("\n" * self._ends)
        elif self.chars and (self._is_parted or text.startswith(" ")):
            self._put(" ")
        self._ends = 0
        self._put(words)
        self._is_parted = text.endswith(" ")

    def _put(self, piece: str) -> None:
        if len(piece) > self._chars_max - self.chars:
            self.is_cut = True
            piece = piece[: self._chars_max - self.chars]
        self._pieces.append(piece)
        self.chars += len(piece)


def _presentation(name: str, attributes: Mapping[str, str]) -> Mapping[str, str]:
    """Give what an element and its attributes say about its looks; any style is stronger."""
    values: dict[str, str] = {}
    if "bgcolor" in attributes:
        values["background-color"] = _old_colour(attributes["bgcolor"])
    if "color" in attributes and name == "font":
        values["color"] = _old_colour(attributes["color"])
    if "text" in attributes and name == "body":
        values["color"] = _old_colour(attributes["text"])
    if attributes.get("dir", "").lower() in {"ltr", "rtl"}:
        values["direction"] = attributes["dir"].lower()
        if name == "bdo":
            values["unicode-bidi"] = "bidi-override"
    if name in _KEEPS_LINE_ENDS:
        values["white-space"] = "pre"
    if "hidden" in attributes or (name == "dialog" and "open" not in attributes):
        values["display"] = "none"
    return values


def _old_colour(value: str) -> str:
    """Write the colour of an attribute as CSS does; attributes may lack the "#"."""
    value = value.strip().lower()
    return f"#{value}" if _HEX.fullmatch(value) and value not in NAMED_COLOURS else value


def _anchors(text: str, links: Sequence[_Link]) -> Iterator[Anchor]:
    for link in sorted(links, key=lambda link: (link.start, link.end)):
        words = text[link.start : link.end]
        start = link.start + len(words) - len(words.lstrip())
        words = words.strip()
        if words or link.is_seen:
            yield Anchor(href=link.href, text=words, start=start, end=start + len(words))
