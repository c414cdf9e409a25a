"""FastAPI's dependencies with `yield`: they end before the gate commits, and in its sight."""

from collections.abc import AsyncIterator, Iterator
from contextlib import asynccontextmanager
from contextvars import ContextVar
from typing import Annotated, Any, NamedTuple

import httpx
import pytest
from fastapi import APIRouter, BackgroundTasks, Depends, FastAPI, Request
from fastapi.responses import StreamingResponse
from sqlalchemy import create_engine, text
from sqlalchemy.exc import InvalidRequestError
from sqlalchemy.ext.asyncio import AsyncSession, async_sessionmaker, create_async_engine
from sqlalchemy.orm import scoped_session, sessionmaker

from mailonce.errors import ConfigError
from mailonce.gate import AsyncGate, Gate, Passage, Response
from mailonce.gate import Request as GateRequest
from mailonce.gate.adapters.asgi import GateMiddleware
from mailonce.gate.adapters.fastapi import gated, transaction
from mailonce.gate.stores.sqlalchemy import AsyncSqlalchemyStore, SqlalchemyStore
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


def app_of(gate: AsyncGate[Any], way: str, handler: Any, *, path: str = "/hooks") -> FastAPI:
    """Put a handler behind a gate, by either way that there is."""
    app = FastAPI()
    router = APIRouter(route_class=gated(gate)) if way == "route" else APIRouter()
    router.post(path, status_code=201)(handler)
    app.include_router(router)
    if way == "middleware":
        app.add_middleware(GateMiddleware, gate=gate)
    return app


async def post(app: FastAPI, *, path: str = "/hooks", raises: bool = True) -> int:
    transport = httpx.ASGITransport(app, raise_app_exceptions=raises)
    async with httpx.AsyncClient(transport=transport, base_url="http://app.test") as client:
        return (await client.post(path, headers=KEY)).status_code


async def test_a_session_of_a_dependency_that_commits_as_it_ends_is_refused(place: Place) -> None:
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
            await post(app_of(sessions.gate, "route", hook))

    assert (place.orders(), place.records()) == (0, 0)


async def test_a_dependency_that_fails_as_it_ends_undoes_the_work(place: Place) -> None:
    ends: list[str] = []

    def failing() -> Iterator[None]:
        yield
        ends.append("failed")
        raise OSError("the index is away")

    async with sessions_of(place) as sessions:

        async def hook(request: Request, _: Annotated[None, Depends(failing)]) -> None:
            await request.scope["mailonce.gate.passage"].tx.execute(text(ORDER))

        status = await post(app_of(sessions.gate, "route", hook), raises=False)

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
            unused: BackgroundTasks,
            _: Annotated[None, Depends(counted)],
        ) -> None:
            del unused
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


@pytest.mark.parametrize("kind", ["middleware", "background", "stream"])
async def test_a_dependency_that_must_end_later_is_told_once(
    place: Place, kind: str, caplog: pytest.LogCaptureFixture
) -> None:
    """Its own task ends it, and whatever still uses it finds it open."""
    variable: ContextVar[str] = ContextVar("variable", default="")
    seen: list[str] = []
    path = f"/{kind}-{place.dialect}"

    async def get_client() -> AsyncIterator[str]:
        token = variable.set("open")
        yield "client"
        seen.append("ended")
        variable.reset(token)

    async def later() -> None:
        seen.append(f"later {variable.get()}")

    async def parts() -> AsyncIterator[bytes]:
        yield variable.get().encode()

    async def hook(
        request: Request, tasks: BackgroundTasks, _: Annotated[str, Depends(get_client)]
    ) -> Any:
        await request.scope["mailonce.gate.passage"].tx.execute(text(ORDER))
        if kind == "stream":
            return StreamingResponse(parts(), status_code=201)
        if kind == "background":
            tasks.add_task(later)
        return None

    async with sessions_of(place) as sessions:
        way = "middleware" if kind == "middleware" else "route"
        app = app_of(sessions.gate, way, hook, path=path)
        answers = [await post(app, path=path), await post(app, path=path)]

    assert answers == [201, 201]
    assert seen == (["later open", "ended"] if kind == "background" else ["ended"])
    assert (place.orders(), place.records()) == (1, 1)
    [warning] = caplog.messages
    assert f"dependencies with `yield` of {path} end after the gate's commit" in warning


async def test_a_session_that_the_app_uses_again_is_not_ended_for_good(place: Place) -> None:
    engine = create_engine(sqlalchemy_url(place, drivers=("pysqlite", "psycopg")))
    shared = scoped_session(sessionmaker(engine))
    gate = Gate(SqlalchemyStore(shared))  # type: ignore[call-overload]

    def work(passage: Passage[Any]) -> Response:
        passage.tx.execute(text(ORDER))
        return Response(201)

    request = GateRequest(headers=(("idempotency-key", "k-1"),))
    answers = [gate.run(request, work).response.status for _ in range(3)]
    engine.dispose()

    assert answers == [201, 201, 201]
    assert place.orders() == 1


async def test_a_method_that_the_gate_does_not_take_is_named(place: Place) -> None:
    async with sessions_of(place) as sessions:
        router = APIRouter(route_class=gated(sessions.gate))

        @router.get("/hooks")
        async def read(tx: Annotated[AsyncSession, Depends(transaction)]) -> None:
            del tx

        app = FastAPI()
        app.include_router(router)
        transport = httpx.ASGITransport(app)
        async with httpx.AsyncClient(transport=transport, base_url="http://app.test") as client:
            with pytest.raises(ConfigError, match="GET /hooks does not pass the gate"):
                await client.get("/hooks")
