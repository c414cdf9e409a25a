"""Rules of `<style>` elements, as far as they hide text.

Selectors of names, classes and ids are understood, one inside of another (`.a p`, `.a > p`), and
media queries about the width of a page. Rules with any other selector are skipped. Comparisons are
counted, and end.
"""

import re
from collections import defaultdict
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Protocol

from mailonce.core.mail.css import (
    Declarations,
    merge,
    parse_declarations,
    remove_comments,
    unescape,
)

CSS_CHARS_MAX = 500_000
RULES_MAX = 2_000
# Of all selectors with all elements.
COMPARISONS_MAX = 200_000
# The width of the page for which media queries are answered: a window on a desk.
PAGE_WIDTH_PX = 1_000

_NAME = r"-?(?:[A-Za-z_]|[^\x00-\x7f]|\\.)(?:[A-Za-z0-9_-]|[^\x00-\x7f]|\\.)*"
_TYPE = re.compile(rf"\*|{_NAME}")
_SIMPLE = re.compile(rf"([.#])({_NAME})")
_STEP = re.compile(r"\s*>\s*|\s+")
_BLOCK = re.compile(r"[{}]")
_GROUPS = re.compile(r"@(?:media|supports|layer|container|-moz-document|document)\b", re.IGNORECASE)
_WIDTH = re.compile(r"\(\s*(min|max)-(?:device-)?width\s*:\s*(\d{1,6})(?:px|\.\d+px)?\s*\)")


class StyledElement(Protocol):
    """What a selector is compared with: an element's name, id and classes."""

    @property
    def name(self) -> str: ...
    @property
    def id(self) -> str: ...
    @property
    def classes(self) -> frozenset[str]: ...


@dataclass(frozen=True, slots=True)
class Compound:
    """One step of a selector, such as `p.note`; and whether the next stands right inside it."""

    name: str
    id: str
    classes: frozenset[str]
    is_parent: bool = False

    def matches(self, element: StyledElement) -> bool:
        return (
            self.name in {"", "*", element.name}
            and self.id in {"", element.id}
            and self.classes <= element.classes
        )


@dataclass(frozen=True, slots=True)
class Rule:
    steps: tuple[Compound, ...]
    declarations: Declarations
    rank: tuple[int, int, int, int]


@dataclass(slots=True)
class StyleSheet:
    """All rules of a document, found by the last step of their selectors."""

    _rules: dict[str, list[Rule]] = field(default_factory=lambda: defaultdict(list))
    _count: int = 0
    comparisons: int = 0

    @property
    def is_full(self) -> bool:
        """Say whether comparing must end."""
        return self.comparisons >= COMPARISONS_MAX

    def add(self, css: str) -> None:
        """Add the rules of one `<style>` element; those of the next one come after them."""
        css = remove_comments(css[:CSS_CHARS_MAX]).replace("<!--", "").replace("-->", "")
        for selectors, body in _blocks(css):
            declarations = parse_declarations(body)
            if not declarations.normal and not declarations.important:
                continue
            for selector in selectors.split(","):
                if self._count >= RULES_MAX:
                    return
                steps = _steps(selector.strip())
                if steps:
                    self._count += 1
                    rule = Rule(steps, declarations, _rank(steps, self._count))
                    self._rules[_key(steps[-1])].append(rule)

    def values_of(
        self, element: StyledElement, ancestors: Sequence[StyledElement], inline: Declarations
    ) -> Mapping[str, str]:
        """Give the values that count for an element, its own style included."""
        rules = sorted(self._matching(element, ancestors), key=lambda rule: rule.rank)
        values: Mapping[str, str] = {}
        for rule in rules:
            values = merge(values, rule.declarations.normal)
        values = merge(values, inline.normal)
        for rule in rules:
            values = merge(values, rule.declarations.important)
        return merge(values, inline.important)

    def _matching(
        self, element: StyledElement, ancestors: Sequence[StyledElement]
    ) -> Iterator[Rule]:
        if not self._rules or self.is_full:
            return
        keys = [f"#{element.id}", element.name, "*", *(f".{name}" for name in element.classes)]
        for key in keys:
            for rule in self._rules.get(key, ()):
                if self.is_full:
                    return
                self.comparisons += 1
                if rule.steps[-1].matches(element) and self._is_inside(rule.steps, ancestors):
                    yield rule

    def _is_inside(self, steps: Sequence[Compound], ancestors: Sequence[StyledElement]) -> bool:
        """Compare the outer steps with the ancestors, from the inside, nearest first.

        Steps that stand right inside each other are found together; so the nearest is enough.
        """
        at = len(ancestors)
        left = len(steps) - 1
        is_right_inside = left > 0 and steps[left - 1].is_parent
        while left:
            chain = 1
            while chain < left and steps[left - chain - 1].is_parent:
                chain += 1
            wanted = steps[left - chain : left]
            place = self._place(wanted, ancestors[:at], is_last=is_right_inside)
            if place is None:
                return False
            at, left, is_right_inside = place, left - chain, False
        return True

    def _place(
        self, wanted: Sequence[Compound], ancestors: Sequence[StyledElement], *, is_last: bool
    ) -> int | None:
        for start in range(len(ancestors) - len(wanted), -1, -1):
            self.comparisons += 1
            pairs = zip(wanted, ancestors[start : start + len(wanted)], strict=True)
            if all(step.matches(element) for step, element in pairs):
                return start
            if is_last or self.is_full:
                return None
        return None


