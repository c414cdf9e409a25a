"""The adapters for ASGI frameworks, each over several stores, asked without a network."""

from collections.abc import Callable
from typing import Annotated, Any

import httpx
from fastapi import APIRouter, Depends, FastAPI
from fastapi import Response as FastapiResponse
from sqlalchemy import text
from sqlalchemy.ext.asyncio import AsyncSession, async_sessionmaker, create_async_engine
from starlette.applications import Starlette
from starlette.middleware import Middleware
from starlette.requests import Request as StarletteRequest
from starlette.responses import Response as StarletteResponse
from starlette.routing import Route

from mailonce.gate import AsyncGate, AsyncPassage, Request, Response
from mailonce.gate.adapters import asgi, fastapi, starlette
from mailonce.gate.stores.asyncpg import AsyncpgStore
from mailonce.gate.stores.sqlalchemy import AsyncSqlalchemyStore
from tests.gate.places import ORDER, Place
from tests.gate.rigs.contract import Kind, Setting, url_of
from tests.gate.rigs.plain import Close, LazyPool, serve

Opened = tuple[AsyncGate[Any], Close]


class WebRig:
    """An ASGI app, asked through httpx."""

    def __init__(self, app: Any, close: Close) -> None:
        # A handler that raises is the server's 500.
        transport = httpx.ASGITransport(app, raise_app_exceptions=False)
        self._client = httpx.AsyncClient(transport=transport, base_url="http://shop.test")
        self._close = close

    async def send(self, request: Request) -> Response:
        got = await self._client.request(
            request.method, url_of(request), content=request.body, headers=list(request.headers)
        )
        return Response(got.status_code, got.content, tuple(got.headers.multi_items()))

    async def close(self) -> None:
        await self._client.aclose()
        await self._close()


def open_asyncpg(setting: Setting) -> Opened:
    pool = LazyPool(setting.place.url)
    store = AsyncpgStore(pool, table=setting.table)
    return AsyncGate(store, setting.policy, mode=setting.mode), pool.close


def open_sqlalchemy(setting: Setting) -> Opened:
    engine = create_async_engine(
        sqlalchemy_url(setting.place), connect_args=patience(setting.place)
    )
    sessions = async_sessionmaker(engine, expire_on_commit=False)
    store: AsyncSqlalchemyStore[AsyncSession]
    store = AsyncSqlalchemyStore(sessions, table=setting.table)
    return AsyncGate(store, setting.policy, mode=setting.mode), engine.dispose


def sqlalchemy_url(place: Place, *, drivers: tuple[str, str] = ("aiosqlite", "asyncpg")) -> str:
    if place.dialect == "sqlite":
        return f"sqlite+{drivers[0]}:///{place.url}"
    return place.url.replace("postgresql://", f"postgresql+{drivers[1]}://")


def patience(place: Place, *, seconds: float = 1) -> dict[str, Any]:
    """How long SQLite waits for a lock, as an argument of its driver."""
    return {"timeout": seconds} if place.dialect == "sqlite" else {}


async def _serve(setting: Setting, passage: AsyncPassage[Any]) -> StarletteResponse:
    if setting.mode == "atomic" and isinstance(passage.tx, AsyncSession):
        session = passage.tx
        made = await setting.shop.aserve(lambda _: session.execute(text(ORDER)))
    else:
        made = await serve(setting, passage)
    answer = StarletteResponse(made.body, made.status)
    for name, value in made.headers:
        answer.headers.append(name, value)
    return answer


def starlette_app(setting: Setting, gate: AsyncGate[Any]) -> Any:
    async def hook(request: StarletteRequest) -> StarletteResponse:
        assert await request.body(), "the app still gets the body"
        return await _serve(setting, starlette.passage(request))

    routes = [Route("/hooks", hook, methods=["POST", "GET"])]
    return Starlette(routes=routes, middleware=[Middleware(starlette.GateMiddleware, gate=gate)])


def fastapi_app(setting: Setting, gate: AsyncGate[Any]) -> Any:
    router = APIRouter(route_class=fastapi.gated(gate))

    @router.post("/hooks")
    async def hook(
        body: dict[str, Any],
        passage: Annotated[AsyncPassage[Any], Depends(fastapi.passage)],
    ) -> FastapiResponse:
        assert body
        return await _serve(setting, passage)

    app = FastAPI()
    app.include_router(router)
    return app


def bare_app(setting: Setting, gate: AsyncGate[Any]) -> Any:
    """ASGI without any framework: a handler that raises is rendered as a server would."""

    async def app(scope: Any, receive: Any, send: Any) -> None:
        await receive()
        answer = await _serve(setting, asgi.passage_of(scope))
        await answer(scope, receive, send)

    return asgi.GateMiddleware(app, gate)


def build(
    make: Callable[[Setting, AsyncGate[Any]], Any], open_gate: Callable[[Setting], Opened]
) -> Callable[[Setting], WebRig]:
    def built(setting: Setting) -> WebRig:
        gate, close = open_gate(setting)
        return WebRig(make(setting, gate), close)

    return built


BOTH = ("sqlite", "postgresql")
RIGS = [
    Kind(name="starlette", build=build(starlette_app, open_sqlalchemy), dialects=BOTH),
    Kind(name="fastapi", build=build(fastapi_app, open_sqlalchemy), dialects=BOTH),
    Kind(name="asgi", build=build(bare_app, open_asyncpg), dialects=("postgresql",)),
]
