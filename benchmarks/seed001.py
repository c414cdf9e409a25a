"""The peer: the FastAPI receiver as seed 001 writes it, with a pool of 20.

Its `handle_event` and `record_failure` are left to the reader there; here they do nothing.
"""

import hashlib
import hmac
import json
import os
import sys
import time
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import Any

import uvicorn
from fastapi import FastAPI, Header, HTTPException, Request
from sqlalchemy import text
from sqlalchemy.ext.asyncio import AsyncSession, async_sessionmaker, create_async_engine

TABLES = (
    """
    CREATE TABLE IF NOT EXISTS webhook_events (
        event_id TEXT PRIMARY KEY,
        provider TEXT NOT NULL,
        event_type TEXT NOT NULL,
        received_at TIMESTAMPTZ NOT NULL DEFAULT now(),
        processed_at TIMESTAMPTZ,
        payload JSONB NOT NULL
    )
    """,
    "CREATE INDEX IF NOT EXISTS webhook_events_received_at_idx ON webhook_events (received_at)",
    """
    CREATE TABLE IF NOT EXISTS webhook_dlq (
        event_id TEXT PRIMARY KEY,
        payload JSONB NOT NULL,
        last_error TEXT NOT NULL,
        attempts INTEGER NOT NULL,
        failed_at TIMESTAMPTZ NOT NULL DEFAULT now()
    )
    """,
)

WEBHOOK_SECRET = os.environ["WEBHOOK_SECRET"].encode()
MAX_SKEW_SECONDS = 300

engine = create_async_engine(os.environ["DATABASE_URL"], pool_size=20, max_overflow=0)
Session = async_sessionmaker(engine, expire_on_commit=False)


@asynccontextmanager
async def make_tables(app: FastAPI) -> AsyncIterator[None]:
    del app
    async with engine.begin() as connection:
        for table in TABLES:
            await connection.execute(text(table))
    yield


app = FastAPI(lifespan=make_tables)


def verify_signature(raw: bytes, ts: str, sig: str) -> bool:
    try:
        if abs(time.time() - int(ts)) > MAX_SKEW_SECONDS:
            return False
    except ValueError:
        return False
    mac = hmac.new(WEBHOOK_SECRET, f"{ts}.".encode() + raw, hashlib.sha256).hexdigest()
    return hmac.compare_digest(mac, sig)


@app.post("/webhooks/sesmetric")
async def receive(
    request: Request,
    x_sesmetric_timestamp: str = Header(...),  # noqa: FAST002 - as the seed has it
    x_sesmetric_signature: str = Header(...),  # noqa: FAST002
) -> dict[str, str]:
    raw = await request.body()
    if not verify_signature(raw, x_sesmetric_timestamp, x_sesmetric_signature):
        raise HTTPException(status_code=401, detail="bad signature")
    try:
        event = json.loads(raw)
        event_id = event["id"]
        event_type = event["type"]
    except (ValueError, KeyError):
        raise HTTPException(status_code=400, detail="malformed payload") from None
    async with Session() as session:
        claim = await session.execute(
            text(
                "INSERT INTO webhook_events (event_id, provider, event_type, payload) "
                "VALUES (:id, 'sesmetric', :type, CAST(:payload AS JSONB)) "
                "ON CONFLICT (event_id) DO NOTHING RETURNING event_id"
            ),
            {"id": event_id, "type": event_type, "payload": raw.decode()},
        )
        if claim.first() is None:
            return {"status": "duplicate"}
        try:
            await handle_event(session, event)
            await session.execute(
                text("UPDATE webhook_events SET processed_at = now() WHERE event_id = :id"),
                {"id": event_id},
            )
            await session.commit()
        except Exception as exc:
            await session.rollback()
            await record_failure(event_id, exc)
            raise HTTPException(status_code=500, detail="processing failed") from exc
    return {"status": "ok"}


async def handle_event(session: AsyncSession, event: dict[str, Any]) -> None:
    del session, event


async def record_failure(event_id: str, exc: Exception) -> None:
    del event_id, exc


if __name__ == "__main__":
    uvicorn.run(
        app,
        port=int(sys.argv[1]),
        loop="uvloop",
        http="httptools",
        access_log=False,
        log_level="warning",
    )
