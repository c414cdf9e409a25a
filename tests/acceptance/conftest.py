"""Servers for acceptance tests, on both databases."""

import asyncio
import shutil
from collections.abc import Iterator
from pathlib import Path
from uuid import uuid4

import asyncpg
import pytest

from mailonce.store.database import open_database
from tests.acceptance.harness import Server, running
from tests.servers import PostgresServer, start_postgres_in_memory


@pytest.fixture(scope="session")
def postgres() -> Iterator[PostgresServer]:
    """A PostgreSQL with its own defaults for durability: these tests are about what survives."""
    # A deadlock must be noticed before our own lock timeout hides it.
    server = start_postgres_in_memory(deadlock_timeout="50ms")
    try:
        yield server
    finally:
        server.stop()


@pytest.fixture(scope="session")
def durable_template(postgres: PostgresServer) -> str:
    """A migrated database to copy, on this folder's own server."""

    async def migrate() -> str:
        url = await _make_database(postgres, "")
        await (await open_database(url)).close()
        return url.rpartition("/")[2]

    return asyncio.run(migrate())


@pytest.fixture(params=["sqlite", "postgres"])
def database_url(request: pytest.FixtureRequest, tmp_path: Path) -> str:
    """A fresh, migrated database of either kind."""
    if request.param == "sqlite":
        shutil.copy(request.getfixturevalue("sqlite_template"), tmp_path / "data.db")
        return f"sqlite:///{tmp_path / 'data.db'}"
    return str(request.getfixturevalue("postgres_url"))


@pytest.fixture
async def postgres_url(postgres: PostgresServer, durable_template: str) -> str:
    """A fresh, migrated PostgreSQL database."""
    return await _make_database(postgres, f"STRATEGY FILE_COPY TEMPLATE {durable_template}")


@pytest.fixture
async def empty_postgres_url(postgres: PostgresServer) -> str:
    """A PostgreSQL database that nobody has migrated."""
    return await _make_database(postgres, "")


async def _make_database(postgres: PostgresServer, like: str) -> str:
    name = f"t_{uuid4().hex}"
    connection = await asyncpg.connect(postgres.url())
    await connection.execute(f"CREATE DATABASE {name} {like}")
    await connection.close()
    return postgres.url(name)


@pytest.fixture
def server(database_url: str, tmp_path: Path) -> Iterator[Server]:
    """A running server on a fresh database."""
    with running(Server(tmp_path / "server", database_url)) as started:
        yield started
