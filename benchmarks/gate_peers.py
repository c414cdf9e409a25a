"""One FastAPI endpoint that does one INSERT, behind each gate that is compared.

`python -m benchmarks.gate_peers NAME PORT`; the database comes as DATABASE_URL.
"""

import json
import os
import re
import sys
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from hashlib import sha256
from typing import Any

import asyncpg
import uvicorn
from fastapi import FastAPI, Request, Response
from psycopg_pool import AsyncConnectionPool
from sqlalchemy import TextClause, text
from sqlalchemy.ext.asyncio import (
    AsyncEngine,
    AsyncSession,
    async_sessionmaker,
    create_async_engine,
)

from mailonce.gate import AsyncGate, schema
from mailonce.gate.adapters.asgi import passage_of
from mailonce.gate.adapters.fastapi import gated
from mailonce.gate.stores.asyncpg import AsyncpgStore
from mailonce.gate.stores.psycopg import AsyncPsycopgStore
from mailonce.gate.stores.sqlalchemy import AsyncSqlalchemyStore

TICKETS = "CREATE TABLE tickets (id bigserial PRIMARY KEY, subject text NOT NULL)"
INSERT = "INSERT INTO tickets (subject) VALUES ($1)"
FORMAT_INSERT = "INSERT INTO tickets (subject) VALUES (%s)"
NAMED_INSERT = text("INSERT INTO tickets (subject) VALUES (:subject)")
OK = b'{"status":"ok"}'
POOL = 6

# As in seed 000.
SEED_TABLE = """
CREATE TABLE webhook_idempotency (
    idempotency_key text PRIMARY KEY,
    request_hash char(64) NOT NULL,
    status text NOT NULL CHECK (status IN ('processing', 'completed')),
    response_status integer,
    response_body jsonb,
    created_at timestamptz NOT NULL DEFAULT now(),
    completed_at timestamptz
)
"""
SEED_CLAIM = """
INSERT INTO webhook_idempotency (idempotency_key, request_hash, status)
VALUES ($1, $2, 'processing') ON CONFLICT (idempotency_key) DO NOTHING RETURNING idempotency_key
"""
SEED_READ = """
SELECT request_hash, status, response_status, response_body
FROM webhook_idempotency WHERE idempotency_key = $1
"""
SEED_COMPLETE = """
UPDATE webhook_idempotency SET status = 'completed', response_status = $1,
response_body = $2::jsonb, completed_at = now() WHERE idempotency_key = $3
"""


def bare() -> FastAPI:
    """No gate: the INSERT in a transaction, as an app that writes more than one row has it."""
    app = FastAPI(lifespan=_pooled(TICKETS))

    @app.post("/hooks")
    async def receive(request: Request) -> Response:
        event = json.loads(await request.body())
        async with request.app.state.pool.acquire() as connection, connection.transaction():
            await connection.execute(INSERT, event["subject"])
        return Response(OK, media_type="application/json")

    return app


def seed000() -> FastAPI:
    """The handler of seed 000, written by hand on asyncpg."""
    app = FastAPI(lifespan=_pooled(TICKETS, SEED_TABLE))

    @app.post("/hooks")
    async def receive(request: Request) -> Response:
        event = json.loads(await request.body())
        key = request.headers.get("x-idempotency-key", "").strip()
        if not key:
            return _json(400, {"error": "missing idempotency key"})
        fingerprint = _fingerprint(event)
        async with request.app.state.pool.acquire() as connection, connection.transaction():
            if not await connection.fetchrow(SEED_CLAIM, key, fingerprint):
                return _known(await connection.fetchrow(SEED_READ, key), fingerprint)
            await connection.execute(INSERT, event["subject"])
            await connection.execute(SEED_COMPLETE, 200, OK.decode(), key)
        return Response(OK, media_type="application/json")

    return app


