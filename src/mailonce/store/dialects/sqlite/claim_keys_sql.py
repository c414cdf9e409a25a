"""The statements by which SQLite claims keys and records a batch, made from the kinds of rows.

One statement writes many rows. Python hands over its lock before each statement and waits for it
after: where each row had a statement of its own, the writer would spend more time waiting for the
event loop than writing.

Whatever fails undoes the batch (`OR ROLLBACK`): to undo one statement alone, as it must where rows
are folded, SQLite first saves each page that it changes.
"""

from collections.abc import Iterator, Mapping, Sequence
from functools import cache
from typing import TypeVar

from mailonce.store.schema.row_kind import BATCH, Fold, RowKind

R = TypeVar("R")

# How many rows one statement writes. Each number is a statement to prepare and to keep: so beyond
# a few they are multiples of these few.
ROWS_MAX = 64
FEW_ROWS = 8

# SQLite's scalar min and max are NULL where one side is; a missing value must not erase the other.
_FOLDS = {
    Fold.ADD: "{0} + excluded.{0}",
    Fold.LEAST: "min(coalesce({0}, excluded.{0}), coalesce(excluded.{0}, {0}))",
    Fold.GREATEST: "max(coalesce({0}, excluded.{0}), coalesce(excluded.{0}, {0}))",
}


def parts(rows: Sequence[R]) -> Iterator[Sequence[R]]:
    """Part rows into what one statement writes."""
    begin = 0
    while begin < len(rows):
        left = min(len(rows) - begin, ROWS_MAX)
        end = begin + (left - left % FEW_ROWS or left)
        yield rows[begin:end]
        begin = end


@cache
def claim(parity: int, count: int) -> str:
    """Give the statement that claims so many keys."""
    values = ", ".join(["(?, ?, ?)"] * count)
    return f"INSERT OR ROLLBACK INTO claims_{parity} VALUES {values}"  # noqa: S608


@cache
def write(kind: RowKind, count: int = 1) -> tuple[str, tuple[str, ...]]:
    """Give the statement that writes so many rows, and what of the batch comes before their fields.

    A statement of the kind's own in which no `{rows}` stand writes one.
    """
    text = kind.sqlite or _insert(kind)
    fields = kind.row.__struct_fields__
    own = kind.sqlite or " ".join(kind.columns.values())
    shared = tuple([name for name in BATCH if f"{{{name}}}" in own])
    batch = _places(shared)
    rows = [_places(fields, after=len(shared) + at * len(fields)) for at in range(count)]
    if not is_for_many(kind):
        assert count == 1, f"{kind.row.__name__} is written row by row"
        return text.format_map({**batch, **rows[0]}), shared
    if kind.sqlite:
        names = ", ".join([f"column{at} AS {name}" for at, name in enumerate(fields, 1)])
        values = ", ".join([f"({', '.join(row.values())})" for row in rows])
        relation = f"(SELECT {names} FROM (VALUES {values}))"  # noqa: S608
        return text.format_map({**batch, "rows": relation}), shared
    value = f"({', '.join(kind.columns.values())})"
    values = ", ".join([value.format_map({**batch, **row}) for row in rows])
    return text.format_map({"rows": values}), shared


def is_for_many(kind: RowKind) -> bool:
    """Say whether one statement may write several rows of a kind."""
    return not kind.sqlite or "{rows}" in kind.sqlite


def _places(names: Sequence[str], *, after: int = 0) -> Mapping[str, str]:
    return {name: f"?{place}" for place, name in enumerate(names, after + 1)}


def _insert(kind: RowKind) -> str:
    folds = [f"{name} = {_FOLDS[how].format(name)}" for name, how in kind.fold.items()]
    change = f"UPDATE SET {', '.join(folds)}" if folds else "NOTHING"
    return (
        f"INSERT OR ROLLBACK INTO {kind.table.name} ({', '.join(kind.columns)}) VALUES {{rows}} "  # noqa: S608
        f"ON CONFLICT DO {change}"
    )
