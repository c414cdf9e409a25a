"""A Starlette app that opens one ticket for one email, however often its webhook comes.

    pip install mailonce starlette uvicorn 'sqlalchemy[asyncio]' aiosqlite    # or asyncpg
    WEBHOOK_SECRET=whsec_c2VjcmV0LW9mLXRoZS1zZW5kZXI= python app.py

DATABASE_URL may name a PostgreSQL, postgresql://…; without it the app keeps tickets.db.
"""

import os
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager

import uvicorn
from sqlalchemy import Column, Integer, MetaData, String, Table
from sqlalchemy.ext.asyncio import create_async_engine
from starlette.applications import Starlette
from starlette.middleware import Middleware
from starlette.requests import Request
from starlette.responses import JSONResponse
from starlette.routing import Route

from mailonce.gate import AsyncGate, Policy, schema
from mailonce.gate.adapters.starlette import GateMiddleware, passage
from mailonce.gate.signature import standard_webhooks
from mailonce.gate.stores.sqlalchemy import AsyncSqlalchemyStore

url = os.environ.get("DATABASE_URL", "sqlite:///tickets.db")
for plain, driver in (("sqlite:", "sqlite+aiosqlite:"), ("postgresql:", "postgresql+asyncpg:")):
    url = url.replace(plain, driver, 1)
engine = create_async_engine(url, pool_size=20)

metadata = MetaData()
tickets = Table(
    "tickets",
    metadata,
    Column("id", Integer, primary_key=True),
    Column("message", String, nullable=False),
    Column("subject", String, nullable=False),
)

gate = AsyncGate(
    AsyncSqlalchemyStore(engine),
    # Nothing is looked up or written before the signature holds.
    Policy(verify=standard_webhooks(os.environ["WEBHOOK_SECRET"])),
)


async def receive(request: Request) -> JSONResponse:
    """Open a ticket. The key, the ticket and this answer commit together, or none of them does."""
    email = await request.json()
    if not email.get("subject"):
        return JSONResponse({"error": "an email without a subject opens no ticket"}, 422)
    ticket = {"message": email["message"], "subject": email["subject"]}
    # The passage's own connection: what is written through another commits by itself.
    made = await passage(request).tx.execute(tickets.insert().values(ticket))
    return JSONResponse({"ticket": made.inserted_primary_key[0]}, 201)


@asynccontextmanager
async def make_tables(_: Starlette) -> AsyncIterator[None]:
    """Make what is not there. A real app runs `schema.upgrade(op)` in an Alembic revision."""
    async with engine.begin() as connection:
        await connection.run_sync(metadata.create_all)
        await connection.run_sync(schema.create)
    yield
    await engine.dispose()


app = Starlette(
    routes=[Route("/hooks", receive, methods=["POST"])],
    middleware=[Middleware(GateMiddleware, gate=gate)],
    lifespan=make_tables,
)


def main() -> None:
    """Serve."""
    uvicorn.run(app, port=int(os.environ.get("PORT", "8000")), log_level="warning")


if __name__ == "__main__":
    main()
