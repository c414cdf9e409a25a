"""The row types of PostgreSQL carry the fields of the ledger's rows, in their order.

So does what SQLite is given; and each declared column is one of its table.
"""

import re
from collections.abc import Iterator

import asyncpg
import pytest
from sqlalchemy.dialects import postgresql

from mailonce.core.ledger.claim import ClaimRow
from mailonce.core.ledger.entry import ArrivalRow, EventRow, FactRow
from mailonce.store.database import KINDS, open_database
from mailonce.store.dialects.sqlite import claim_keys_sql as sqlite_sql
from mailonce.store.schema.row_kind import BATCH
from tests.servers import start_postgres_in_memory

_DIALECT = postgresql.dialect()  # type: ignore[no-untyped-call]
_FACT_ONLY = ("kind", "times", "first", "last")
_ARRIVAL_ONLY = (*ArrivalRow.__struct_fields__[3:-1], "arrival_body")
TYPES: dict[str, tuple[str, ...]] = {
    **{kind.array_of: kind.row.__struct_fields__ for kind in KINDS},
    "claim_row": ClaimRow.__struct_fields__,
    # In which an event, its claim, a fact and its arrival travel together; see
    # `dialects/postgres/rows.py`.
    "event_row_4": (*EventRow.__struct_fields__, "fingerprint", *_FACT_ONLY, *_ARRIVAL_ONLY),
}
FIELDS = """
    SELECT attname, format_type(atttypid, atttypmod) FROM pg_attribute
    WHERE attrelid = $1::text::regclass AND attnum > 0 ORDER BY attnum
"""


def test_a_fact_ends_with_what_its_event_does_not_say() -> None:
    assert FactRow.__struct_fields__[-4:] == _FACT_ONLY
    assert set(FactRow.__struct_fields__) - set(_FACT_ONLY) <= set(EventRow.__struct_fields__)


def test_an_arrival_begins_with_what_its_event_says_and_ends_with_its_body() -> None:
    fields = ArrivalRow.__struct_fields__

    assert (*fields[:3], fields[-1]) == ("id", "workspace", "source", "body")
    assert not set(fields[3:-1]) & set(EventRow.__struct_fields__)


def test_each_kind_writes_all_fields_into_columns_that_are_there() -> None:
    for kind in KINDS:
        statement, shared = sqlite_sql.write(kind)

        assert set(kind.values) <= set(kind.table.columns.keys()), kind.row
        if not kind.sqlite:
            assert set(kind.fold) | set(kind.lock_order) <= set(kind.columns), kind.row
        assert set(shared) <= set(BATCH)
        places = range(1, len(shared) + len(kind.row.__struct_fields__) + 1)
        assert {int(place) for place in re.findall(r"\?(\d+)", statement)} == set(places), kind.row


@pytest.fixture(scope="module")
def url() -> Iterator[str]:
    server = start_postgres_in_memory()
    yield server.url()
    server.stop()


async def test_each_row_type_has_the_fields_of_its_row_with_the_types_of_their_columns(
    url: str,
) -> None:
    await (await open_database(url)).close()
    connection = await asyncpg.connect(url)

    types = {name: dict(await connection.fetch(FIELDS, name)) for name in TYPES}

    await connection.close()
    for kind in KINDS:
        for name, value in () if kind.sqlite else kind.columns.items():
            field = value.strip("{}")
            if field in types[kind.array_of]:
                column = kind.table.columns[name].type.compile(_DIALECT)
                assert types[kind.array_of][field] == column.lower(), (kind.row, field)
    names = {name: list(fields) for name, fields in types.items()}
    assert names == {name: list(fields) for name, fields in TYPES.items()}
