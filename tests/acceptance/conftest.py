"""Servers for acceptance tests, on both databases."""

from collections.abc import Iterator
from pathlib import Path
from uuid import uuid4

import asyncpg
import pytest

from tests.acceptance.harness import Server, running
from tests.servers import PostgresServer, start_postgres


@pytest.fixture(scope="session")
def postgres() -> Iterator[PostgresServer]:
    """A PostgreSQL with its own defaults for durability: these tests are about what survives."""
    # A deadlock must be noticed before our own lock timeout hides it.
    server = start_postgres(deadlock_timeout="50ms")
    try:
        yield server
    finally:
        server.stop()


@pytest.fixture(params=["sqlite", "postgres"])
def database_url(request: pytest.FixtureRequest, tmp_path: Path) -> str:
    """A fresh database of either kind."""
    if request.param == "sqlite":
        return f"sqlite:///{tmp_path / 'data.db'}"
    return str(request.getfixturevalue("postgres_url"))


@pytest.fixture
async def postgres_url(postgres: PostgresServer) -> str:
    """A fresh PostgreSQL database."""
    name = f"t_{uuid4().hex}"
    connection = await asyncpg.connect(postgres.url())
    await connection.execute(f"CREATE DATABASE {name}")
    await connection.close()
    return postgres.url(name)


@pytest.fixture
def server(database_url: str, tmp_path: Path) -> Iterator[Server]:
    """A running server on a fresh database."""
    with running(Server(tmp_path / "server", database_url)) as started:
        yield started
