"""The output of commands: tables for people, the API's JSON for programs."""

import sys
from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Any

import orjson
from rich.console import Console
from rich.progress import (
    BarColumn,
    MofNCompleteColumn,
    Progress,
    ProgressColumn,
    Task,
    TextColumn,
)
from rich.table import Table
from rich.text import Text

# In a pipe there is no edge at which a line would have to be cut.
PIPE_WIDTH = 1000
GAP = 2
# No column is cut below this, and one that wraps is left at least that much.
CUT_MIN = 8
WRAPPED_MIN = 16
# Fields that hold a whole body.
BODIES = frozenset({"body", "raw"})

STYLES = {
    "delivered": "green",
    "opened": "cyan",
    "clicked": "cyan",
    "bounced": "red",
    "hard": "red",
    "rejected": "red",
    "complained": "red",
    "deferred": "yellow",
    "held": "yellow",
    "soft": "yellow",
    "late_soft": "yellow",
    "unsubscribed": "yellow",
    "ok": "green",
    "warn": "yellow",
    "fail": "bold red",
}


def console() -> Console:
    """Make a console: colour and the terminal's width on a terminal, neither in a pipe."""
    width = None if sys.stdout.isatty() else PIPE_WIDTH
    return Console(highlight=False, width=width)


@dataclass(frozen=True, slots=True)
class Column:
    """A column of a table: its heading and the field that it shows.

    Where the terminal is too narrow a value is cut; one that is copied stays whole, and one that
    is read is wrapped.
    """

    heading: str
    field: str
    right: bool = False
    whole: bool = False
    wraps: bool = False


class Show:
    """Shows the answer of one command, in one of the two ways."""

    def __init__(self, *, json: bool) -> None:
        self.json = json
        self.console = console()

    def answer(self, value: Any) -> bool:
        """Print the API's JSON with `--json`; say whether it was printed."""
        if self.json:
            sys.stdout.write(orjson.dumps(value, option=orjson.OPT_INDENT_2).decode() + "\n")
        return self.json

    def say(self, sentence: str) -> None:
        self.console.print(sentence)

    def page(self, page: Any, columns: Sequence[Column], *, empty: str) -> None:
        """Print a list; where it is empty, what to do next."""
        if self.answer(page):
            return
        if not page["data"]:
            self.console.print(empty)
            return
        self.table(columns, page["data"])
        if page["next"] is not None:
            self.console.print("[dim]more results: raise --limit, or add a filter[/dim]")

    def table(
        self, columns: Sequence[Column], rows: Sequence[Any], *, sparse: bool = False
    ) -> None:
        """Print a table; `sparse`: without empty columns."""
        if sparse:
            columns = [
                one for one in columns if any(row.get(one.field) is not None for row in rows)
            ]
        if _fits(columns, rows, self.console.width):
            self.console.print(_table(columns, rows, self.console.width))
        else:
            self.console.print(_stacked(columns, rows, self.console.width))

    def progress(self) -> Progress:
        """Make a bar for long work; in a pipe, and beside JSON, there is none."""
        return Progress(
            TextColumn("{task.description:9}"),
            BarColumn(),
            MofNCompleteColumn(),
            _Speed(),
            console=self.console,
            disable=self.json or not self.console.is_terminal,
        )

    def fields(self, value: Any, names: Sequence[str]) -> None:
        """Print one thing, a field a line; empty ones are left out."""
        if self.answer(value):
            return
        grid = Table.grid(padding=(0, 2))
        blocks: list[tuple[str, str]] = []
        for name in names:
            if value.get(name) in (None, [], {}, "", 0, False):
                continue
            if (block := _block(name, value[name])) is not None:
                blocks.append((name, block))
            else:
                grid.add_row(Text(name.replace("_", " "), "dim"), cell(value[name]))
        self.console.print(grid)
        for name, block in blocks:
            self.console.print(Text(name.replace("_", " "), "dim"))
            # As it is: a line that is too long for the terminal is wrapped by the terminal.
            self.console.out(block, highlight=False)


def _block(name: str, value: Any) -> str | None:
    """Write bodies and records as indented JSON, below the fields; None: it is a field."""
    if name in BODIES and isinstance(value, str):
        text = value
        try:
            value = orjson.loads(text)
        except orjson.JSONDecodeError:
            return text
    is_record = isinstance(value, dict) or (
        isinstance(value, list) and any(isinstance(one, dict) for one in value)
    )
    return orjson.dumps(value, option=orjson.OPT_INDENT_2).decode() if is_record else None


