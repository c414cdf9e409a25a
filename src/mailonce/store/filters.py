"""Conditions of a list: what a filter names must be equal, what is None filters nothing."""

from sqlalchemy import ColumnElement, Table


def equal(table: Table, **given: object) -> list[ColumnElement[bool]]:
    """Compare columns, by their names, with the values that are given."""
    return [table.c[name] == value for name, value in given.items() if value is not None]


def between(
    column: ColumnElement[int], since: int | None, until: int | None
) -> list[ColumnElement[bool]]:
    """Compare a time with the bounds that are given, the end excluded."""
    conditions = [] if since is None else [column >= since]
    return conditions if until is None else [*conditions, column < until]
