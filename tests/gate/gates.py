"""Stores over a place, for tests that need no adapter, and requests to send through them."""

import json
from typing import Any

from sqlalchemy.ext.asyncio import create_async_engine
from sqlalchemy.pool import NullPool

from mailonce.gate import Request, Response
from mailonce.gate.store_contract import AsyncStore, Store
from mailonce.gate.stores.psycopg import PsycopgStore
from mailonce.gate.stores.sqlalchemy import AsyncSqlalchemyStore
from mailonce.gate.stores.sqlite import SqliteStore
from tests.gate.places import Place

DONE = Response.json(200, {"done": True})


def store_of(place: Place) -> Store[Any]:
    if place.dialect == "sqlite":
        return SqliteStore(place.url, busy_s=1)
    return PsycopgStore(place.url)


def async_store_of(place: Place) -> AsyncStore[Any]:
    if place.dialect == "sqlite":
        url = f"sqlite+aiosqlite:///{place.url}"
    else:
        url = place.url.replace("postgresql://", "postgresql+asyncpg://")
    store: AsyncSqlalchemyStore[Any]
    store = AsyncSqlalchemyStore(create_async_engine(url, poolclass=NullPool))
    return store


def ask(key: str = "k-1", body: Any = None, **more: Any) -> Request:
    raw = body if isinstance(body, bytes) else json.dumps(body or {"id": 1}).encode()
    return Request(headers=(("idempotency-key", key),), body=raw, **more)