class _Speed(ProgressColumn):
    """How many a second; none is known at the start."""

    def render(self, task: Task) -> Text:
        speed = task.finished_speed or task.speed
        return Text("" if speed is None else f"{speed:,.0f}/s", "dim")


def _table(columns: Sequence[Column], rows: Sequence[Any], width: int) -> Table:
    """Lay rows out under their headings, within a width if that can be."""
    made = Table(box=None, padding=(0, GAP, 0, 0), header_style="dim")
    for column, wide in zip(columns, _widths(columns, rows, width), strict=True):
        made.add_column(
            column.heading,
            justify="right" if column.right else "left",
            no_wrap=not column.wraps,
            overflow="fold" if column.wraps else "ellipsis",
            width=None if column.wraps else wide,
        )
    for row in rows:
        made.add_row(*(cell(_value(row, column.field)) for column in columns))
    return made


def _widths(columns: Sequence[Column], rows: Sequence[Any], width: int) -> list[int]:
    """Cut the widest column that may be cut, until all fit or none can be cut further."""
    widths = [
        max([len(column.heading), *(cell(_value(row, column.field)).cell_len for row in rows)])
        for column in columns
    ]
    may_be_cut = [index for index, one in enumerate(columns) if not (one.whole or one.wraps)]
    spare = width - sum(WRAPPED_MIN if one.wraps else 0 for one in columns) - GAP * len(columns)
    fixed = [index for index, one in enumerate(columns) if not one.wraps]
    while may_be_cut and sum(widths[index] for index in fixed) > spare:
        widest = max(may_be_cut, key=lambda index: widths[index])
        if widths[widest] <= CUT_MIN:
            break
        widths[widest] -= 1
    return widths


def _fits(columns: Sequence[Column], rows: Sequence[Any], width: int) -> bool:
    """Say whether the columns stand beside each other with nothing cut to a few letters."""
    narrow = _widths(columns, rows, width)
    needed = sum(
        WRAPPED_MIN if column.wraps else wide for column, wide in zip(columns, narrow, strict=True)
    )
    # The last column has a gap behind it, too: without it, the table would cut an id by itself.
    return needed + GAP * len(columns) <= width


def _stacked(columns: Sequence[Column], rows: Sequence[Any], width: int) -> Text:
    """Lay each row out in lines: what is copied stands whole on a line of its own."""
    beside = [column for column in columns if not column.whole]
    alone = [column for column in columns if column.whole]
    plain = [replace(column, wraps=False) for column in beside]
    widths = _widths(plain, rows, width)
    heads = [Text(column.heading, "dim") for column in beside]
    lines = [_line(beside, heads, widths)]
    lines[0].append(" ".join(f" {column.heading}" for column in alone), "dim")
    for row in rows:
        cells = [cell(_value(row, column.field)) for column in beside]
        lines.append(_line(beside, cells, widths))
        lines += [Text("  ") + cell(_value(row, column.field)) for column in alone]
    return Text("\n").join(lines)


def _line(columns: Sequence[Column], cells: Sequence[Text], widths: Sequence[int]) -> Text:
    line = Text()
    for column, text, wide in zip(columns, cells, widths, strict=True):
        text.truncate(wide, overflow="ellipsis")
        text.align("right" if column.right else "left", wide)
        line.append_text(text).append(" " * GAP)
    return line


def _value(row: Any, field: str) -> Any:
    value = row.get(field)
    if value is None and field == "source_name":
        # A source that was deleted has only its id left.
        return row.get("source")
    return value


def cell(value: Any) -> Text:
    """Write one value; what a provider wrote is never taken for markup."""
    match value:
        case None:
            return Text("-", "dim")
        case bool():
            return Text("yes" if value else "no")
        case int():
            return Text(f"{value:,}")
        case list() | tuple():
            return Text(", ".join(map(str, value)))
        case dict():
            return Text(orjson.dumps(value).decode())
        case _:
            text = str(value)
            return Text(moment(text), STYLES.get(text, ""))


def moment(text: str) -> str:
    """Shorten the API's times for people, in UTC as its Z says; other text stays as it is."""
    if len(text) == 24 and text[10] == "T" and text.endswith("Z"):
        return f"{text[:10]} {text[11:19]}Z"
    return text
