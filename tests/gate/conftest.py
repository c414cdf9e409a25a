"""Fixtures of the gate's suites: places, and rigs that are closed again."""

import asyncio
from collections.abc import AsyncIterator, Callable, Iterator
from pathlib import Path

import asyncpg
import pytest
import pytest_asyncio

from mailonce.gate import Policy
from mailonce.gate.base import Mode
from tests.gate.places import Place, sqlite_place
from tests.gate.rigs import ALL
from tests.gate.rigs.contract import Kind, Rig, Setting
from tests.gate.shop import Shop
from tests.servers import PostgresServer

CASES = [(kind.name, dialect) for kind in ALL.values() for dialect in kind.dialects]

MakeRig = Callable[..., Rig]


@pytest.fixture(scope="session")
def postgres_place(postgres: PostgresServer) -> Place:
    """One database with the gate's tables; emptied before each test."""

    async def create() -> None:
        connection = await asyncpg.connect(postgres.url())
        await connection.execute("CREATE DATABASE gate")
        await connection.close()

    asyncio.run(create())
    place = Place("postgresql", postgres.url("gate"))
    place.make()
    return place


@pytest.fixture(params=["sqlite", "postgresql"])
def place(request: pytest.FixtureRequest, tmp_path: Path) -> Place:
    """A fresh database; the test runs once on each kind."""
    return _fresh(request, request.param, tmp_path)


@pytest.fixture(params=CASES, ids=lambda case: f"{case[0]}-{case[1]}")
def case(request: pytest.FixtureRequest, tmp_path: Path) -> tuple[Kind, Place]:
    """A kind of rig, and a place where it runs: the test runs once on each."""
    name, dialect = request.param
    return ALL[name], _fresh(request, dialect, tmp_path)


@pytest.fixture
def shop() -> Iterator[Shop]:
    shop = Shop()
    yield shop
    shop.go.set()


@pytest_asyncio.fixture
async def make_rig(case: tuple[Kind, Place], shop: Shop) -> AsyncIterator[MakeRig]:
    """Build rigs of the case's kind: `make_rig(mode="lease", window_s=…)`."""
    kind, place = case
    rigs: list[Rig] = []

    def make(
        *, mode: Mode = "atomic", table: str = "webhook_idempotency", **choices: object
    ) -> Rig:
        if mode not in kind.modes:
            pytest.skip(f"{kind.name} has no {mode} mode")
        policy = Policy(**choices)  # type: ignore[arg-type]
        rigs.append(
            kind.build(Setting(place=place, shop=shop, policy=policy, mode=mode, table=table))
        )
        return rigs[-1]

    yield make
    shop.go.set()
    for rig in rigs:
        await rig.close()


def _fresh(request: pytest.FixtureRequest, dialect: str, folder: Path) -> Place:
    if dialect == "sqlite":
        return sqlite_place(folder)
    place: Place = request.getfixturevalue("postgres_place")
    place.empty()
    return place
