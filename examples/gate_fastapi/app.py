"""A FastAPI app that opens one ticket for one email, however often its webhook comes.

    pip install mailonce fastapi uvicorn 'sqlalchemy[asyncio]' aiosqlite    # or asyncpg
    WEBHOOK_SECRET=whsec_c2VjcmV0LW9mLXRoZS1zZW5kZXI= python app.py

DATABASE_URL may name a PostgreSQL, postgresql://…; without it the app keeps tickets.db.
"""

import os
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import Annotated

import uvicorn
from fastapi import APIRouter, Depends, FastAPI, HTTPException
from pydantic import BaseModel
from sqlalchemy.ext.asyncio import AsyncSession, async_sessionmaker, create_async_engine
from sqlalchemy.orm import DeclarativeBase, Mapped, mapped_column

from mailonce.gate import AsyncGate, Policy, schema
from mailonce.gate.adapters.fastapi import gated, transaction
from mailonce.gate.signature import standard_webhooks
from mailonce.gate.stores.sqlalchemy import AsyncSqlalchemyStore

url = os.environ.get("DATABASE_URL", "sqlite:///tickets.db")
for plain, driver in (("sqlite:", "sqlite+aiosqlite:"), ("postgresql:", "postgresql+asyncpg:")):
    url = url.replace(plain, driver, 1)
engine = create_async_engine(url, pool_size=20)
sessions = async_sessionmaker(engine, expire_on_commit=False)


class Base(DeclarativeBase):
    """The app's own tables."""


class Ticket(Base):
    """What one email opens."""

    __tablename__ = "tickets"
    id: Mapped[int] = mapped_column(primary_key=True)
    message: Mapped[str]
    subject: Mapped[str]


class Email(BaseModel):
    """What the sender tells us."""

    message: str
    sender: str
    subject: str


gate = AsyncGate(
    AsyncSqlalchemyStore(sessions),
    # Nothing is looked up or written before the signature holds.
    Policy(verify=standard_webhooks(os.environ["WEBHOOK_SECRET"])),
)
router = APIRouter(route_class=gated(gate))


@router.post("/hooks", status_code=201)
async def receive(
    email: Email, session: Annotated[AsyncSession, Depends(transaction)]
) -> dict[str, int]:
    """Open a ticket. The key, the ticket and this answer commit together, or none of them does."""
    if not email.subject:
        raise HTTPException(422, "an email without a subject opens no ticket")
    ticket = Ticket(message=email.message, subject=email.subject)
    session.add(ticket)
    await session.flush()
    return {"ticket": ticket.id}


@asynccontextmanager
async def make_tables(_: FastAPI) -> AsyncIterator[None]:
    """Make what is not there. A real app runs `schema.upgrade(op)` in an Alembic revision."""
    async with engine.begin() as connection:
        await connection.run_sync(Base.metadata.create_all)
        await connection.run_sync(schema.create)
    yield
    await engine.dispose()


app = FastAPI(lifespan=make_tables)
app.include_router(router)


def main() -> None:
    """Serve."""
    uvicorn.run(app, port=int(os.environ.get("PORT", "8000")), log_level="warning")


if __name__ == "__main__":
    main()
