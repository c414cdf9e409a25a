"""The fenced blocks of the documents, each with a name that stays when lines move."""

import re
from collections import Counter
from collections.abc import Iterator
from dataclasses import dataclass
from functools import cache
from pathlib import Path

ROOT = Path(__file__).parents[2]
FENCE = re.compile(r"^```(\S*)\s*$")
HEADING = re.compile(r"^#+ (.*)$")
# Where a document leaves something out.
ELLIPSIS = "…"


@dataclass(frozen=True, slots=True)
class Block:
    """One fenced block; its name is page, heading and place below that heading."""

    page: str
    heading: str
    number: int
    language: str
    text: str
    line: int

    @property
    def name(self) -> str:
        return f"{self.page} | {self.heading} | {self.number}"


@cache
def all_blocks() -> tuple[Block, ...]:
    """Read them all, in the order of the pages."""
    docs = ROOT / "docs"
    pages = [ROOT / "README.md", *sorted(docs.glob("**/*.md"))]
    # `make docs` makes it from the README.
    pages.remove(docs / "package.md")
    return tuple(block for page in pages for block in blocks_of(page.read_text(), _name_of(page)))


def find_block(name: str) -> Block:
    """Give the block of this name."""
    found = {block.name: block for block in all_blocks()}
    assert name in found, f"no page has the block {name!r}; the nearest: {_nearest(name, found)}"
    return found[name]


def blocks_of(text: str, page: str) -> Iterator[Block]:
    """Take a page apart."""
    heading, numbers = "", Counter[str]()
    language, begun, lines = "", 0, list[str]()
    for line_number, line in enumerate(text.splitlines(), 1):
        fence = FENCE.match(line)
        if begun and fence is None:
            lines.append(line)
        elif begun:
            numbers[heading] += 1
            body = "\n".join(lines) + "\n"
            yield Block(page, heading, numbers[heading], language, body, begun)
            begun, lines = 0, []
        elif fence is not None:
            language, begun = fence[1], line_number
        elif title := HEADING.match(line):
            heading = title[1]
    assert not begun, f"{page}:{begun} begins a block that never ends"


def _name_of(page: Path) -> str:
    folder = ROOT / "docs" if page.is_relative_to(ROOT / "docs") else ROOT
    return str(page.relative_to(folder))


def _nearest(name: str, found: dict[str, Block]) -> list[str]:
    page = name.partition(" | ")[0]
    return [one for one in found if one.startswith(page)]
