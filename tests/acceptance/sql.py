"""Reach behind the server's back: read and break its database."""

import asyncio
import sqlite3
import threading
from collections.abc import Iterator
from contextlib import closing, contextmanager
from typing import Any

import asyncpg


def query(url: str, statement: str) -> list[tuple[Any, ...]]:
    """Run one statement on either database, committed."""
    if url.startswith("sqlite"):
        with closing(sqlite3.connect(url.removeprefix("sqlite:///"), timeout=60)) as connection:
            rows = connection.execute(statement).fetchall()
            connection.commit()
            return rows

    async def run() -> list[tuple[Any, ...]]:
        connection = await asyncpg.connect(url)
        try:
            return [tuple(row) for row in await connection.fetch(statement)]
        finally:
            await connection.close()

    found: list[tuple[Any, ...]] = _aside(run())
    return found


@contextmanager
def broken_facts(url: str) -> Iterator[None]:
    """Make every recording fail in its middle: the table that it joins facts into is gone."""
    query(url, "ALTER TABLE facts RENAME TO facts_hidden")
    try:
        yield
    finally:
        query(url, "ALTER TABLE facts_hidden RENAME TO facts")


@contextmanager
def held(url: str, statement: str) -> Iterator[None]:
    """Keep a PostgreSQL transaction open after one statement, as a paused process does."""
    begun, done = threading.Event(), threading.Event()

    async def hold() -> None:
        connection = await asyncpg.connect(url)
        try:
            transaction = connection.transaction()
            await transaction.start()
            await connection.fetch(statement)
            begun.set()
            await asyncio.to_thread(done.wait)
            await transaction.rollback()
        finally:
            await connection.close()

    thread = threading.Thread(target=lambda: asyncio.run(hold()))
    thread.start()
    try:
        assert begun.wait(60), "the statement did not run"
        yield
    finally:
        done.set()
        thread.join()


def _aside(work: Any) -> Any:
    """Run a coroutine from a test, whether or not the test runs in a loop of its own."""
    result: list[Any] = []
    thread = threading.Thread(target=lambda: result.append(asyncio.run(work)))
    thread.start()
    thread.join()
    assert result, "the statement failed; see above"
    return result[0]
