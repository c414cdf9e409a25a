"""The text of a mail that has HTML alone: what a reader without HTML would see.

One walk over the tags. Not html.parser: broken markup makes it take time that grows with the square
of the length, or fail. What is broken here only reads badly.
"""

import re
from html import unescape

_SKIPPED = frozenset({"style", "script", "head", "title", "template", "noscript", "svg"})
_SPACED = frozenset({"p", "h1", "h2", "h3", "h4", "h5", "h6", "ul", "ol", "blockquote", "table"})
_BLOCKS = _SPACED | {
    "div", "br", "tr", "section", "article", "header", "footer", "li", "pre", "hr", "center",
}  # fmt: skip

# A tag ends at the next angle bracket: so no part of the text is looked at twice.
_TAG = re.compile(r"<(/?)([A-Za-z][A-Za-z0-9]{0,20})([^<>]*)>|<[!?/][^<>]*>")
_LINK = re.compile(r"""\bhref\s*=\s*(?:"([^"]*)"|'([^']*)'|([^\s"'>]+))""", re.IGNORECASE)
_ALT = re.compile(r"""\balt\s*=\s*(?:"([^"]*)"|'([^']*)'|([^\s"'>]+))""", re.IGNORECASE)
_REFERENCE = re.compile(r"&(?:#[0-9]{1,7}|#[xX][0-9a-fA-F]{1,6}|[A-Za-z][A-Za-z0-9]{1,31});")
_SPACES = re.compile(r"[ \t\r\n\f\v\u00a0]+")
_LINES = re.compile(r"\n{3,}")
_COMMENT = re.compile(r"<!--.*?-->", re.DOTALL)


def text_of_html(html: str) -> str:
    """Write HTML as plain text: blocks are lines, a link is followed by its address."""
    reader = _TextReader()
    begin = 0
    html = _without_comments(html)
    for tag in _TAG.finditer(html):
        reader.add_text(html[begin : tag.start()])
        begin = tag.end()
        if tag[2]:
            reader.add_tag(tag[2].lower(), tag[3], closes=bool(tag[1]))
    reader.add_text(html[begin:])
    lines = [line.strip() for line in "".join(reader.parts).split("\n")]
    return _LINES.sub("\n\n", "\n".join(lines)).strip() + "\n"


class _TextReader:
    """Collects the text; what is never closed ends with the document."""

    def __init__(self) -> None:
        self.parts: list[str] = []
        self._skipped: str | None = None
        # Where the text of the open link begins, and where it leads; links do not nest.
        self._link: tuple[int, str] | None = None

    def add_text(self, text: str) -> None:
        if text and self._skipped is None:
            self.parts.append(_unescaped(_SPACES.sub(" ", text)))

    def add_tag(self, tag: str, attributes: str, *, closes: bool) -> None:
        if self._skipped is not None:
            if closes and tag == self._skipped:
                self._skipped = None
            return
        if tag in _SKIPPED and not closes and not attributes.endswith("/"):
            self._skipped = tag
        elif tag in _BLOCKS:
            self.parts.append("\n\n" if tag in _SPACED else "\n")
            if tag == "li" and not closes:
                self.parts.append("- ")
        elif tag == "img":
            self.parts.append(_value(_ALT, attributes))
        elif tag == "a" and closes:
            self._end_link()
        elif tag == "a":
            self._link = (len(self.parts), _value(_LINK, attributes))

    def _end_link(self) -> None:
        if self._link is None:
            return
        (begin, address), self._link = self._link, None
        words = "".join(self.parts[begin:]).strip()
        address = address.removeprefix("mailto:") if "@" in address else address
        is_address = address.startswith(("http://", "https://")) or "@" in address
        if is_address and address != words:
            self.parts.append(f" ({address})")


def _without_comments(html: str) -> str:
    """Take comments out, in one walk: where one has no end, no later one has."""
    end = html.rfind("-->") + 3
    if end < 3:
        end = 0
    return _COMMENT.sub("", html[:end]) + html[end:].partition("<!--")[0]


def _value(pattern: "re.Pattern[str]", attributes: str) -> str:
    match = pattern.search(attributes)
    return "" if match is None else _unescaped(match[match.lastindex or 1])


def _unescaped(text: str) -> str:
    return _REFERENCE.sub(lambda match: unescape(match[0]), text) if "&" in text else text
