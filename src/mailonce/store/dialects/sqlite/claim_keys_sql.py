"""The statements by which SQLite claims keys and records a batch, made from the kinds of rows."""

from functools import cache

from mailonce.store.schema.row_kind import BATCH, Fold, RowKind

# SQLite's scalar min and max are NULL where one side is; a missing value must not erase the other.
_FOLDS = {
    Fold.ADD: "{0} + excluded.{0}",
    Fold.LEAST: "min(coalesce({0}, excluded.{0}), coalesce(excluded.{0}, {0}))",
    Fold.GREATEST: "max(coalesce({0}, excluded.{0}), coalesce(excluded.{0}, {0}))",
}


@cache
def write(kind: RowKind) -> tuple[str, tuple[str, ...]]:
    """Give the statement that writes a row, and what of the batch comes before the row's fields."""
    text = kind.sqlite or _insert(kind)
    shared = tuple([name for name in BATCH if f"{{{name}}}" in text])
    names = (*shared, *kind.row.__struct_fields__)
    return text.format_map({name: f"?{place}" for place, name in enumerate(names, 1)}), shared


def _insert(kind: RowKind) -> str:
    columns, values = ", ".join(kind.columns), ", ".join(kind.columns.values())
    folds = [f"{name} = {_FOLDS[how].format(name)}" for name, how in kind.fold.items()]
    change = f"UPDATE SET {', '.join(folds)}" if folds else "NOTHING"
    return (
        f"INSERT INTO {kind.table.name} ({columns}) VALUES ({values}) "  # noqa: S608
        f"ON CONFLICT DO {change}"
    )
