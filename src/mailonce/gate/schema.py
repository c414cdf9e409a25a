"""The gate's tables: as SQL text, and as an operation for Alembic."""

from typing import Any

from mailonce.errors import ConfigError
from mailonce.gate.sql import TABLE, Sql

_TYPES = {
    "postgresql": {"time": "timestamptz", "bytes": "bytea", "long": "bigint", "now": "now()"},
    "sqlite": {
        "time": "text",
        "bytes": "blob",
        "long": "integer",
        "now": "(strftime('%Y-%m-%d %H:%M:%f', 'now'))",
    },
}

_TABLE = """\
CREATE TABLE {table} (
    scope text NOT NULL DEFAULT '',
    idempotency_key text NOT NULL,
    request_hash char(64) NOT NULL,
    request_fields text NOT NULL DEFAULT '{{}}',
    status text NOT NULL CHECK (status IN ('processing', 'completed')),
    response_status integer,
    response_headers text,
    response_body {bytes},
    created_at {time} NOT NULL DEFAULT {now},
    completed_at {time},
    expires_at {time} NOT NULL,
    lease_until {time},
    fencing_token {long} NOT NULL DEFAULT 0,
    recovery_points text NOT NULL DEFAULT '{{}}',
    PRIMARY KEY (scope, idempotency_key)
)"""
_INDEX = "CREATE INDEX {name}_expires_at ON {table} (expires_at)"


def statements(dialect: str, *, table: str = TABLE) -> tuple[str, ...]:
    """Give the statements that make the gate's tables, in order.

    Raises: ConfigError where the dialect or the name is none.
    """
    Sql(dialect, table)
    words = _TYPES[dialect] | {"table": table, "name": table.rpartition(".")[2]}
    return tuple(text.format(**words) for text in (_TABLE, _INDEX))


def script(dialect: str, *, table: str = TABLE) -> str:
    """Give the same as one SQL file."""
    return "".join(f"{statement};\n" for statement in statements(dialect, table=table))


def upgrade(op: Any, *, table: str = TABLE) -> None:
    """Make the tables in an Alembic revision: `schema.upgrade(op)`."""
    dialect = op.get_bind().dialect.name
    if dialect not in _TYPES:
        raise ConfigError(f"the gate knows {' and '.join(_TYPES)}, not {dialect}")
    for statement in statements(dialect, table=table):
        op.execute(statement)


def downgrade(op: Any, *, table: str = TABLE) -> None:
    """Drop them again: `schema.downgrade(op)`."""
    Sql(op.get_bind().dialect.name, table)
    op.execute(f"DROP TABLE {table}")
