"""The plain functions, over each store: what workers and queue consumers call."""

import asyncio
from collections.abc import Awaitable, Callable
from typing import Any

import asyncpg
from sqlalchemy import Connection, NullPool, create_engine, text

from mailonce.gate import AsyncGate, AsyncPassage, Gate, Passage, Request, Response
from mailonce.gate.store_contract import AsyncStore, Store
from mailonce.gate.stores.asyncpg import AsyncpgStore
from mailonce.gate.stores.psycopg import AsyncPsycopgStore, PsycopgStore
from mailonce.gate.stores.sqlalchemy import SqlalchemyStore
from mailonce.gate.stores.sqlite import SqliteStore
from tests.gate.places import ORDER
from tests.gate.rigs.contract import Kind, Setting
from tests.gate.shop import HandlerError

Close = Callable[[], Awaitable[None]]
FAULT = Response.json(500, {"error": "the handler raised"})


class BlockingRig:
    """`Gate.run` in a thread."""

    def __init__(self, setting: Setting, store: Store[Any]) -> None:
        self._setting = setting
        self.gate = Gate(store, setting.policy, mode=setting.mode)

    async def send(self, request: Request) -> Response:
        return await asyncio.to_thread(self._send, request)

    async def close(self) -> None:
        pass

    def _send(self, request: Request) -> Response:
        try:
            return self.gate.run(request, self._work).response
        except HandlerError:
            return FAULT

    def _work(self, passage: Passage[Any]) -> Response:
        place, shop = self._setting.place, self._setting.shop
        if self._setting.mode == "lease":
            # The effect is outside of the gate's transactions.
            return shop.serve(lambda _: place.query(ORDER))
        if isinstance(passage.tx, Connection):
            return shop.serve(lambda _: passage.tx.execute(text(ORDER)))
        return shop.serve(lambda _: passage.tx.execute(ORDER))


def blocking(store: Callable[[Setting], Store[Any]]) -> Callable[[Setting], BlockingRig]:
    return lambda setting: BlockingRig(setting, store(setting))


def sqlite_store(setting: Setting) -> SqliteStore:
    return SqliteStore(setting.place.url, table=setting.table, busy_s=1)


class AwaitedRig:
    """`AsyncGate.run`."""

    def __init__(self, setting: Setting, store: AsyncStore[Any], close: Close) -> None:
        self._setting = setting
        self._close = close
        self.gate = AsyncGate(store, setting.policy, mode=setting.mode)

    async def send(self, request: Request) -> Response:
        try:
            return (await self.gate.run(request, self._work)).response
        except HandlerError:
            return FAULT

    async def close(self) -> None:
        await self._close()

    async def _work(self, passage: AsyncPassage[Any]) -> Response:
        return await serve(self._setting, passage)


async def serve(setting: Setting, passage: AsyncPassage[Any]) -> Response:
    """Let the shop place its order in the passage's transaction, or outside in lease mode."""
    if setting.mode == "lease":
        return await setting.shop.aserve(lambda _: asyncio.to_thread(setting.place.query, ORDER))
    return await setting.shop.aserve(lambda _: passage.tx.execute(ORDER))


async def nothing() -> None:
    """Close what needs no closing."""


def psycopg_store(setting: Setting) -> PsycopgStore:
    return PsycopgStore(setting.place.url, table=setting.table)


def async_psycopg(setting: Setting) -> AwaitedRig:
    return AwaitedRig(setting, AsyncPsycopgStore(setting.place.url, table=setting.table), nothing)


def async_asyncpg(setting: Setting) -> AwaitedRig:
    pool = LazyPool(setting.place.url)
    return AwaitedRig(setting, AsyncpgStore(pool, table=setting.table), pool.close)


class LazyPool:
    """A pool that opens in the loop that uses it."""

    def __init__(self, url: str) -> None:
        self._url = url
        self._pool: Any = None

    async def acquire(self) -> Any:
        if self._pool is None:
            self._pool = asyncpg.create_pool(self._url, min_size=0, max_size=8)
        await self._pool
        return await self._pool.acquire()

    async def release(self, connection: Any, timeout: float) -> None:
        await self._pool.release(connection, timeout=timeout)

    async def close(self) -> None:
        if self._pool is not None:
            await self._pool.close()


def sqlalchemy_store(setting: Setting) -> SqlalchemyStore[Any]:
    if setting.place.dialect == "sqlite":
        engine = create_engine(f"sqlite:///{setting.place.url}", connect_args={"timeout": 1})
    else:
        url = setting.place.url.replace("postgresql://", "postgresql+psycopg://")
        engine = create_engine(url, poolclass=NullPool)
    return SqlalchemyStore(engine, table=setting.table)


RIGS = [
    Kind(name="sqlite3", build=blocking(sqlite_store), dialects=("sqlite",)),
    Kind(name="psycopg", build=blocking(psycopg_store), dialects=("postgresql",)),
    Kind(name="sqlalchemy", build=blocking(sqlalchemy_store), dialects=("sqlite", "postgresql")),
    Kind(name="psycopg-async", build=async_psycopg, dialects=("postgresql",)),
    Kind(name="asyncpg", build=async_asyncpg, dialects=("postgresql",)),
]
