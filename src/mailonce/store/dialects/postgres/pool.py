"""The connections that record, lease and finish: lent, kept at hand, and dropped when no good.

A statement that was interrupted (a deadline, a caller who left) is cancelled on the server behind
the caller's back: nobody waits for a server that may not answer. Connections to a server that
turned read-only are all dropped, so that the next ones find the primary.
"""

import asyncio
import contextlib
from collections.abc import AsyncIterator, Callable
from typing import Any

import asyncpg

from mailonce.store.dialects.contract import (
    LockedError,
    OutcomeUnknownError,
)
from mailonce.store.dialects.postgres.errors import (
    UNREACHABLE,
    refused_start,
    translated,
    unreachable,
)
from mailonce.store.dialects.postgres.session import (
    COMMAND_TIMEOUT_S,
    SESSION,
    PostgresServer,
    local,
)
from mailonce.store.dialects.postgres.url import CONNECT_TIMEOUT_S

LOCK_TRIES = 25
LOCK_RETRY_S = 0.2
# What `SESSION` gives each statement.
STATEMENT_S = 2
DDL_LOCK = "200ms"
DDL_TIMEOUT = "30s"
CANCEL_TIMEOUT_S = 5
CLOSE_TIMEOUT_S = 3
# A worker leases, finishes and looks around beside the flushers; cancelled ones take their time.
BESIDE_FLUSHERS = 7
# One that leases and one that finishes.
BESIDE_KEPT = 2

_RESET = "RESET lock_timeout; RESET statement_timeout"
_INTERRUPTED = (asyncio.TimeoutError, asyncio.CancelledError)


