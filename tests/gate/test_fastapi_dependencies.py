"""FastAPI's dependencies with `yield`: they end before the gate commits, and in its sight."""

from collections.abc import AsyncIterator, Iterator
from contextlib import asynccontextmanager
from typing import Annotated, Any, NamedTuple

import httpx
import pytest
from fastapi import APIRouter, BackgroundTasks, Depends, FastAPI, Request
from sqlalchemy import text
from sqlalchemy.exc import InvalidRequestError
from sqlalchemy.ext.asyncio import AsyncSession, async_sessionmaker, create_async_engine

from mailonce.errors import ConfigError
from mailonce.gate import AsyncGate
from mailonce.gate.adapters.asgi import GateMiddleware
from mailonce.gate.adapters.fastapi import gated, transaction
from mailonce.gate.stores.sqlalchemy import AsyncSqlalchemyStore
from tests.gate.places import ORDER, Place
from tests.gate.rigs.web import patience, sqlalchemy_url

KEY = {"idempotency-key": "k-1"}


class Sessions(NamedTuple):
    """An app's sessions, and a gate before them."""

    make: async_sessionmaker[AsyncSession]
    gate: AsyncGate[Any]


@asynccontextmanager
async def sessions_of(place: Place) -> AsyncIterator[Sessions]:
    url, wait = sqlalchemy_url(place), patience(place, seconds=0.2)
    engine = create_async_engine(url, connect_args=wait)
    make = async_sessionmaker(engine)
    try:
        yield Sessions(make, AsyncGate(AsyncSqlalchemyStore(make)))
    finally:
        await engine.dispose()


def app_of(gate: AsyncGate[Any], way: str, handler: Any) -> FastAPI:
    """Put a handler behind a gate, by either way that there is."""
    app = FastAPI()
    router = APIRouter(route_class=gated(gate)) if way == "route" else APIRouter()
    router.post("/hooks", status_code=201)(handler)
    app.include_router(router)
    if way == "middleware":
        app.add_middleware(GateMiddleware, gate=gate)
    return app


async def post(app: FastAPI, *, raises: bool = True) -> int:
    transport = httpx.ASGITransport(app, raise_app_exceptions=raises)
    async with httpx.AsyncClient(transport=transport, base_url="http://app.test") as client:
        return (await client.post("/hooks", headers=KEY)).status_code


@pytest.mark.parametrize("way", ["route", "middleware"])
async def test_a_session_of_a_dependency_that_commits_as_it_ends_is_refused(
    place: Place, way: str
) -> None:
    async with sessions_of(place) as sessions:

        async def get_db() -> AsyncIterator[AsyncSession]:
            async with sessions.make() as session:
                yield session
                await session.commit()

        async def hook(request: Request, db: Annotated[AsyncSession, Depends(get_db)]) -> None:
            """On SQLite only read: a second writer finds the file locked."""
            del request
            await db.execute(text(ORDER if place.dialect == "postgresql" else "SELECT 1"))

        with pytest.raises(ConfigError, match=r"write through `passage\.tx`"):
            await post(app_of(sessions.gate, way, hook))

    assert (place.orders(), place.records()) == (0, 0)


@pytest.mark.parametrize("way", ["route", "middleware"])
async def test_a_dependency_that_fails_as_it_ends_undoes_the_work(place: Place, way: str) -> None:
    ends: list[str] = []

    def failing() -> Iterator[None]:
        yield
        ends.append("failed")
        raise OSError("the index is away")

    async with sessions_of(place) as sessions:

        async def hook(request: Request, _: Annotated[None, Depends(failing)]) -> None:
            await request.scope["mailonce.gate.passage"].tx.execute(text(ORDER))

        status = await post(app_of(sessions.gate, way, hook), raises=False)

    assert (status, ends) == (500, ["failed"])
    assert (place.orders(), place.records()) == (0, 0)


async def test_a_dependency_that_ends_well_ends_once_and_before_the_commit(place: Place) -> None:
    seen: list[int] = []

    async def counted() -> AsyncIterator[None]:
        yield
        seen.append(place.records())

    async with sessions_of(place) as sessions:

        async def hook(
            tx: Annotated[AsyncSession, Depends(transaction)],
            _: Annotated[None, Depends(counted)],
        ) -> None:
            await tx.execute(text(ORDER))

        app = app_of(sessions.gate, "route", hook)
        answers = [await post(app), await post(app)]

    assert (answers, seen) == ([201, 201], [0])
    assert (place.orders(), place.records()) == (1, 1)


async def test_the_gates_session_cannot_be_used_after_the_commit(place: Place) -> None:
    faults: list[BaseException] = []

    async with sessions_of(place) as sessions:

        async def later(session: AsyncSession) -> None:
            try:
                await session.execute(text(ORDER))
            except InvalidRequestError as error:
                faults.append(error)

        async def hook(
            tx: Annotated[AsyncSession, Depends(transaction)], tasks: BackgroundTasks
        ) -> None:
            await tx.execute(text(ORDER))
            tasks.add_task(later, tx)

        assert await post(app_of(sessions.gate, "route", hook)) == 201

    assert ["permanently closed" in str(one) for one in faults] == [True]
    assert place.orders() == 1
