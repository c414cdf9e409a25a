"""The output of commands: tables for people, the API's JSON for programs."""

import sys
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
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
# Of the further lines of a row.
INDENT = 2
# A column that wraps is left at least that much.
WRAPPED_MIN = 16
# Of text that others wrote, a table shows so much; `show` and --json have all of it.
BRIEF_CHARS_MAX = 100
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

    Where the terminal is too narrow, columns go on in further lines, and one that is read is
    wrapped; a subject or a reason may be of any length, so that one is cut unless the table is to
    be whole. Other values are cut only where they are wider than the terminal, and not if copied.
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

    def plain(self, lines: Iterable[str]) -> None:
        """Print lines with words of others, which are never taken for markup."""
        for line in lines:
            self.console.print(line, markup=False, soft_wrap=True)

    def page(self, page: Any, columns: Sequence[Column], *, empty: str) -> None:
        """Print a list; where it is empty, what to do next."""
        if self.answer(page):
            return
        if not page["data"]:
            self.console.print(empty)
            return
        self.table(columns, page["data"])
        if page["next"] is not None:
            hint = "more results: raise --limit, add a filter, or continue with --cursor "
            self.console.print(Text(hint + page["next"], "dim"), soft_wrap=True)

    def table(
        self,
        columns: Sequence[Column],
        rows: Sequence[Any],
        *,
        sparse: bool = False,
        is_whole: bool = False,
    ) -> None:
        """Print a table; `sparse`: without empty columns, which a narrow terminal never shows.

        `is_whole`: with all that others wrote, as where one thing is shown.
        """
        if not is_whole:
            rows = [_brief(columns, row) for row in rows]
        if sparse:
            columns = _filled(columns, rows)
        if not _fits(columns, rows, self.console.width):
            columns = _filled(columns, rows)
        if not _fits(columns, rows, self.console.width):
            self.console.print(_stacked(columns, rows, self.console), soft_wrap=True)
        elif self.console.is_terminal:
            self.console.print(_table(columns, rows))
        else:
            # A table fills each line up to the width of its longest cell, which may be a sentence.
            with self.console.capture() as printed:
                self.console.print(_table(columns, rows))
            lines = [line.rstrip() for line in printed.get().splitlines()]
            self.console.out("\n".join(lines), highlight=False)

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
        blocks: list[tuple[str, str]] = []
        fields: list[tuple[str, Text]] = []
        for name in names:
            # That something is off is worth a line.
            if value.get(name) in (None, [], {}, "", 0, False) and name != "on":
                continue
            if (block := _block(name, value[name])) is not None:
                blocks.append((name, block))
            else:
                fields.append((name.replace("_", " "), cell(value[name])))
        self._print_fields(fields)
        for name, block in blocks:
            self.console.print(Text(name.replace("_", " "), "dim"))
            # As it is: a line that is too long for the terminal is wrapped by the terminal.
            self.console.out(block, highlight=False)

    def _print_fields(self, fields: Sequence[tuple[str, Text]]) -> None:
        """Print values beside their names; a word that has no room there, such as an id, below."""
        label = max((len(name) for name, _ in fields), default=0) + GAP
        room = self.console.width - label
        for name, text in fields:
            if max((len(word) for word in text.plain.split()), default=0) > room:
                below = Text.assemble((name, "dim"), "\n" + " " * INDENT, text)
                self.console.print(below, soft_wrap=True)
                continue
            for number, part in enumerate(text.wrap(self.console, room)):
                shown = "" if number else name
                line = Text.assemble((shown.ljust(label), "dim"), part)
                self.console.print(line, soft_wrap=True)


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


def _table(columns: Sequence[Column], rows: Sequence[Any]) -> Table:
    """Lay rows out under their headings."""
    made = Table(box=None, padding=(0, GAP, 0, 0), header_style="dim")
    for column in columns:
        made.add_column(
            column.heading,
            justify="right" if column.right else "left",
            no_wrap=not column.wraps,
            overflow="fold",
        )
    for row in rows:
        made.add_row(*(cell(_value(row, column.field)) for column in columns))
    return made


def _brief(columns: Sequence[Column], row: Any) -> Any:
    """Cut what is long in the columns that are read."""
    texts = {
        column.field: f"{value[: BRIEF_CHARS_MAX - 1].rstrip()}…"
        for column in columns
        if column.wraps and isinstance(value := row.get(column.field), str)
        if len(value) > BRIEF_CHARS_MAX
    }
    return {**row, **texts}


