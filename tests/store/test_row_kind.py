"""What is declared of a kind of row, and what both databases make of it."""

import sqlite3
from collections.abc import Sequence
from itertools import chain

import pytest
from hypothesis import given
from hypothesis import strategies as st
from msgspec import Struct
from msgspec.structs import astuple
from sqlalchemy import BigInteger, Column, MetaData, Table, Text

from mailonce.store.dialects.postgres import claim_keys_sql as postgres_sql
from mailonce.store.dialects.postgres.claim_keys_sql import Mode
from mailonce.store.dialects.sqlite import claim_keys_sql as sqlite_sql
from mailonce.store.schema.row_kind import Fold, RowKind


class Mark(Struct, frozen=True, gc=False):
    name: str
    times: int
    low: int | None
    high: int | None


class Stranger(Struct, frozen=True, gc=False):
    name: str
    colour: str


MARKS = Table(
    "marks",
    MetaData(),
    Column("name", Text, primary_key=True),
    Column("count", BigInteger),
    Column("low", BigInteger),
    Column("high", BigInteger),
    Column("seen_ms", BigInteger),
)
KIND = RowKind(
    row=Mark,
    table=MARKS,
    array_of="mark_row",
    values={"count": "{times}", "seen_ms": "{received_ms}"},
    fold={"count": Fold.ADD, "low": Fold.LEAST, "high": Fold.GREATEST, "seen_ms": Fold.GREATEST},
    lock_order=("name",),
    group="marks",
)

numbers = st.none() | st.integers(-5, 5)
marks = st.builds(Mark, st.sampled_from("abc"), st.integers(0, 3), numbers, numbers)


def written(rows: Sequence[Mark]) -> list[tuple[object, ...]]:
    """Write rows with as few statements as the database does, and read what stands."""
    connection = sqlite3.connect(":memory:")
    connection.execute("CREATE TABLE marks (name PRIMARY KEY, count, low, high, seen_ms)")
    for some in sqlite_sql.parts(rows):
        statement, shared = sqlite_sql.write(KIND, len(some))
        assert shared == ("received_ms",)
        connection.execute(statement, (7, *chain.from_iterable(astuple(row) for row in some)))
    found = connection.execute("SELECT * FROM marks ORDER BY name").fetchall()
    connection.close()
    return found


@given(st.lists(marks, max_size=12))
def test_rows_are_folded_before_the_database_as_they_are_by_it(rows: list[Mark]) -> None:
    folded = KIND.folded(rows)

    assert len({row.name for row in folded}) == len(folded)
    assert written(folded) == written(rows)


def test_postgresql_folds_after_the_claims_in_the_order_of_locks() -> None:
    statement = postgres_sql.record(0, (KIND,), Mode.ASK)

    part = statement.partition("INSERT INTO marks")[2].partition("\n)")[0]
    assert "FROM all_won, unnest($9::mark_row[]) AS r\n    ORDER BY r.name" in part
    assert "ON CONFLICT (name) DO UPDATE SET count = kept.count + excluded.count" in part


@pytest.mark.parametrize("mode", Mode)
def test_only_a_rerun_passes_over_rows_whose_keys_were_minted(mode: Mode) -> None:
    minted = RowKind(
        row=Mark, table=MARKS, array_of="mark_row", values={"count": "{times}"}, group="marks"
    )

    part = postgres_sql.record(0, (minted,), mode).partition("INSERT INTO marks")[2]

    assert ("ON CONFLICT DO NOTHING" in part) == (mode is Mode.RERUN)


def test_a_field_that_no_column_takes_is_refused() -> None:
    """It would be lost without a word."""
    kind = RowKind(row=Stranger, table=MARKS, array_of="stranger_row")

    with pytest.raises(AssertionError, match="no column of marks takes colour"):
        sqlite_sql.write(kind)
