"""What sends are measured beside: written by hand, and a provider that takes its time.

`submit PORT` is an API that keeps one mail in one transaction, as most are written: FastAPI,
SQLAlchemy and a unique key. It checks what mailonce checks: who asks, the addresses, whether mail
to them is suppressed, and whether the key stands for other words. `insert PORT` checks none of
these: one INSERT for each request. `provider PORT` answers each call after 50 ms as Postmark does;
`GET /count` tells how many came. `loop PORT COUNT` posts the same calls with aiohttp and nothing
else, and prints the CPU time that one took.
"""

import asyncio
import hmac
import json
import os
import re
import sys
import time
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from hashlib import sha256
from typing import Annotated, Any, cast
from uuid import uuid4

import aiohttp
import uvicorn
import uvloop
from fastapi import Depends, FastAPI, Header, HTTPException, Response
from pydantic import BaseModel, Field, StringConstraints
from sqlalchemy import text
from sqlalchemy.ext.asyncio import AsyncSession, async_sessionmaker, create_async_engine

from benchmarks.requests import ADMIN_KEY

LATENCY_S = 0.05
CONCURRENCY = 64
TABLES = (
    """
    CREATE TABLE IF NOT EXISTS sends (
        key TEXT PRIMARY KEY,
        id UUID NOT NULL DEFAULT gen_random_uuid(),
        fingerprint TEXT NOT NULL DEFAULT '',
        recipient TEXT NOT NULL,
        content JSONB NOT NULL,
        state TEXT NOT NULL DEFAULT 'pending',
        created_at TIMESTAMPTZ NOT NULL DEFAULT now()
    )
    """,
    """
    CREATE TABLE IF NOT EXISTS suppressions (
        address TEXT PRIMARY KEY,
        cause TEXT NOT NULL
    )
    """,
)
ADDRESS = r"^[A-Za-z0-9!#$%&'*+/=?^_`{|}~.-]{1,64}@(?:[A-Za-z0-9-]{1,63}\.)+[A-Za-z]{2,63}$"
NAMED_ADDRESS = r"^(?:[^<>\r\n]{0,200}<)?[^<>@\s]{1,64}@(?:[A-Za-z0-9-]{1,63}\.)+[A-Za-z]{2,63}>?$"
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


class CheckedMail(BaseModel):
    """A mail as an API takes it that reads its fields."""

    to: Annotated[str, StringConstraints(pattern=ADDRESS, max_length=254)]
    from_: Annotated[str, Field(alias="from", pattern=NAMED_ADDRESS, max_length=500)]
    subject: Annotated[str, Field(max_length=998)]
    text: Annotated[str, Field(max_length=1_000_000)]
    stream: Annotated[str, Field(max_length=200)] = ""


class SendShown(BaseModel):
    """A send as the API shows it."""

    id: str
    key: str
    state: str
    to: str
    stream: str
    reason: str | None
    created_at: str


def check_key(authorization: Annotated[str, Header()]) -> None:
    if not hmac.compare_digest(authorization, f"Bearer {ADMIN_KEY}"):
        raise HTTPException(401, "the key is wrong")


def written_by_hand() -> FastAPI:
    """Make the API: who asks, what is known of address and key, keep the mail, commit, answer."""
    app, sessions = _app()

    @app.post("/v1/sends", status_code=202, dependencies=[Depends(check_key)])
    async def submit(
        mail: CheckedMail, response: Response, idempotency_key: Annotated[str, Header()]
    ) -> SendShown:
        content = mail.model_dump_json()
        fingerprint = sha256(content.encode()).hexdigest()
        async with sessions() as session:
            cause = await session.scalar(
                text("SELECT cause FROM suppressions WHERE address = :address"),
                {"address": mail.to.casefold()},
            )
            state = "pending" if cause is None else "suppressed"
            claim = await session.execute(
                text(
                    "INSERT INTO sends (key, id, fingerprint, recipient, content, state) VALUES "
                    "(:key, :id, :fingerprint, :recipient, CAST(:content AS JSONB), :state) "
                    "ON CONFLICT (key) DO NOTHING RETURNING id, created_at"
                ),
                {
                    "key": idempotency_key,
                    "id": uuid4(),
                    "fingerprint": fingerprint,
                    "recipient": mail.to,
                    "content": content,
                    "state": state,
                },
            )
            row: Any = claim.first()
            if row is None:
                response.headers["idempotent-replayed"] = "true"
                row = await _known(session, idempotency_key, fingerprint)
            await session.commit()
        return SendShown(
            id=str(row.id),
            key=idempotency_key,
            state=state,
            to=mail.to,
            stream=mail.stream,
            reason=cause,
            created_at=row.created_at.isoformat(),
        )

    return app


async def _known(session: AsyncSession, key: str, fingerprint: str) -> Any:
    found = await session.execute(
        text("SELECT id, created_at, fingerprint FROM sends WHERE key = :key"), {"key": key}
    )
    row: Any = found.one()
    if row.fingerprint != fingerprint:
        raise HTTPException(409, "the key stands for another mail")
    return row


def insert_alone() -> FastAPI:
    """Make the least that is durable: keep the mail unless its key is known, commit, answer."""
    app, sessions = _app()

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


def _app() -> tuple[FastAPI, async_sessionmaker[AsyncSession]]:
    engine = create_async_engine(os.environ["DATABASE_URL"], pool_size=20, max_overflow=0)

    @asynccontextmanager
    async def make_tables(app: FastAPI) -> AsyncIterator[None]:
        del app
        async with engine.begin() as connection:
            for table in TABLES:
                await connection.execute(text(table))
        yield

    return FastAPI(lifespan=make_tables), async_sessionmaker(engine, expire_on_commit=False)


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
        case "submit" | "insert":
            app = written_by_hand() if what == "submit" else insert_alone()
            uvicorn.run(
                app, port=int(port), loop="uvloop", http="httptools",
                access_log=False, log_level="warning",
            )  # fmt: skip
        case "provider":
            uvloop.run(provide(int(port)))
        case _:
            uvloop.run(loop(int(port), int(more[0])))


if __name__ == "__main__":
    main()