def seed000_psycopg() -> FastAPI:
    """The same by hand on psycopg: the pool's connection commits when its block ends."""
    app = FastAPI(lifespan=_psycopg_pooled(TICKETS, SEED_TABLE))
    claim, read, complete = (_formatted(sql) for sql in (SEED_CLAIM, SEED_READ, SEED_COMPLETE))

    @app.post("/hooks")
    async def receive(request: Request) -> Response:
        event = json.loads(await request.body())
        key = request.headers.get("x-idempotency-key", "").strip()
        if not key:
            return _json(400, {"error": "missing idempotency key"})
        fingerprint = _fingerprint(event)
        async with request.app.state.pool.connection() as connection:
            cursor = await connection.execute(claim, (key, fingerprint))
            if not await cursor.fetchone():
                cursor = await connection.execute(read, (key,))
                return _known(await cursor.fetchone(), fingerprint)
            await connection.execute(FORMAT_INSERT, (event["subject"],))
            await connection.execute(complete, (200, OK.decode(), key))
        return Response(OK, media_type="application/json")

    return app


def seed000_sqlalchemy() -> FastAPI:
    """The same by hand on SQLAlchemy's session."""
    sessions = async_sessionmaker(_engine())
    app = FastAPI(lifespan=_pooled(TICKETS, SEED_TABLE))
    claim, read, complete = (_named(sql) for sql in (SEED_CLAIM, SEED_READ, SEED_COMPLETE))

    @app.post("/hooks")
    async def receive(request: Request) -> Response:
        event = json.loads(await request.body())
        key = request.headers.get("x-idempotency-key", "").strip()
        if not key:
            return _json(400, {"error": "missing idempotency key"})
        fingerprint = _fingerprint(event)
        async with sessions() as session:
            found = await session.execute(claim, {"p1": key, "p2": fingerprint})
            if found.first() is None:
                row = (await session.execute(read, {"p1": key})).first()
                return _known(row, fingerprint)
            await session.execute(NAMED_INSERT, {"subject": event["subject"]})
            await session.execute(complete, {"p1": 200, "p2": OK.decode(), "p3": key})
            await session.commit()
        return Response(OK, media_type="application/json")

    return app


def ours_asyncpg() -> FastAPI:
    """Our gate over asyncpg."""

    def routes(app: FastAPI, pool: Any) -> None:
        app.router.route_class = gated(AsyncGate(AsyncpgStore(pool)))

        @app.post("/hooks")
        async def receive(request: Request) -> Response:
            event = json.loads(await request.body())
            await passage_of(request.scope).tx.execute(INSERT, event["subject"])
            return Response(OK, media_type="application/json")

    return FastAPI(lifespan=_pooled(TICKETS, *schema.statements("postgresql"), routes=routes))


def bare_sqlalchemy() -> FastAPI:
    """No gate, through SQLAlchemy's session."""
    sessions = async_sessionmaker(_engine())
    app = FastAPI(lifespan=_pooled(TICKETS))

    @app.post("/hooks")
    async def receive(request: Request) -> Response:
        event = json.loads(await request.body())
        async with sessions() as session:
            await session.execute(NAMED_INSERT, {"subject": event["subject"]})
            await session.commit()
        return Response(OK, media_type="application/json")

    return app


def ours_sqlalchemy() -> FastAPI:
    """Our gate over SQLAlchemy's session."""
    gate: AsyncGate[AsyncSession] = AsyncGate(AsyncSqlalchemyStore(async_sessionmaker(_engine())))
    app = FastAPI(lifespan=_pooled(TICKETS, *schema.statements("postgresql")))
    # On the app itself, as the others: an included router costs something of its own.
    app.router.route_class = gated(gate)

    @app.post("/hooks")
    async def receive(request: Request) -> Response:
        event = json.loads(await request.body())
        session: AsyncSession = passage_of(request.scope).tx
        await session.execute(NAMED_INSERT, {"subject": event["subject"]})
        return Response(OK, media_type="application/json")

    return app


def bare_psycopg() -> FastAPI:
    """No gate, through psycopg and its pool."""
    app = FastAPI(lifespan=_psycopg_pooled(TICKETS))

    @app.post("/hooks")
    async def receive(request: Request) -> Response:
        event = json.loads(await request.body())
        async with request.app.state.pool.connection() as connection:
            await connection.execute(FORMAT_INSERT, (event["subject"],))
        return Response(OK, media_type="application/json")

    return app


def ours_psycopg() -> FastAPI:
    """Our gate over psycopg and its pool."""

    def routes(app: FastAPI, pool: Any) -> None:
        app.router.route_class = gated(AsyncGate(AsyncPsycopgStore(pool)))

        @app.post("/hooks")
        async def receive(request: Request) -> Response:
            event = json.loads(await request.body())
            await passage_of(request.scope).tx.execute(FORMAT_INSERT, (event["subject"],))
            return Response(OK, media_type="application/json")

    return FastAPI(
        lifespan=_psycopg_pooled(TICKETS, *schema.statements("postgresql"), routes=routes)
    )


