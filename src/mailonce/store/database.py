"""Open a database: connect, migrate under a lock, make room for today."""

from enum import StrEnum
from functools import cache
from pathlib import Path

import asyncpg
from alembic import command
from alembic.config import Config
from alembic.runtime.migration import MigrationContext
from alembic.script import ScriptDirectory
from sqlalchemy import Connection, text
from sqlalchemy.exc import DBAPIError

from mailonce.errors import ConfigError, TakenError
from mailonce.store.dialects.contract import DAY_MS, Database, Log
from mailonce.store.dialects.postgres.database import PostgresDatabase
from mailonce.store.dialects.postgres.errors import UNREACHABLE, refused_start
from mailonce.store.dialects.postgres.session import PostgresServer
from mailonce.store.dialects.sqlite.database import SqliteDatabase
from mailonce.store.dialects.sqlite.file import SqliteLog, check_opens
from mailonce.store.schema.ledger_rows import KINDS as LEDGER_KINDS
from mailonce.store.schema.mail_rows import MAIL_KINDS
from mailonce.store.schema.row_kind import RowKind
from mailonce.store.schema.send_rows import SEND_KINDS

# What a group commit can write.
KINDS = LEDGER_KINDS + MAIL_KINDS + SEND_KINDS
DAYS_AHEAD = 8
# Any number will do as long as every process of every version takes the same.
MIGRATION_LOCK = 7_261_914
# Without a right to make tables nothing begins, and only their owner may change them.
MAY_MAKE = "SELECT has_schema_privilege(current_schema(), 'CREATE')"
MAY_CHANGE = (
    MAY_MAKE + " AND pg_has_role(relowner, 'USAGE') FROM pg_class "
    "WHERE oid = to_regclass('migrations')"
)
MIGRATION_SESSION = {"application_name": "mailonce", "lock_timeout": "10s"}


class SchemaState(StrEnum):
    """Which tables a database has."""

    NONE = "none"
    OTHER = "other"
    CURRENT = "current"


async def open_database(
    url: str, *, flushers: int = 1, kinds: tuple[RowKind, ...] = KINDS, prepares: bool = True
) -> Database:
    """Open the database at `url`, with today's schema; safe when several processes start at once.

    `kinds` are the kinds of rows that a group commit can write. `prepares=False` leaves tables and
    days as they are: see `schema_of` first.

    Raises: ConfigError where the URL is not understood, UnavailableError where it does not answer.
    """
    database: Database
    if _is_sqlite(url):
        database = await _open_sqlite(_sqlite_path(url), kinds, prepares=prepares)
    else:
        server = await PostgresServer.find(url)
        if prepares:
            await _migrate_postgres(server)
        database = await PostgresDatabase.open(server, kinds, flushers=flushers)
    if not prepares:
        return database
    today = (await database.head()).now_ms // DAY_MS
    # Yesterday, too: a batch stamped before midnight may be written after it.
    await database.ensure_days(range(today - 1, today + DAYS_AHEAD))
    return database


async def schema_of(url: str) -> SchemaState:
    """Say which tables the database at `url` has; nothing is made or changed.

    Raises: ConfigError or UnavailableError, as `open_database` does.
    """
    if _is_sqlite(url):
        path = _sqlite_path(url)
        if not path.exists():
            return SchemaState.NONE
        check_opens(path)
        log = SqliteLog(path)
        try:
            revision = await log.read(_revision)
        finally:
            await log.close()
    else:
        revision = await _postgres_revision(await PostgresServer.find(url))
    if revision is None:
        return SchemaState.NONE
    return SchemaState.CURRENT if revision == _newest_revision() else SchemaState.OTHER


