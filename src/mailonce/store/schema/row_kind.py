"""A kind of row: its table, its columns, and how each database writes it, declared in one place.

Both dialects make their statements from these declarations, once for each kind. What is written
beside the fields of a row is SQL in which `{name}` stands for a field, or for one of `BATCH`.
"""

from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import dataclass, field
from enum import Enum
from functools import cached_property
from operator import add, attrgetter
from typing import Any, TypeVar

from msgspec import Struct
from msgspec.structs import replace
from sqlalchemy import Table

from mailonce.core.ledger.claim import ClaimRow
from mailonce.core.ledger.entry import Rows

R = TypeVar("R", bound=Struct)

# What all rows of a batch share: the day and the time of receipt, and the batch's own id.
BATCH = ("day", "received_ms", "batch")


class Fold(Enum):
    """How a column of two rows with one key is made one; a missing value counts for nothing."""

    ADD = "add"
    LEAST = "least"
    GREATEST = "greatest"


_FOLDS: Mapping[Fold, Callable[[Any, Any], Any]] = {
    Fold.ADD: add,
    Fold.LEAST: min,
    Fold.GREATEST: max,
}


@dataclass(frozen=True, kw_only=True, eq=False)
class RowKind:
    """How rows of one class are written into their table."""

    row: type[Struct]
    table: Table
    # The composite type in which PostgreSQL takes them; its fields are the row's, in their order.
    array_of: str
    # Columns that are not fields of the row by their own name. One that is in neither stays NULL.
    values: Mapping[str, str] = field(default_factory=dict)
    # Columns that are folded where the row's key stands already; without any, the old row stays.
    fold: Mapping[str, Fold] = field(default_factory=dict)
    # Where other batches may write a row of the same key: the columns by which all of them sort
    # their rows, so that none waits for another in a circle. Else the key was minted with the
    # arrival, and can stand only where an earlier try of the same batch was committed.
    lock_order: tuple[str, ...] = ()
    # Several items of a batch may bring rows of one key; the first of them is written.
    is_shared: bool = False
    # Kinds that PostgreSQL writes together or not at all, since each set of them is a statement to
    # prepare. None: every batch has such rows.
    group: str | None = None
    # The field that may hold many megabytes, which take their time.
    content: str | None = None
    # The field that names the lane on which a row makes work due.
    lane: str | None = None
    # Statements of its own, where an INSERT does not say it; {rows} are the rows as a relation. One
    # for SQLite that has none is run for each row.
    postgres: str = ""
    sqlite: str = ""

    @cached_property
    def columns(self) -> Mapping[str, str]:
        own = {name: f"{{{name}}}" for name in self.row.__struct_fields__}
        assert not own.keys() & set(BATCH), f"{self.row.__name__} has a field of every batch"
        written = own | dict(self.values)
        names = [column.name for column in self.table.columns if column.name in written]
        columns = {name: written[name] for name in names}
        unused = [name for name, mark in own.items() if mark not in "".join(columns.values())]
        assert not unused, f"no column of {self.table.name} takes {', '.join(unused)}"
        return columns

    @cached_property
    def key(self) -> tuple[str, ...]:
        """The columns that no two rows share."""
        return tuple(column.name for column in self.table.primary_key)

    @cached_property
    def key_of(self) -> Callable[[Struct], Any]:
        return attrgetter(*self.key)

    def folded(self, rows: Sequence[R]) -> Sequence[R]:
        """Make one row of those that have the same key, as their fold says."""
        if not self.fold and not self.is_shared:
            return rows
        if len(rows) <= 1 or len({*map(self.key_of, rows)}) == len(rows):
            return rows
        joined: dict[Any, R] = {}
        for row in rows:
            key = self.key_of(row)
            known = joined.get(key)
            joined[key] = row if known is None else self._join(known, row)
        return list(joined.values())

    @cached_property
    def _folds(self) -> list[tuple[str, Callable[[Any, Any], Any]]]:
        fields = [(self.columns[name].strip("{}"), how) for name, how in self.fold.items()]
        return [(name, _FOLDS[how]) for name, how in fields if name not in BATCH]

    def _join(self, one: R, other: R) -> R:
        changes = {}
        for name, fold in self._folds:
            old, new = getattr(one, name), getattr(other, name)
            changes[name] = new if old is None else old if new is None else fold(old, new)
        return replace(one, **changes)


class RowKinds:
    """The kinds of rows that a database writes, by class, in their order."""

    def __init__(self, kinds: Sequence[RowKind]) -> None:
        self.by_class = {kind.row: kind for kind in kinds}
        assert all(kind.sqlite or kind.columns for kind in self.by_class.values())
        self._by_groups: dict[frozenset[str | None], tuple[RowKind, ...]] = {}
        # The group commit itself writes the claims.
        self._classes = {*self.by_class, ClaimRow}
        self._contents = [(kind.row, kind.content) for kind in kinds if kind.content is not None]
        self._lanes = [(kind.row, kind.lane) for kind in kinds if kind.lane is not None]

    def of_groups(self, groups: frozenset[str | None]) -> tuple[RowKind, ...]:
        """Give the kinds that a batch writes which has rows of these groups."""
        kinds_ = self._by_groups.get(groups)
        if kinds_ is None:
            kinds = self.by_class.values()
            kinds_ = tuple([kind for kind in kinds if kind.group is None or kind.group in groups])
            self._by_groups[groups] = kinds_
        return kinds_

    def content_bytes(self, rows: Rows) -> int:
        """Say how many bytes of content a batch writes."""
        return sum(
            [
                len(getattr(row, content))
                for class_, content in self._contents
                for row in rows.by_class.get(class_, ())
            ]
        )

    def lanes_of(self, rows: Rows, *, but: Collection[bytes] = ()) -> frozenset[str]:
        """Name the lanes on which rows make work due; `but` has the keys of what began already."""
        return frozenset(
            {
                getattr(row, lane)
                for class_, lane in self._lanes
                for row in rows.by_class.get(class_, ())
                if not but or row.key not in but
            }
        )

    def check(self, rows: Rows) -> None:
        """See that all rows of a batch will be written: what nobody writes would be lost."""
        if not rows.by_class.keys() <= self._classes:
            unknown = [one.__name__ for one in rows.by_class if one not in self._classes]
            names = ", ".join(sorted(unknown))
            raise LookupError(f"nobody writes {names}; hand its kind of row to open_database")