class PostgresConnections:
    """A pool, and beside it those that stay at hand: a pool takes its time to lend."""

    def __init__(self, server: PostgresServer, pool: Any, *, kept_max: int) -> None:
        self._server = server
        self._pool = pool
        self._kept: list[Any] = []
        self._kept_max = kept_max
        self._closing: set[asyncio.Task[None]] = set()
        self._begin = "; ".join(local(SESSION))

    @classmethod
    async def open(cls, server: PostgresServer, *, flushers: int) -> "PostgresConnections":
        """Connect.

        Raises: UnavailableError or ConfigError, in one sentence with what to do.
        """
        try:
            pool = await server.open_pool(SESSION, max_size=flushers + BESIDE_FLUSHERS)
        except (*UNREACHABLE, asyncpg.PostgresError) as error:
            raise refused_start(server.url, error) from error
        return cls(server, pool, kept_max=flushers + BESIDE_KEPT)

    @contextlib.asynccontextmanager
    async def keep(self, *, lock_timeout: str | None = None) -> AsyncIterator[Any]:
        """Lend a connection for one batch, and keep it at hand unless something went wrong."""
        connection = None
        while connection is None and self._kept:
            connection = self._kept.pop()
            if has_ended(connection):
                await self._pool.release(connection)
                connection = None
        if connection is None:
            connection = await self._pool.acquire(timeout=CONNECT_TIMEOUT_S)
        try:
            if lock_timeout is None and not self._server.is_pooled:
                yield connection
            else:
                async with self._limited(connection, lock_timeout):
                    yield connection
            check_replicated(connection)
        except BaseException as error:
            await self._release_after(error, connection)
            raise
        if len(self._kept) < self._kept_max:
            self._kept.append(connection)
        else:
            await self._pool.release(connection)

    @contextlib.asynccontextmanager
    async def given_time(self, connection: Any, more_s: int) -> AsyncIterator[float | None]:
        """Give the next statement more time than others have; None: no more than them.

        The server must end it before we hang up, so that its outcome is known.
        """
        if not more_s:
            yield None
            return
        how = "SET LOCAL" if self._server.is_pooled else "SET"
        await connection.execute(f"{how} statement_timeout = '{STATEMENT_S + more_s}s'")
        try:
            yield COMMAND_TIMEOUT_S + more_s
        except _INTERRUPTED:
            raise
        except BaseException:
            await self._reset_time(connection)
            raise
        await self._reset_time(connection)

    async def _reset_time(self, connection: Any) -> None:
        # In a pooler's transaction it ends with that.
        if not self._server.is_pooled:
            await connection.execute("RESET statement_timeout")

    async def run(self, work: Callable[[Any], Any], *, bare: bool = False) -> Any:
        """Run `work` on a connection; `bare`: what cannot run inside a transaction.

        Raises: UnavailableError, and OutcomeUnknownError where the outcome is unknown.
        """
        try:
            connection = await self._pool.acquire(timeout=CONNECT_TIMEOUT_S)
            try:
                if bare or not self._server.is_pooled:
                    result = await work(connection)
                else:
                    async with self._limited(connection, None):
                        result = await work(connection)
                check_replicated(connection)
            except BaseException as error:
                await self._release_after(error, connection)
                raise
            await self._pool.release(connection)
        except asyncpg.PostgresError as error:
            raise translated(error) from error
        except UNREACHABLE as error:
            raise unreachable(error) from error
        return result

    async def run_often(self, work: Callable[[Any], Any]) -> Any:
        """Run `work`, one statement that runs many times a second, on a connection kept at hand.

        Raises: as `run` does.
        """
        try:
            async with self.keep() as connection:
                return await work(connection)
        except asyncpg.PostgresError as error:
            raise translated(error) from error
        except UNREACHABLE as error:
            raise unreachable(error) from error

    async def patiently(self, work: Callable[[Any], Any], *, bare: bool = False) -> Any:
        """Try DDL with a short lock timeout again and again: no INSERT may queue behind it."""

        async def attempt(connection: Any) -> Any:
            if self._server.is_pooled:
                if not bare:
                    await connection.execute(_limits("SET LOCAL"))
                return await work(connection)
            await connection.execute(_limits("SET"))
            try:
                result = await work(connection)
            except _INTERRUPTED:
                raise
            except BaseException:
                await connection.execute(_RESET)
                raise
            await connection.execute(_RESET)
            return result

        for _ in range(LOCK_TRIES - 1):
            with contextlib.suppress(LockedError):
                return await self.run(attempt, bare=bare)
            await asyncio.sleep(LOCK_RETRY_S)
        return await self.run(attempt, bare=bare)

    async def drop(self) -> None:
        """Let every connection go: the next ones are made anew."""
        while self._kept:
            self._let_go(self._kept.pop())
        await self._pool.expire_connections()

    async def close(self) -> None:
        """Close every connection, politely at first."""
        while self._kept:
            await self._pool.release(self._kept.pop())
        try:
            await asyncio.wait_for(self._pool.close(), CLOSE_TIMEOUT_S)
        except UNREACHABLE:
            self._pool.terminate()
        for task in self._closing:
            task.cancel()

    @contextlib.asynccontextmanager
    async def _limited(self, connection: Any, lock_timeout: str | None) -> AsyncIterator[None]:
        if self._server.is_pooled:
            async with connection.transaction():
                await connection.execute(self._begin)
                if lock_timeout:
                    await connection.execute(f"SET LOCAL lock_timeout = '{lock_timeout}'")
                yield
            return
        assert lock_timeout is not None, "without a pooler the session has its limits already"
        await connection.execute(f"SET lock_timeout = '{lock_timeout}'")
        try:
            yield
        except _INTERRUPTED:
            # It is closed anyway, and may not answer.
            raise
        except BaseException:
            await connection.execute("RESET lock_timeout")
            raise
        await connection.execute("RESET lock_timeout")

    async def _release_after(self, error: BaseException, connection: Any) -> None:
        """Give a connection back after an error, or let it go where it is no good any more."""
        if isinstance(error, _INTERRUPTED):
            self._let_go(connection)
            return
        if isinstance(error, asyncpg.ReadOnlySQLTransactionError | OutcomeUnknownError):
            connection.terminate()
        await self._pool.release(connection)
        if isinstance(error, asyncpg.ReadOnlySQLTransactionError):
            await self.drop()

    def _let_go(self, connection: Any) -> None:
        """Cancel what runs and close, while nobody waits for it."""
        task = asyncio.create_task(self._close(connection))
        self._closing.add(task)
        task.add_done_callback(self._closing.discard)

    async def _close(self, connection: Any) -> None:
        with contextlib.suppress(asyncpg.PostgresError, *UNREACHABLE):
            await connection.close(timeout=CANCEL_TIMEOUT_S)
        await self._pool.release(connection)


def has_ended(connection: Any) -> bool:
    """Say whether a connection broke; asyncpg has taken it from us by then, and says so."""
    try:
        return bool(connection.is_closed())
    except asyncpg.InterfaceError:
        return True


def check_replicated(connection: Any) -> None:
    """See that what was committed is also where `synchronous_commit` wants it.

    Raises: OutcomeUnknownError where it is not known; run the same again.
    """
    if connection.is_unreplicated:
        raise OutcomeUnknownError("a standby did not confirm the commit; try again")


def _limits(how: str) -> str:
    return f"{how} lock_timeout = '{DDL_LOCK}'; {how} statement_timeout = '{DDL_TIMEOUT}'"