async def check_may_migrate(url: str, schema: SchemaState) -> None:
    """Check that a start may make or change the tables of a PostgreSQL database.

    Raises: what the start would, without trying it.
    """
    server = await PostgresServer.find(url)
    query = MAY_MAKE if schema is SchemaState.NONE else MAY_CHANGE
    engine = server.engine(MIGRATION_SESSION)
    try:
        async with engine.connect() as connection:
            if await connection.scalar(text("SHOW transaction_read_only")) == "on":
                raise asyncpg.ReadOnlySQLTransactionError("the server is read-only")
            if not await connection.scalar(text(query)):
                raise asyncpg.InsufficientPrivilegeError("the role may not make tables")
    except (*UNREACHABLE, asyncpg.PostgresError, DBAPIError) as error:
        raise refused_start(server.url, error) from error
    finally:
        await engine.dispose()


async def open_log(url: str) -> tuple[Log, bool]:
    """Open the database at `url` for reading; say whether a server may write it meanwhile.

    Tables and days stay as they are: see `schema_of` first.

    Raises: ConfigError or UnavailableError, as `open_database` does.
    """
    if not _is_sqlite(url):
        return await open_database(url, prepares=False), True
    try:
        return await open_database(url, prepares=False), False
    except TakenError:
        return SqliteLog(_sqlite_path(url)), True


async def open_scratch(path: Path) -> Database:
    """Make an empty database that has nothing to lose."""
    return await _open_sqlite(path, KINDS, durable=False)


def _is_sqlite(url: str) -> bool:
    """Say which of the two databases it is.

    Raises: ConfigError where it is neither.
    """
    scheme = url.partition("://")[0]
    if scheme not in {"sqlite", "postgresql", "postgres"}:
        raise ConfigError(
            f"`database` starts with {scheme!r}; use sqlite:///path/to/file or postgresql://…"
        )
    return scheme == "sqlite"


def _sqlite_path(url: str) -> Path:
    return Path(url.partition("://")[2].removeprefix("/"))


async def _open_sqlite(
    path: Path, kinds: tuple[RowKind, ...], *, durable: bool = True, prepares: bool = True
) -> Database:
    database = SqliteDatabase(path, kinds, durable=durable)
    if not prepares:
        return database
    revision = await database.read(_revision)
    if revision not in {None, _newest_revision()}:
        # A copy of the file is the way back, should a migration go wrong.
        await database.copy_to(path.with_suffix(".before-migration"))
    if revision != _newest_revision():
        await database.write(_upgrade)
    return database


async def _migrate_postgres(server: PostgresServer) -> None:
    engine = server.engine(MIGRATION_SESSION)
    try:
        async with engine.begin() as connection:
            await connection.execute(text(f"SELECT pg_advisory_xact_lock({MIGRATION_LOCK})"))
            if await connection.run_sync(_revision) != _newest_revision():
                await connection.run_sync(_upgrade)
    except (*UNREACHABLE, asyncpg.PostgresError, DBAPIError) as error:
        raise refused_start(server.url, error) from error
    finally:
        await engine.dispose()


async def _postgres_revision(server: PostgresServer) -> str | None:
    engine = server.engine(MIGRATION_SESSION)
    try:
        async with engine.connect() as connection:
            return await connection.run_sync(_revision)
    except (*UNREACHABLE, asyncpg.PostgresError, DBAPIError) as error:
        raise refused_start(server.url, error) from error
    finally:
        await engine.dispose()


def _upgrade(connection: Connection) -> None:
    config = _config()
    config.attributes["connection"] = connection
    command.upgrade(config, "head")


def _revision(connection: Connection) -> str | None:
    """Say up to which migration a database is; None where it is empty."""
    context = MigrationContext.configure(connection, opts={"version_table": "migrations"})
    return context.get_current_revision()


@cache
def _newest_revision() -> str | None:
    # Asked once per process: all the files of the migrations are read for it.
    return ScriptDirectory.from_config(_config()).get_current_head()


def _config() -> Config:
    config = Config()
    config.set_main_option("script_location", "mailonce.store:migrations")
    return config
