"""The migrations make exactly the tables that the queries name."""

from sqlalchemy import Connection, inspect

from mailonce.store.dialects.contract import Database
from mailonce.store.schema.expectation_tables import EXPECTATIONS
from mailonce.store.schema.tables import METADATA

BOOKKEEPING = {"migrations"}


def shape_of(tx: Connection) -> dict[str, dict[str, tuple[object, bool]]]:
    inspector = inspect(tx)
    return {
        name: {
            column["name"]: (column["type"]._type_affinity, column["nullable"])
            for column in inspector.get_columns(name)
        }
        for name in inspector.get_table_names()
    }


async def test_the_migrations_make_every_table_and_column_and_no_other(database: Database) -> None:
    made = await database.read(shape_of)

    # On PostgreSQL each day of the log is a table, too; it has the columns of its parent.
    days = {name for name in made if name.rpartition("_")[2].isdecimal() and name[:6] != "claims"}
    assert EXPECTATIONS.name in METADATA.tables
    assert set(made) - days - BOOKKEEPING == set(METADATA.tables)
    for name, table in METADATA.tables.items():
        wanted = {
            column.name: (column.type._type_affinity, bool(column.nullable))
            for column in table.columns
        }
        assert made[name] == wanted, name


async def test_primary_keys_hold_the_columns_that_the_queries_take_for_keys(
    database: Database,
) -> None:
    def keys_of(tx: Connection) -> dict[str, set[str]]:
        inspector = inspect(tx)
        return {
            name: set(inspector.get_pk_constraint(name)["constrained_columns"])
            for name in METADATA.tables
        }

    made = await database.read(keys_of)

    assert made == {
        name: {column.name for column in table.primary_key}
        for name, table in METADATA.tables.items()
    }
