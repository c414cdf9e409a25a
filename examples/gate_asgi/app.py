"""An ASGI app without a framework, behind the gate: one ticket for one email.

    pip install mailonce uvicorn 'sqlalchemy[asyncio]' aiosqlite    # or asyncpg
    WEBHOOK_SECRET=whsec_c2VjcmV0LW9mLXRoZS1zZW5kZXI= python app.py

DATABASE_URL may name a PostgreSQL, postgresql://…; without it the app keeps tickets.db.
"""

import json
import os
from typing import Any

import uvicorn
from sqlalchemy import inspect, text
from sqlalchemy.ext.asyncio import create_async_engine

from mailonce.gate import AsyncGate, Policy, schema
from mailonce.gate.adapters.asgi import GateMiddleware, Receive, Scope, Send, passage_of
from mailonce.gate.signature import standard_webhooks
from mailonce.gate.stores.sqlalchemy import AsyncSqlalchemyStore

url = os.environ.get("DATABASE_URL", "sqlite:///tickets.db")
for plain, driver in (("sqlite:", "sqlite+aiosqlite:"), ("postgresql:", "postgresql+asyncpg:")):
    url = url.replace(plain, driver, 1)
engine = create_async_engine(url, pool_size=20)
serial = "serial" if engine.dialect.name == "postgresql" else "integer"
TICKETS = f"""
CREATE TABLE tickets (id {serial} PRIMARY KEY, message text NOT NULL, subject text NOT NULL)
"""
INSERT = text("INSERT INTO tickets (message, subject) VALUES (:message, :subject) RETURNING id")


async def tickets(scope: Scope, receive: Receive, send: Send) -> None:
    """Open a ticket. The key, the ticket and this answer commit together, or none of them does."""
    if scope["type"] == "lifespan":
        await lifespan(receive, send)
        return
    # The gate has read the body, and hands it over in one piece.
    email = json.loads((await receive())["body"])
    if not email.get("subject"):
        await answer(send, 422, {"error": "an email without a subject opens no ticket"})
        return
    values = {"message": email["message"], "subject": email["subject"]}
    made = await passage_of(scope).tx.execute(INSERT, values)
    await answer(send, 201, {"ticket": made.scalar_one()})


async def answer(send: Send, status: int, value: dict[str, Any]) -> None:
    """Send a response; the gate lets it go after the commit."""
    headers = [(b"content-type", b"application/json")]
    await send({"type": "http.response.start", "status": status, "headers": headers})
    await send({"type": "http.response.body", "body": json.dumps(value).encode()})


async def lifespan(receive: Receive, send: Send) -> None:
    """Make the tables that are not there, and end in order."""
    while True:
        message = await receive()
        if message["type"] == "lifespan.startup":
            async with engine.begin() as connection:
                names = await connection.run_sync(lambda sync: inspect(sync).get_table_names())
                if "tickets" not in names:
                    for statement in (TICKETS, *schema.statements(engine.dialect.name)):
                        await connection.exec_driver_sql(statement)
            await send({"type": "lifespan.startup.complete"})
        else:
            await engine.dispose()
            await send({"type": "lifespan.shutdown.complete"})
            return


gate = AsyncGate(
    AsyncSqlalchemyStore(engine),
    # Nothing is looked up or written before the signature holds.
    Policy(verify=standard_webhooks(os.environ["WEBHOOK_SECRET"])),
)
app = GateMiddleware(tickets, gate)


def main() -> None:
    """Serve."""
    uvicorn.run(app, port=int(os.environ.get("PORT", "8000")), log_level="warning")


if __name__ == "__main__":
    main()
