"""The elements that are open while HTML is read, and which of them a tag closes.

This keeps what matters for visibility of the HTML standard's tree construction: end tags that are
left out, tables as barriers, and formatting elements (`b`, `font`, `a` …) that live on when a
block around them ends. Senders use those rules to move text out of a hidden element in one reader
and not in another; so we follow the rule of browsers.
"""

from collections import Counter
from collections.abc import Mapping, Sequence
from collections.abc import Set as AbstractSet
from dataclasses import dataclass, field, replace

from mailonce.core.mail.appearance import PAGE, Appearance, inherit

# As deep as browsers go.
DEPTH_MAX = 512
# Looks at an open element, in one document.
STEPS_MAX = 1_000_000

VOID = frozenset(
    {
        "area", "base", "basefont", "bgsound", "br", "col", "embed", "frame", "hr", "img",
        "input", "keygen", "link", "meta", "param", "source", "track", "wbr",
    }
)  # fmt: skip
BLOCKS = frozenset(
    {
        "address", "article", "aside", "blockquote", "body", "caption", "center", "dd",
        "details", "dialog", "dir", "div", "dl", "dt", "fieldset", "figcaption", "figure",
        "footer", "form", "h1", "h2", "h3", "h4", "h5", "h6", "header", "hgroup", "hr",
        "legend", "li", "listing", "main", "menu", "nav", "ol", "optgroup", "option", "p",
        "plaintext", "pre", "search", "section", "summary", "table", "tbody", "tfoot", "thead",
        "tr", "ul", "xmp",
    }
)  # fmt: skip
CELLS = frozenset({"td", "th"})
FORMATTING = frozenset(
    {
        "a", "b", "big", "code", "em", "font", "i", "nobr", "s", "small", "strike", "strong",
        "tt", "u",
    }
)  # fmt: skip
# Elements that nobody sees, or whose content stands in for what a mail cannot have.
UNSEEN = frozenset(
    {
        "applet", "audio", "canvas", "datalist", "frameset", "math", "noscript", "object", "rp",
        "select", "svg", "template", "video",
    }
)  # fmt: skip
FOREIGN = frozenset({"math", "svg"})
# Inside these, SVG and MathML hold HTML again.
_HTML_POINTS = frozenset(
    {
        "annotation-xml", "desc", "foreignobject", "mi", "mn", "mo", "ms", "mtext", "title",
    }
)  # fmt: skip
# Start tags that end SVG and MathML.
_LEAVES_FOREIGN = frozenset(
    {
        "b", "big", "blockquote", "body", "br", "center", "code", "dd", "div", "dl", "dt", "em",
        "embed", "h1", "h2", "h3", "h4", "h5", "h6", "hr", "i", "img", "li", "listing", "menu",
        "meta", "nobr", "ol", "p", "pre", "ruby", "s", "small", "span", "strike", "strong",
        "sub", "sup", "table", "tt", "u", "ul", "var",
    }
)  # fmt: skip

_HEADINGS = frozenset({"h1", "h2", "h3", "h4", "h5", "h6"})
_ITEMS = {
    "li": frozenset({"li"}),
    "dd": frozenset({"dd", "dt"}),
    "dt": frozenset({"dd", "dt"}),
}
_ROWS = frozenset({"tbody", "tfoot", "thead"})
_TABLE_PARTS = CELLS | _ROWS | {"tr", "caption"}
# Nothing outside of these is closed from inside of them.
_BARRIERS = (
    CELLS | _HTML_POINTS | {"applet", "caption", "marquee", "object", "select", "table", "template"}
)
_CLOSES_PARAGRAPH = BLOCKS - {
    "body", "option", "optgroup", "legend", "table", "tbody", "tfoot", "thead", "tr", "caption",
}  # fmt: skip
_SPECIAL = (BLOCKS - {"option", "optgroup"}) | CELLS | UNSEEN | _HTML_POINTS | {"button", "marquee"}


@dataclass(slots=True)
class Element:
    """An element that is open."""

    name: str
    id: str = ""
    classes: frozenset[str] = frozenset()
    styles: Mapping[str, str] = field(default_factory=dict)
    appearance: Appearance = PAGE
    # Where its text starts, and where its link leads; for anchors alone.
    start: int = 0
    href: str = ""

    @property
    def is_block(self) -> bool:
        """Say whether it stands on lines of its own."""
        display = self.styles.get("display", "")
        if display.startswith("inline"):
            return False
        return self.name in BLOCKS or display in {"block", "flex", "grid", "list-item", "table"}


