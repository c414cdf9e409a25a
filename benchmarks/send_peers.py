"""What sends are measured beside: written by hand, and a provider that takes its time.

`submit PORT` is an API that keeps one mail in one transaction, as most are written: FastAPI,
SQLAlchemy and a unique key. `provider PORT` answers each call after 50 ms as Postmark does; `GET
/count` tells how many came. `loop PORT COUNT` posts the same calls with aiohttp and nothing else,
and prints the CPU time that one took.
"""

import asyncio
import json
import os
import re
import sys
import time
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import Annotated, cast

import aiohttp
import uvicorn
import uvloop
from fastapi import FastAPI, Header, Response
from pydantic import BaseModel
from sqlalchemy import text
from sqlalchemy.ext.asyncio import async_sessionmaker, create_async_engine

LATENCY_S = 0.05
CONCURRENCY = 64
TABLE = """
CREATE TABLE IF NOT EXISTS sends (
    key TEXT PRIMARY KEY,
    recipient TEXT NOT NULL,
    content JSONB NOT NULL,
    state TEXT NOT NULL DEFAULT 'pending',
    created_at TIMESTAMPTZ NOT NULL DEFAULT now()
)
"""
BODY = {
    "From": "Shop <shop@example.com>",
    "To": "customer-1@example.net",
    "Subject": "Your receipt",
    "TextBody": "Thank you for your order. " * 20,
    "Headers": [{"Name": "X-Mailonce-Id", "Value": "4d6f0c1e-7a55-5d3b-9f0e-6d61696c6f6e"}],
    "Metadata": {"mailonce_id": "4d6f0c1e-7a55-5d3b-9f0e-6d61696c6f6e"},
}


class NewMail(BaseModel):
    """A mail as the API takes it."""

    to: str
    from_: str = ""
    subject: str
    text: str


def written_by_hand() -> FastAPI:
    """Make the API: look whether the key is known, keep the mail, commit, answer."""
    engine = create_async_engine(os.environ["DATABASE_URL"], pool_size=20, max_overflow=0)
    sessions = async_sessionmaker(engine, expire_on_commit=False)

    @asynccontextmanager
    async def make_tables(app: FastAPI) -> AsyncIterator[None]:
        del app
        async with engine.begin() as connection:
            await connection.execute(text(TABLE))
        yield

    app = FastAPI(lifespan=make_tables)

    @app.post("/v1/sends", status_code=202)
    async def submit(
        mail: NewMail, response: Response, idempotency_key: Annotated[str, Header()]
    ) -> dict[str, str]:
        async with sessions() as session:
            claim = await session.execute(
                text(
                    "INSERT INTO sends (key, recipient, content) "
                    "VALUES (:key, :recipient, CAST(:content AS JSONB)) "
                    "ON CONFLICT (key) DO NOTHING RETURNING key"
                ),
                {"key": idempotency_key, "recipient": mail.to, "content": mail.model_dump_json()},
            )
            is_new = claim.first() is not None
            await session.commit()
        if not is_new:
            response.headers["idempotent-replayed"] = "true"
        return {"key": idempotency_key, "to": mail.to, "state": "pending"}

    return app


class SlowProvider(asyncio.Protocol):
    """Understands what our own client and aiohttp send, and no more."""

    taken = 0
    _LENGTH = re.compile(rb"(?i)\r\ncontent-length:\s*(\d+)\r\n")

    def __init__(self) -> None:
        self._buffer = b""

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        self._transport = cast("asyncio.Transport", transport)

    def data_received(self, data: bytes) -> None:
        self._buffer += data
        head = self._buffer.find(b"\r\n\r\n")
        if head < 0:
            return
        if self._buffer.startswith(b"GET"):
            self._answer(json.dumps(SlowProvider.taken).encode())
            self._buffer = b""
            return
        length = self._LENGTH.search(self._buffer, 0, head + 2)
        end = head + 4 + (int(length[1]) if length else 0)
        if len(self._buffer) < end:
            return
        self._buffer = self._buffer[end:]
        SlowProvider.taken += 1
        body = b'{"To":"a@b.c","SubmittedAt":"2026-01-01T00:00:00Z","ErrorCode":0,"Message":"OK",'
        body += b'"MessageID":"m-%d"}' % SlowProvider.taken
        asyncio.get_running_loop().call_later(LATENCY_S, self._answer, body)

    def _answer(self, body: bytes) -> None:
        if not self._transport.is_closing():
            head = b"HTTP/1.1 200 OK\r\ncontent-type: application/json\r\n"
            self._transport.write(head + b"content-length: %d\r\n\r\n" % len(body) + body)


async def provide(port: int) -> None:
    server = await asyncio.get_running_loop().create_server(SlowProvider, "127.0.0.1", port)
    await server.serve_forever()


async def loop(port: int, count: int) -> None:
    """Post `count` mails, a few dozen at once, each over a connection of its own as sends are."""
    numbers = iter(range(count))
    url = f"http://127.0.0.1:{port}/email"

    async def post_some(session: aiohttp.ClientSession) -> None:
        for _ in numbers:
            async with session.post(url, json=BODY) as answer:
                assert (await answer.json())["ErrorCode"] == 0, "the provider takes all"

    connector = aiohttp.TCPConnector(limit=CONCURRENCY, force_close=True)
    async with aiohttp.ClientSession(connector=connector) as session:
        began_s, cpu_s = time.monotonic(), time.process_time()
        await asyncio.gather(*(post_some(session) for _ in range(CONCURRENCY)))
        took_s, cpu_s = time.monotonic() - began_s, time.process_time() - cpu_s
    print(json.dumps({"cpu_us": cpu_s / count * 1e6, "rate": count / took_s}))


def main() -> None:
    what, port, *more = sys.argv[1:]
    match what:
        case "submit":
            uvicorn.run(
                written_by_hand(), port=int(port), loop="uvloop", http="httptools",
                access_log=False, log_level="warning",
            )  # fmt: skip
        case "provider":
            uvloop.run(provide(int(port)))
        case _:
            uvloop.run(loop(int(port), int(more[0])))


if __name__ == "__main__":
    main()