def asgi_idempotency_header() -> Any:
    """The package of that name, with its Redis store, around the bare endpoint."""
    from idempotency_header_middleware import (  # noqa: PLC0415
        IdempotencyHeaderMiddleware,
    )
    from idempotency_header_middleware.backends import RedisBackend  # noqa: PLC0415
    from redis.asyncio import Redis  # noqa: PLC0415

    backend = RedisBackend(redis=Redis.from_url(os.environ["REDIS_URL"], decode_responses=True))
    return IdempotencyHeaderMiddleware(bare(), backend=backend)


APPS: dict[str, Callable[[], Any]] = {
    "bare": bare,
    "bare-psycopg": bare_psycopg,
    "bare-sqlalchemy": bare_sqlalchemy,
    "ours-asyncpg": ours_asyncpg,
    "ours-psycopg": ours_psycopg,
    "ours-sqlalchemy": ours_sqlalchemy,
    "seed000": seed000,
    "seed000-psycopg": seed000_psycopg,
    "seed000-sqlalchemy": seed000_sqlalchemy,
    "asgi-idempotency-header": asgi_idempotency_header,
}


def _pooled(
    *tables: str, routes: Callable[[FastAPI, Any], None] | None = None
) -> Callable[[FastAPI], Any]:
    @asynccontextmanager
    async def lifespan(app: FastAPI) -> AsyncIterator[None]:
        url = os.environ["DATABASE_URL"]
        async with asyncpg.create_pool(url, min_size=1, max_size=POOL) as pool:
            if not await pool.fetchval("SELECT to_regclass('tickets') IS NOT NULL"):
                for table in tables:
                    await pool.execute(table)
            app.state.pool = pool
            if routes is not None:
                routes(app, pool)
            yield

    return lifespan


def _psycopg_pooled(
    *tables: str, routes: Callable[[FastAPI, Any], None] | None = None
) -> Callable[[FastAPI], Any]:
    @asynccontextmanager
    async def lifespan(app: FastAPI) -> AsyncIterator[None]:
        url = os.environ["DATABASE_URL"]
        async with AsyncConnectionPool(url, min_size=1, max_size=POOL, open=False) as pool:
            async with pool.connection() as connection:
                cursor = await connection.execute("SELECT to_regclass('tickets') IS NULL")
                if await cursor.fetchone() == (True,):
                    for table in tables:
                        await connection.execute(table.encode())
            app.state.pool = pool
            if routes is not None:
                routes(app, pool)
            yield

    return lifespan


def _engine() -> AsyncEngine:
    url = os.environ["DATABASE_URL"].replace("postgresql:", "postgresql+asyncpg:", 1)
    return create_async_engine(url, pool_size=POOL, max_overflow=0)


def _fingerprint(event: Any) -> str:
    text = json.dumps(event, ensure_ascii=False, separators=(",", ":"), sort_keys=True)
    return sha256(text.encode()).hexdigest()


def _known(row: Any, fingerprint: str) -> Response:
    """Answer a repeat, as seed 000 does."""
    if row is None:
        return _json(503, {"error": "idempotency record unavailable"})
    request_hash, status, response_status, body = row
    if request_hash != fingerprint:
        return _json(409, {"error": "idempotency key reused with a different payload"})
    if status == "completed":
        return _json(response_status, json.loads(body) if isinstance(body, str) else body)
    return _json(202, {"status": "processing"})


def _formatted(sql: str) -> str:
    return re.sub(r"\$\d", "%s", sql)


def _named(sql: str) -> TextClause:
    return text(re.sub(r"\$(\d)::jsonb", r"CAST($\1 AS jsonb)", sql).replace("$", ":p"))


def _json(status: int, body: Any) -> Response:
    text = json.dumps(body, separators=(",", ":"))
    return Response(text, status_code=status, media_type="application/json")


if __name__ == "__main__":
    uvicorn.run(
        APPS[sys.argv[1]](),
        port=int(sys.argv[2]),
        loop="uvloop",
        http="httptools",
        access_log=False,
        log_level="warning",
        # On a busy machine a client may be away for longer than the usual 5 s.
        timeout_keep_alive=120,
    )
