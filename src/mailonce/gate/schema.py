"""The gate's tables: as SQL text, and as operations for Alembic."""

import re
from inspect import iscoroutinefunction
from typing import Any

from mailonce.errors import ConfigError
from mailonce.gate.sql.commit_guard import CONSTRAINT
from mailonce.gate.sql.outbox import OUTBOX
from mailonce.gate.sql.statements import TABLE, checked_name

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

# By the package of a connection's class.
_DRIVERS = {"sqlite3": "sqlite", "psycopg": "postgresql", "sqlalchemy": ""}
_ONCE = re.compile(r"^CREATE (TABLE|INDEX) ")

# An unfinished claim references a row that never exists: only the gate can clear it, and commit.
_NEVER = "CREATE TABLE {table}_never (id smallint PRIMARY KEY)"
_GUARD = "CONSTRAINT {constraint}\n        REFERENCES {table}_never DEFERRABLE INITIALLY DEFERRED"
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
    unfinished smallint {guard},
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


# An earlier table of the gate's own lacks the guard only.
_ADD_GUARD = "ALTER TABLE {table} ADD COLUMN unfinished smallint {guard}"

# The table that seed 000 prints, with one column for the key, and the response as JSON.
_ADOPT_POSTGRESQL = (
    """\
ALTER TABLE {table}
    ADD COLUMN scope text NOT NULL DEFAULT {scope},
    ADD COLUMN request_fields text NOT NULL DEFAULT '{{}}',
    ADD COLUMN response_headers text,
    ADD COLUMN expires_at timestamptz,
    ADD COLUMN lease_until timestamptz,
    ADD COLUMN fencing_token bigint NOT NULL DEFAULT 0,
    ADD COLUMN recovery_points text NOT NULL DEFAULT '{{}}',
    ADD COLUMN unfinished smallint {guard},
    ALTER COLUMN response_body TYPE bytea USING convert_to(response_body::text, 'UTF8'),
    DROP CONSTRAINT {name}_pkey,
    ADD PRIMARY KEY (scope, idempotency_key)""",
    """\
UPDATE {table} SET expires_at = greatest(created_at, now() - interval '1 day') + interval '35 days',
    response_headers = CASE WHEN response_status IS NULL THEN NULL
        ELSE '[["content-type", "application/json"]]' END""",
    "ALTER TABLE {table} ALTER COLUMN scope SET DEFAULT '', ALTER COLUMN expires_at SET NOT NULL",
)
_ADOPT_SQLITE = (
    "ALTER TABLE {table} RENAME TO {table}_adopted",
    _TABLE,
    """\
INSERT INTO {table} (scope, idempotency_key, request_hash, status, response_status,
    response_headers, response_body, created_at, completed_at, expires_at)
SELECT {scope}, idempotency_key, request_hash, status, response_status,
    CASE WHEN response_status IS NOT NULL THEN '[["content-type", "application/json"]]' END,
    CAST(response_body AS blob), strftime('%Y-%m-%d %H:%M:%f', created_at),
    strftime('%Y-%m-%d %H:%M:%f', completed_at),
    strftime('%Y-%m-%d %H:%M:%f', max(datetime(created_at), datetime('now', '-1 day')), '35 days')
FROM {table}_adopted""",
    "DROP TABLE {table}_adopted",
)


def statements(dialect: str, *, table: str = TABLE, outbox: str = OUTBOX) -> tuple[str, ...]:
    """Give the statements that make the gate's tables, in order.

    Raises: ConfigError where the dialect or a name is none.
    """
    words = _words(dialect, table, outbox)
    made = (_NEVER, _TABLE, _INDEX, _OUTBOX, _OUTBOX_INDEX)
    return tuple(text.format(**words) for text in made)


def adoption(
    dialect: str, *, scope: str, table: str = TABLE, outbox: str = OUTBOX
) -> tuple[str, ...]:
    """Give the statements that make a table as seed 000 prints it the gate's, with its records.

    `scope` is what the gate will look under: `Policy(…).scope_of(method="POST", path="/hooks")`.
    Its handler must be stopped before: it cannot write to the changed table.

    Raises: ConfigError where the dialect or a name is none.
    """
    words = _words(dialect, table, outbox)
    words["scope"] = "'" + scope.replace("'", "''") + "'"
    change = _ADOPT_POSTGRESQL if dialect == "postgresql" else _ADOPT_SQLITE
    made = (_NEVER, *change, _INDEX, _OUTBOX, _OUTBOX_INDEX)
    return tuple(text.format(**words) for text in made)


