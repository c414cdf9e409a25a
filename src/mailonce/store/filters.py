"""Conditions of a list: what a filter names must be equal, what is None filters nothing."""

from collections.abc import Collection
from typing import Any

from sqlalchemy import ColumnElement, Table, and_, tuple_


def equal(table: Table, **given: object) -> list[ColumnElement[bool]]:
    """Compare columns, by their names, with the values that are given."""
    return [table.c[name] == value for name, value in given.items() if value is not None]


def between(
    column: ColumnElement[int], since: int | None, until: int | None
) -> list[ColumnElement[bool]]:
    """Compare a time with the bounds that are given, the end excluded."""
    conditions = [] if since is None else [column >= since]
    return conditions if until is None else [*conditions, column < until]


def is_pair(
    one: ColumnElement[Any], other: ColumnElement[Any], pairs: Collection[tuple[Any, Any]]
) -> ColumnElement[bool]:
    """Compare two columns with pairs of values, of which most share one value or differ in both.

    SQLite takes no index for `(one, other) IN` of more than a single pair: it would read the whole
    table. So it is told the values of each column as well.
    """
    ordered = sorted(pairs)
    return and_(
        one.in_(sorted({pair[0] for pair in ordered})),
        other.in_(sorted({pair[1] for pair in ordered})),
        tuple_(one, other).in_(ordered),
    )