def media_matches(query: str) -> bool:
    """Say whether a media query holds for a person who reads mail in a window."""
    return any(_one_matches(one.strip().lower()) for one in query.split(","))


def _one_matches(query: str) -> bool:
    if query.startswith("not "):
        return not _one_matches(query.removeprefix("not "))
    query = query.removeprefix("only ")
    conditions = [part.strip() for part in query.split(" and ")]
    return all(_holds(condition) for condition in conditions)


def _holds(condition: str) -> bool:
    if condition in {"", "all", "screen"} or "color-scheme: light" in condition:
        return True
    if width := _WIDTH.fullmatch(condition):
        px = int(width[2])
        return px <= PAGE_WIDTH_PX if width[1] == "min" else px >= PAGE_WIDTH_PX
    # Browsers of today answer this old question with yes.
    return "min-device-pixel-ratio:0" in condition.replace(" ", "")


def _blocks(css: str) -> Iterator[tuple[str, str]]:
    """Give selectors and bodies of the rules, but for those in media queries that do not hold."""
    start = depth = 0
    # How deep we are inside a group that does not hold; 0 where all hold.
    skipped = 0
    selectors: str | None = None
    for mark in _BLOCK.finditer(css):
        text = css[start : mark.start()]
        start = mark.end()
        if mark[0] == "{":
            depth += 1
            prelude = text.rpartition(";")[2].strip()
            if skipped or selectors is not None:
                continue
            if _GROUPS.match(prelude):
                if not _group_holds(prelude):
                    skipped = depth
            elif prelude.startswith("@"):
                skipped = depth
            else:
                selectors = prelude
            continue
        if skipped == 0 and selectors is not None:
            yield selectors, text
        selectors = None
        if skipped == depth:
            skipped = 0
        depth = max(0, depth - 1)
    if skipped == 0 and selectors is not None:
        # Browsers close what the end of a sheet leaves open.
        yield selectors, css[start:]


def _group_holds(prelude: str) -> bool:
    word, _, condition = prelude.partition(" ")
    match word.lower():
        case "@media":
            return media_matches(condition)
        case "@supports":
            return not condition.strip().lower().startswith("not")
        case "@layer":
            return True
        case _:
            return prelude.lower().startswith("@media(") and media_matches(prelude[6:])


def _steps(selector: str) -> tuple[Compound, ...]:
    """Read a selector; one that we do not understand has no steps."""
    steps: list[Compound] = []
    at = 0
    while at < len(selector):
        start = at
        kind = _TYPE.match(selector, at)
        at = kind.end() if kind else at
        ids: list[str] = []
        classes: list[str] = []
        while simple := _SIMPLE.match(selector, at):
            (ids if simple[1] == "#" else classes).append(unescape(simple[2]))
            at = simple.end()
        step = _STEP.match(selector, at)
        if at == start or (step is None and at < len(selector)):
            return ()
        steps.append(
            Compound(
                name=unescape(kind[0]).lower() if kind else "",
                id=ids[0] if ids else "",
                classes=frozenset(classes),
                is_parent=step is not None and ">" in step[0],
            )
        )
        at = step.end() if step else at
    return tuple(steps)


def _rank(steps: Sequence[Compound], order: int) -> tuple[int, int, int, int]:
    """Give what decides between rules: ids, classes, names, and the place in the sheet."""
    return (
        sum(1 for step in steps if step.id),
        sum(len(step.classes) for step in steps),
        sum(1 for step in steps if step.name not in {"", "*"}),
        order,
    )


def _key(step: Compound) -> str:
    if step.id:
        return f"#{step.id}"
    if step.classes:
        return f".{min(step.classes)}"
    return step.name if step.name not in {"", "*"} else "*"