def guard_statements(dialect: str, *, table: str = TABLE) -> tuple[str, ...]:
    """Give the statements that add the guard to a table made before there was one."""
    words = _words(dialect, table, OUTBOX)
    return tuple(text.format(**words) for text in (_NEVER, _ADD_GUARD))


def script(dialect: str, *, table: str = TABLE, outbox: str = OUTBOX) -> str:
    """Give one SQL file that makes what is not there yet, so that it can run at every start."""
    made = statements(dialect, table=table, outbox=outbox)
    return "".join(f"{_where_missing(statement)};\n" for statement in made)


def create(connection: Any, *, table: str = TABLE, outbox: str = OUTBOX) -> None:
    """Make the tables that are not there yet: for scripts, tests and first steps.

    `connection` is one of sqlite3, psycopg or SQLAlchemy; of an async SQLAlchemy connection,
    `await connection.run_sync(schema.create)`. Commits, unless a transaction was open before: that
    is its owner's to end. An app that lives on has migrations.

    Raises: ConfigError for any other.
    """
    driver = type(connection).__module__.partition(".")[0]
    if driver not in _DRIVERS:
        raise ConfigError(
            f"`schema.create` takes a connection of sqlite3, psycopg or SQLAlchemy, not "
            f"{driver}.{type(connection).__name__}; run the SQL of `schema.script(…)` there"
        )
    if driver == "sqlalchemy" and not _is_blocking(connection):
        raise ConfigError(
            f"`schema.create` takes a connection, not an {type(connection).__name__}; use that of "
            "`engine.begin()`, and of an async engine `await connection.run_sync(schema.create)`"
        )
    dialect = connection.dialect.name if driver == "sqlalchemy" else _DRIVERS[driver]
    run = connection.exec_driver_sql if driver == "sqlalchemy" else connection.execute
    is_theirs = _is_open(connection, driver)
    for statement in statements(dialect, table=table, outbox=outbox):
        run(_where_missing(statement))
    if not is_theirs:
        connection.commit()


def upgrade(op: Any, *, table: str = TABLE, outbox: str = OUTBOX) -> None:
    """Make the tables in an Alembic revision: `schema.upgrade(op)`."""
    _run(op, statements(op.get_bind().dialect.name, table=table, outbox=outbox))


def adopt(op: Any, *, scope: str, table: str = TABLE, outbox: str = OUTBOX) -> None:
    """Change seed 000's table in an Alembic revision: `schema.adopt(op, scope=…)`."""
    _run(op, adoption(op.get_bind().dialect.name, scope=scope, table=table, outbox=outbox))


def downgrade(op: Any, *, table: str = TABLE, outbox: str = OUTBOX) -> None:
    """Drop them again: `schema.downgrade(op)`."""
    for name in (outbox, table, f"{table}_never"):
        op.execute(f"DROP TABLE {checked_name(name)}")


def _where_missing(statement: str) -> str:
    return _ONCE.sub(r"CREATE \1 IF NOT EXISTS ", statement, count=1)


def _is_blocking(connection: Any) -> bool:
    """Say whether it is a connection of SQLAlchemy: no engine, no session, and not awaited."""
    run = getattr(connection, "exec_driver_sql", None)
    return run is not None and not iscoroutinefunction(run)


def _is_open(connection: Any, driver: str) -> bool:
    """Say whether a transaction of the caller is open."""
    match driver:
        case "sqlite3":
            return bool(connection.in_transaction)
        case "psycopg":
            return bool(connection.info.transaction_status.value)
        case _:
            return bool(connection.in_transaction())


def _run(op: Any, made: tuple[str, ...]) -> None:
    for statement in made:
        # A colon in a statement is no parameter of SQLAlchemy's.
        op.execute(statement.replace(":", "\\:"))


def _words(dialect: str, table: str, outbox: str) -> dict[str, str]:
    if dialect not in _TYPES:
        raise ConfigError(f"the gate knows {' and '.join(_TYPES)}, not {dialect}")
    words = _TYPES[dialect] | {
        "table": checked_name(table),
        "name": table.rpartition(".")[2],
        "outbox": checked_name(outbox),
        "outbox_name": outbox.rpartition(".")[2],
        "constraint": CONSTRAINT,
    }
    return words | {"guard": _GUARD.format(**words)}
