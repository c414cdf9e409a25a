"""Transactions for handlers on PostgreSQL, beside the event loop.

A handler is the user's code and may block. So it runs on a thread that has a loop and a
connection of its own: what it keeps waiting is that thread, never the door.
"""

import asyncio
import contextlib
import time
from collections.abc import Callable
from typing import TypeVar

from sqlalchemy import Connection, text
from sqlalchemy.ext.asyncio import AsyncEngine

from mailonce.store.dialects.contract import Priority, SlowError
from mailonce.store.dialects.handler_guard import HandlerGuard, run_guarded
from mailonce.store.dialects.postgres.handler_connection import HandlerConnection
from mailonce.store.dialects.postgres.session import PostgresServer
from mailonce.store.dialects.writer_thread import Writer

T = TypeVar("T")

THREADS = 4
CLOSE_TIMEOUT_S = 5
SESSION = {"application_name": "mailonce handlers", "jit": "off"}
# A statement that runs, a lock that is waited for, and Python that does not come back: the server
# ends each, so that a handler that hangs holds no row for longer than its limit.
LIMITS = text(
    "SELECT set_config('statement_timeout', :ms, true), set_config('lock_timeout', :ms, true), "
    "set_config('idle_in_transaction_session_timeout', :ms, true)"
)


class HandlerThreads:
    """A few threads; whoever comes when all are busy waits for one."""

    def __init__(self, server: PostgresServer) -> None:
        self._server = server
        self._threads: list[_Thread] = []
        self._free: asyncio.LifoQueue[_Thread] = asyncio.LifoQueue()

    async def run(self, work: Callable[[Connection], T], *, limit_s: float) -> T:
        """Run `work` in a transaction of its own; see `Database.run_handler`."""
        if self._free.empty() and len(self._threads) < THREADS:
            made = _Thread(self._server)
            self._threads.append(made)
            self._free.put_nowait(made)
        thread = await self._free.get()
        running = asyncio.ensure_future(thread.run(work, limit_s))
        # Also where nobody waits any more: the thread is busy until the work ends.
        running.add_done_callback(lambda _: self._free.put_nowait(thread))
        return await asyncio.shield(running)

    async def close(self) -> None:
        """Wait for those that end soon; a thread that hangs is left behind."""
        for thread in self._threads:
            with contextlib.suppress(TimeoutError):
                await asyncio.wait_for(thread.close(), CLOSE_TIMEOUT_S)


class _Thread:
    def __init__(self, server: PostgresServer) -> None:
        self._server = server
        self._writer = Writer()
        self._runner: asyncio.Runner | None = None
        self._engine: AsyncEngine | None = None

    async def run(self, work: Callable[[Connection], T], limit_s: float) -> T:
        return await self._writer.run(Priority.API, lambda: self._work(work, limit_s))

    async def close(self) -> None:
        await self._writer.run(Priority.API, self._let_go)
        await self._writer.close()

    def _work(self, work: Callable[[Connection], T], limit_s: float) -> T:
        if self._runner is None:
            # Made here, because a connection belongs to the loop of its thread.
            self._runner = asyncio.Runner()
            self._engine = self._server.engine(
                SESSION, connection_class=HandlerConnection, pool_size=1, max_overflow=0
            )
        return self._runner.run(self._transact(work, limit_s))

    async def _transact(self, work: Callable[[Connection], T], limit_s: float) -> T:
        assert self._engine is not None, "the engine is made with the loop"

        def limited(guard: HandlerGuard, tx: Connection) -> T:
            ends = time.monotonic() + limit_s
            result = run_guarded(guard, work, tx)
            if time.monotonic() > ends:
                raise SlowError(f"it took longer than {limit_s:g} s")
            return result

        async with self._engine.connect() as connection:
            driver = (await connection.get_raw_connection()).driver_connection
            assert isinstance(driver, HandlerConnection), "the engine opens these alone"
            try:
                async with connection.begin():
                    # The first statement, with which the driver begins the transaction.
                    await connection.execute(LIMITS, {"ms": str(int(limit_s * 1000))})
                    async with driver.guarded() as guard:
                        return await connection.run_sync(lambda tx: limited(guard, tx))
            finally:
                if driver.is_spent:
                    # The pool opens another one.
                    driver.terminate()

    def _let_go(self) -> None:
        if self._runner is not None and self._engine is not None:
            self._runner.run(self._engine.dispose())
            self._runner.close()