class OpenElements:
    """A stack of open elements, which counts its steps.

    Each method gives the elements that it closed, innermost first, and those that it opened again.
    """

    def __init__(self) -> None:
        self._stack: list[Element] = []
        self._counts: Counter[str] = Counter()
        self._has_form = False
        self.steps = 0

    @property
    def appearance(self) -> Appearance:
        """Give the appearance of text that comes next."""
        return self._stack[-1].appearance if self._stack else PAGE

    @property
    def is_full(self) -> bool:
        """Say whether a limit is reached; the document is read no further."""
        return len(self._stack) >= DEPTH_MAX or self.steps >= STEPS_MAX

    @property
    def is_foreign(self) -> bool:
        """Say whether SVG or MathML comes next."""
        if not (self._counts["svg"] or self._counts["math"]):
            return False
        self.steps += len(self._stack)
        for element in reversed(self._stack):
            if element.name in FOREIGN:
                return True
            if element.name in _HTML_POINTS:
                return False
        return False

    @property
    def path(self) -> Sequence[Element]:
        """Give the open elements, outermost first; only to be read."""
        return self._stack

    def push(self, element: Element) -> None:
        """Open an element inside of the innermost one."""
        element.appearance = inherit(self.appearance, element.styles)
        self._stack.append(element)
        self._counts[element.name] += 1
        # Only the end tag of a form allows another one, even if it ended before.
        self._has_form |= element.name == "form"

    def has(self, name: str) -> bool:
        """Say whether such an element is open."""
        return self._counts[name] > 0

    def ignores(self, name: str) -> bool:
        """Say whether the start of an element means nothing here."""
        if name in _TABLE_PARTS:
            return self._counts["table"] == 0
        return name == "form" and self._has_form

    def close_all(self) -> Sequence[Element]:
        """Close whatever is open as the document ends."""
        return self._cut(0)[0]

    def close_before(self, name: str) -> tuple[Sequence[Element], Sequence[Element]]:
        """Close what the start of an element closes."""
        if not self.is_foreign:
            return self._close_before(name)
        if name not in _LEAVES_FOREIGN:
            return (), ()
        return _joined(self._leave_foreign(), self._close_before(name))

    def _close_before(self, name: str) -> tuple[Sequence[Element], Sequence[Element]]:
        if name in CELLS:
            return self._close(CELLS | {"caption"}, frozenset({"table"}))
        if name == "tr":
            return self._close(frozenset({"tr", "caption"}), frozenset({"table"}))
        if name in _ROWS or name == "caption":
            return self._close(_ROWS | {"caption"}, frozenset({"table"}))
        if name in {"a", "button", "nobr"}:
            return self.close(name)
        if name in {"option", "optgroup"}:
            return self._close_innermost(frozenset({"option"}))
        if name not in _CLOSES_PARAGRAPH:
            return (), ()
        first = self._close_item(name)
        second = self._close(frozenset({"p"}), _BARRIERS | {"button"})
        third = self._close_innermost(_HEADINGS) if name in _HEADINGS else ((), ())
        return _joined(first, second, third)

    def _leave_foreign(self) -> tuple[Sequence[Element], Sequence[Element]]:
        """Close SVG or MathML, up to where HTML was last."""
        return self._close(FOREIGN, _HTML_POINTS, is_outermost=True)

    def _close_item(self, name: str) -> tuple[Sequence[Element], Sequence[Element]]:
        """Close the item of a list before the next one."""
        items = _ITEMS.get(name)
        if items is None:
            return (), ()
        return self._close(items, _SPECIAL - {"address", "div", "p"} - items)

    def _close_innermost(
        self, names: AbstractSet[str]
    ) -> tuple[Sequence[Element], Sequence[Element]]:
        """Close one of these, where nothing stands in it that is open."""
        if self._stack and self._stack[-1].name in names:
            return self._cut(len(self._stack) - 1)[0], ()
        return (), ()

    def close(self, name: str) -> tuple[Sequence[Element], Sequence[Element]]:
        """Close what an end tag closes: nothing, where it ends nothing."""
        if name == "p" and self.is_foreign:
            return _joined(self._leave_foreign(), self.close("p"))
        if name == "form":
            return self._close_form()
        if self._counts[name] == 0 and name not in _HEADINGS:
            return (), ()
        if name in FORMATTING:
            return self._close_formatting(name)
        if name in FOREIGN:
            is_point = self._stack[-1].name in _HTML_POINTS
            return self._close(frozenset({name}), frozenset() if is_point else _HTML_POINTS)
        if name == "table":
            return self._close(frozenset({"table"}), frozenset({"template"}))
        if name in _TABLE_PARTS:
            return self._close(frozenset({name}), frozenset({"table", "template"}))
        if name in _HEADINGS:
            return self._close(_HEADINGS, _BARRIERS)
        if name == "p":
            return self._close(frozenset({"p"}), _BARRIERS | {"button"})
        if name == "li":
            return self._close(frozenset({"li"}), _BARRIERS | {"ol", "ul"})
        if name in _SPECIAL - _HTML_POINTS:
            return self._close(frozenset({name}), _BARRIERS - {name})
        return self._close(frozenset({name}), _SPECIAL - {name})

    def _cut(self, index: int) -> tuple[list[Element], list[Element]]:
        """Close all from a place on; say also which of them were formatting."""
        closed = self._stack[index:]
        del self._stack[index:]
        self.steps += len(closed)
        for element in closed:
            self._counts[element.name] -= 1
        formatting: list[Element] = []
        if closed and closed[0].name not in FOREIGN:
            for element in closed:
                # A cell is a room of its own: formatting that was opened in it ends with it.
                if element.name in CELLS or element.name == "caption":
                    break
                if element.name in FORMATTING:
                    formatting.append(element)
        closed.reverse()
        return closed, formatting

    def _close(
        self, names: AbstractSet[str], barriers: AbstractSet[str], *, is_outermost: bool = False
    ) -> tuple[Sequence[Element], Sequence[Element]]:
        index = self._find(names, barriers)
        while is_outermost and index is not None:
            outer = self._find(names, barriers, below=index)
            if outer is None:
                break
            index = outer
        if index is None:
            return (), ()
        closed, formatting = self._cut(index)
        return closed, self._reopen(formatting)

    def _close_form(self) -> tuple[Sequence[Element], Sequence[Element]]:
        """Close a form; what is open in it stays inside of it."""
        self._has_form = False
        index = self._find(frozenset({"form"}), _BARRIERS)
        if index is None:
            return (), ()
        if index == len(self._stack) - 1:
            return self._cut(index)[0], ()
        del self._stack[index]
        self._counts["form"] -= 1
        return (), ()

    def _close_formatting(self, name: str) -> tuple[Sequence[Element], Sequence[Element]]:
        """Take a formatting element away from around the blocks that were opened in it."""
        index = self._find(frozenset({name}), _BARRIERS)
        if index is None:
            return (), ()
        inside = self._stack[index + 1 :]
        block = next((n for n, one in enumerate(inside) if one.name in _SPECIAL), len(inside))
        again = [one for n, one in enumerate(inside) if n >= block or one.name in FORMATTING]
        closed, _ = self._cut(index)
        # A block that stays open ends no line; a link that goes on is a link of two parts.
        lives_on = {id(one) for one in again if not one.href}
        return [one for one in closed if id(one) not in lives_on], self._reopen(again)

    def _reopen(self, elements: Sequence[Element]) -> Sequence[Element]:
        again: list[Element] = []
        for former in elements:
            element = replace(former)
            self.push(element)
            again.append(element)
        self.steps += len(again)
        return again

    def _find(
        self,
        names: AbstractSet[str],
        barriers: AbstractSet[str],
        *,
        below: int | None = None,
    ) -> int | None:
        if not any(self._counts[name] for name in names):
            return None
        start = len(self._stack) if below is None else below
        for index in range(start - 1, -1, -1):
            self.steps += 1
            name = self._stack[index].name
            if name in names:
                return index
            if name in barriers:
                return None
        return None


def _joined(
    *steps: tuple[Sequence[Element], Sequence[Element]],
) -> tuple[Sequence[Element], Sequence[Element]]:
    return [one for step in steps for one in step[0]], [one for step in steps for one in step[1]]