def _filled(columns: Sequence[Column], rows: Sequence[Any]) -> list[Column]:
    return [one for one in columns if any(_value(row, one.field) is not None for row in rows)]


def _widths(columns: Sequence[Column], rows: Sequence[Any]) -> list[int]:
    return [
        max([len(column.heading), *(cell(_value(row, column.field)).cell_len for row in rows)])
        for column in columns
    ]


def _fits(columns: Sequence[Column], rows: Sequence[Any], width: int) -> bool:
    """Say whether the columns stand beside each other with nothing cut."""
    needed = sum(
        min(wide, WRAPPED_MIN) if column.wraps else wide
        for column, wide in zip(columns, _widths(columns, rows), strict=True)
    )
    # The last column has a gap behind it, too: without it, the table would cut an id by itself.
    return needed + GAP * len(columns) <= width


def _stacked(columns: Sequence[Column], rows: Sequence[Any], made_by: Console) -> Text:
    """Lay each row out in as many lines as it needs; text to be read is wrapped below them."""
    width = made_by.width
    natural = zip(columns, _widths(columns, rows), strict=True)
    below = [column for column, wide in natural if column.wraps and wide > WRAPPED_MIN]
    beside = [column for column in columns if column not in below]
    places = _lines_of(beside, _widths(beside, rows), width)
    lines = _headings(places, below, width)
    for row in rows:
        for number, line in enumerate(places):
            values = [_value(row, place.column.field) for place in line]
            if number == 0 or any(value is not None for value in values):
                cells = [cell(value) for value in values]
                lines.append(_line(line, cells, indent=INDENT if number else 0))
        for column in below:
            if (value := _value(row, column.field)) is not None:
                wrapped = cell(value).wrap(made_by, width - INDENT, overflow="fold")
                lines += [Text(" " * INDENT) + part for part in wrapped]
    return Text("\n").join(lines)


@dataclass(frozen=True, slots=True)
class _Place:
    """Where a column stands in a line, and how wide it is there."""

    column: Column
    width: int


def _lines_of(columns: Sequence[Column], widths: Sequence[int], width: int) -> list[list[_Place]]:
    """Break columns into lines, in their order; a line holds as many as fit."""
    lines: list[list[_Place]] = []
    spare = 0
    for column, natural in zip(columns, widths, strict=True):
        if lines and natural <= spare:
            lines[-1].append(_Place(column, natural))
            spare -= natural + GAP
            continue
        indent = INDENT if lines else 0
        # One that is copied is left to the terminal, which breaks it without losing a letter.
        wide = natural if column.whole else min(natural, width - indent)
        lines.append([_Place(column, wide)])
        spare = width - indent - wide - GAP
    return lines or [[]]


def _headings(places: Sequence[list[_Place]], below: Sequence[Column], width: int) -> list[Text]:
    """Write the headings in one line where they fit, else those of further lines in a second."""
    first = _line(places[0], [Text(one.column.heading) for one in places[0]], indent=0)
    others = [place.column for line in places[1:] for place in line]
    rest = (" " * GAP).join(column.heading for column in (*others, *below))
    joined = f"{first.plain.rstrip()}{' ' * GAP}{rest}"
    lines = [joined] if len(joined) <= width else [first.plain, " " * INDENT + rest]
    return [Text(line.rstrip(), "dim") for line in lines]


def _line(places: Sequence[_Place], cells: Sequence[Text], *, indent: int) -> Text:
    line = Text(" " * indent)
    for place, text in zip(places, cells, strict=True):
        text.truncate(place.width, overflow="ellipsis")
        text.align("right" if place.column.right else "left", place.width)
        line.append_text(text).append(" " * GAP)
    line.rstrip()
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
            return Text(printable(", ".join(map(str, value))))
        case dict():
            return Text(orjson.dumps(value).decode())
        case _:
            text = printable(str(value))
            return Text(moment(text), STYLES.get(text, ""))


def printable(text: str) -> str:
    """Leave out what would move the cursor, or write to the terminal in another way."""
    if text.isprintable():
        return text
    return "".join(char for char in text if char.isprintable() or char in "\n\t")


def moment(text: str) -> str:
    """Shorten the API's times for people, in UTC as its Z says; other text stays as it is.

    They are one word, the same in tables and sentences: no line is broken inside one, and options
    such as --since take it as it is.
    """
    return f"{text[:19]}Z" if len(text) == 24 and text[10] == "T" and text.endswith("Z") else text
