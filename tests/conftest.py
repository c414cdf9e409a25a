"""Real databases for every test that asks for one: SQLite files and a PostgreSQL of our own."""

import asyncio
import gc
import itertools
import os
import shutil
import sys
from collections.abc import AsyncIterator, Iterator
from functools import cache
from pathlib import Path
from types import FunctionType, ModuleType

import asyncpg
import pytest
import pytest_asyncio
import structlog
from hypothesis import HealthCheck, settings

from mailonce.errors import UnavailableError
from mailonce.store.database import open_database
from mailonce.store.dialects.contract import Database
from tests.factories import Ledger
from tests.servers import PostgresServer, start_postgres_in_memory

TEMPLATE = "template_mailonce"
# Copying files is quicker than writing them to the log, too.
AS = "STRATEGY FILE_COPY TEMPLATE"
_numbers = itertools.count()
# How quickly examples are made says how busy the machine is, not whether the test is right.
# `make test-long` tries the hundred examples that are Hypothesis's default.
# What must pass says the same of the same code: new examples are for `make check`, which is run
# before each commit, and for `make test-long`.
settings.register_profile(
    "short", max_examples=25, derandomize=True, suppress_health_check=[HealthCheck.too_slow]
)
# `make test` finds what few examples do not.
settings.register_profile("quick", max_examples=8, suppress_health_check=[HealthCheck.too_slow])

# Whatever is in these folders runs beside servers of its own.
FOLDERS_WITH_SERVERS = ("acceptance", "browser")
# A module that has one of these starts processes.
STARTERS = {
    "mailonce.send.render.Renderer",
    "subprocess",
    "tests.commands.Shell",
    "tests.documents.shell.open_bash",
    "tests.forking",
    "tests.gate.child.run_in_a_child",
    "tests.gate.test_packaging.run",
    "tests.send.office.Office",
    "tests.servers.start_postgres",
    "tests.servers.start_postgres_in_memory",
    "tests.servers.start_standby",
}


# A test process has a million objects that stay: looking through them again and again took a
# tenth of its time.
gc.set_threshold(100_000, 20, 20)
# Tracebacks in colours, with all values in them, take longer than the tests that log them.
structlog.configure(
    processors=[structlog.dev.ConsoleRenderer(exception_formatter=structlog.dev.plain_traceback)]
)


def pytest_ignore_collect(collection_path: Path, config: pytest.Config) -> bool | None:
    """Do not even import what would be left out."""
    is_left_out = "not server" in config.getoption("markexpr")
    return (is_left_out and collection_path.name in FOLDERS_WITH_SERVERS) or None


def pytest_collection_finish() -> None:
    """What was imported stays until the end."""
    gc.collect()
    gc.freeze()


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """Mark what starts processes, so that `make check` can leave it out and nobody forgets to."""
    for item in items:
        if _starts_processes(item):
            item.add_marker("server")


def _starts_processes(item: pytest.Item) -> bool:
    folder = item.path.relative_to(Path(__file__).parent).parts[0]
    if folder in FOLDERS_WITH_SERVERS or "postgres" in getattr(item, "fixturenames", ()):
        return True
    callspec = getattr(item, "callspec", None)
    if callspec is not None and any(
        "postgresql" in _texts(one) for one in callspec.params.values()
    ):
        return True
    return isinstance(item, pytest.Function) and _has_starter(item.module)


@cache
def _has_starter(module: ModuleType) -> bool:
    return not STARTERS.isdisjoint(map(_name_of, vars(module).values()))


def _name_of(value: object) -> str:
    if isinstance(value, ModuleType):
        return value.__name__
    # Some objects answer for others, and not yet: only classes and functions are asked.
    if type(value) in {type, FunctionType}:
        return f"{value.__module__}.{value.__qualname__}"  # type: ignore[attr-defined]
    return ""


def _texts(value: object) -> tuple[object, ...]:
    """Give a parameter, or all the parts of one that has several."""
    return value if isinstance(value, tuple) else (value,)


def pytest_configure(config: pytest.Config) -> None:
    """Fit the run to its length, which the marks tell; see that unmarked tests start no process."""
    marks: str = config.getoption("markexpr")
    if "not long" in marks:
        settings.load_profile("short")
    if "not server" in marks:
        settings.load_profile("quick")
        sys.addaudithook(_refuse_processes)


def _refuse_processes(event: str, _: tuple[object, ...]) -> None:
    test = os.environ.get("PYTEST_CURRENT_TEST", "")
    if event in {"subprocess.Popen", "os.fork", "os.posix_spawn"} and "(call)" in test:
        raise AssertionError(f"{test} starts a process: say how it is known in tests/conftest.py")


@pytest.fixture(scope="session")
def postgres() -> Iterator[PostgresServer]:
    """One server per test process. What its tests kill is the process, never the power."""
    server = start_postgres_in_memory(fsync="off")
    try:
        yield server
    finally:
        server.stop()


@pytest.fixture(scope="session")
def postgres_template(postgres: PostgresServer) -> str:
    """A migrated database to copy: faster than migrating one for each test."""

    async def migrate() -> None:
        await _execute(postgres, f"CREATE DATABASE {TEMPLATE}")
        try:
            opened = await open_database(postgres.url(TEMPLATE))
        except UnavailableError:
            # A machine that stood still for longer than a statement may take: every test of this
            # process on PostgreSQL would fail with it.
            opened = await open_database(postgres.url(TEMPLATE))
        await opened.close()

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
    asyncio.run(_execute(server, f"CREATE DATABASE {name} {AS} {template}"))
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
