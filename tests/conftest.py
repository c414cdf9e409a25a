"""Real databases for every test that asks for one: SQLite files and a PostgreSQL of our own."""

import asyncio
import itertools
import shutil
from collections.abc import AsyncIterator, Iterator
from pathlib import Path

import asyncpg
import pytest
import pytest_asyncio

from mailonce.store.database import open_database
from mailonce.store.dialects.contract import Database
from tests.factories import Ledger
from tests.servers import PostgresServer, start_postgres

TEMPLATE = "template_mailonce"
_numbers = itertools.count()


@pytest.fixture(scope="session")
def postgres() -> Iterator[PostgresServer]:
    """One server per test process. What its tests kill is the process, never the power."""
    server = start_postgres(fsync="off")
    try:
        yield server
    finally:
        server.stop()


@pytest.fixture(scope="session")
def postgres_template(postgres: PostgresServer) -> str:
    """A migrated database to copy: faster than migrating one for each test."""

    async def migrate() -> None:
        await _execute(postgres, f"CREATE DATABASE {TEMPLATE}")
        await (await open_database(postgres.url(TEMPLATE))).close()

    asyncio.run(migrate())
    return TEMPLATE


@pytest.fixture(scope="session")
def sqlite_template(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A migrated file to copy."""
    path = tmp_path_factory.mktemp("template") / "mailonce.db"

    async def migrate() -> None:
        await (await open_database(f"sqlite:///{path}")).close()

    asyncio.run(migrate())
    return path


@pytest.fixture(params=["sqlite", "postgresql"])
def database_url(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[str]:
    """A fresh, migrated database; the test runs once on each kind."""
    if request.param == "sqlite":
        path = tmp_path / "mailonce.db"
        shutil.copy(request.getfixturevalue("sqlite_template"), path)
        yield f"sqlite:///{path}"
        return
    server: PostgresServer = request.getfixturevalue("postgres")
    template: str = request.getfixturevalue("postgres_template")
    name = f"test_{next(_numbers)}"
    asyncio.run(_execute(server, f"CREATE DATABASE {name} TEMPLATE {template}"))
    yield server.url(name)
    asyncio.run(_execute(server, f"DROP DATABASE {name} WITH (FORCE)"))


@pytest_asyncio.fixture
async def database(database_url: str) -> AsyncIterator[Database]:
    """The fresh database, opened."""
    opened = await open_database(database_url)
    try:
        yield opened
    finally:
        await opened.close()


@pytest_asyncio.fixture
async def ledger(database: Database) -> Ledger:
    """A short way to fill the database."""
    return Ledger(database, (await database.head()).now_ms)


async def _execute(server: PostgresServer, statement: str) -> None:
    connection = await asyncpg.connect(server.url())
    try:
        await connection.execute(statement)
    finally:
        await connection.close()
