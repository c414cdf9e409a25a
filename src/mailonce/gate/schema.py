"""The gate's tables: as SQL text, and as an operation for Alembic."""

from typing import Any

from mailonce.errors import ConfigError
from mailonce.gate.outbox_sql import OUTBOX
from mailonce.gate.sql import TABLE, checked_name

_TYPES = {
    "postgresql": {
        "time": "timestamptz",
        "bytes": "bytea",
        "long": "bigint",
        "now": "now()",
        "identity": "bigint GENERATED ALWAYS AS IDENTITY PRIMARY KEY",
    },
    "sqlite": {
        "time": "text",
        "bytes": "blob",
        "long": "integer",
        "identity": "integer PRIMARY KEY AUTOINCREMENT",
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
_OUTBOX = """\
CREATE TABLE {outbox} (
    id {identity},
    effect_key text NOT NULL UNIQUE,
    topic text NOT NULL,
    body {bytes} NOT NULL,
    status text NOT NULL CHECK (status IN ('due', 'done', 'dead')),
    run_at {time} NOT NULL,
    attempts integer NOT NULL DEFAULT 0,
    fencing_token {long} NOT NULL DEFAULT 0,
    last_error text,
    created_at {time} NOT NULL DEFAULT {now},
    done_at {time}
)"""
_OUTBOX_INDEX = "CREATE INDEX {outbox_name}_due ON {outbox} (run_at, id) WHERE status = 'due'"


def statements(dialect: str, *, table: str = TABLE, outbox: str = OUTBOX) -> tuple[str, ...]:
    """Give the statements that make the gate's tables, in order.

    Raises: ConfigError where the dialect or a name is none.
    """
    if dialect not in _TYPES:
        raise ConfigError(f"the gate knows {' and '.join(_TYPES)}, not {dialect}")
    words = _TYPES[dialect] | {
        "table": checked_name(table),
        "name": table.rpartition(".")[2],
        "outbox": checked_name(outbox),
        "outbox_name": outbox.rpartition(".")[2],
    }
    return tuple(text.format(**words) for text in (_TABLE, _INDEX, _OUTBOX, _OUTBOX_INDEX))


def script(dialect: str, *, table: str = TABLE, outbox: str = OUTBOX) -> str:
    """Give the same as one SQL file."""
    made = statements(dialect, table=table, outbox=outbox)
    return "".join(f"{statement};\n" for statement in made)


def upgrade(op: Any, *, table: str = TABLE, outbox: str = OUTBOX) -> None:
    """Make the tables in an Alembic revision: `schema.upgrade(op)`."""
    for statement in statements(op.get_bind().dialect.name, table=table, outbox=outbox):
        # A colon in a statement is no parameter of SQLAlchemy's.
        op.execute(statement.replace(":", "\\:"))


def downgrade(op: Any, *, table: str = TABLE, outbox: str = OUTBOX) -> None:
    """Drop them again: `schema.downgrade(op)`."""
    for name in (outbox, table):
        op.execute(f"DROP TABLE {checked_name(name)}")
