"""Connections to PostgreSQL: their limits, their keepalive, and poolers in between.

Limits are settings of the session. A pooler in transaction mode (PgBouncer) gives each transaction
another session, so there they are set for each transaction, statements are not prepared under a
name, and nobody listens: wake-ups then come from the look each second. Such a pooler is noticed
by what it does with our settings: it refuses them at the start or drops them in silence.
"""

import math
import socket
import time
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import asyncpg
from sqlalchemy import Connection, event, exc
from sqlalchemy.engine.interfaces import DBAPIConnection
from sqlalchemy.ext.asyncio import AsyncEngine, create_async_engine
from sqlalchemy.pool import ConnectionPoolEntry, PoolProxiedConnection

from mailonce.store.dialects.postgres.errors import UNREACHABLE, refused_start
from mailonce.store.dialects.postgres.url import CONNECT_TIMEOUT_S, read_url

# Longer than any statement may run: a silent server is dead by then, or waits for a standby.
COMMAND_TIMEOUT_S = 4
CORE_TIMEOUT_S = 10
# Notice a peer that vanished: keepalive probes after this long, and unanswered bytes.
KEEPALIVE_IDLE_S = 10
KEEPALIVE_EVERY_S = 3
KEEPALIVE_PROBES = 3
UNANSWERED_MS = 10_000
# Whoever answered so lately is not asked whether it is still there.
PING_IDLE_S = 1.0
_USED_S = "mailonce used"

SESSION = {
    "application_name": "mailonce",
    "lock_timeout": "500ms",
    "statement_timeout": "2s",
    "idle_in_transaction_session_timeout": "5s",
    "jit": "off",
    "plan_cache_mode": "force_generic_plan",
    # A plan made while a table was empty must not scan it when it is full.
    "enable_seqscan": "off",
    "enable_mergejoin": "off",
    "enable_hashjoin": "off",
}
READ_SESSION = {
    "application_name": "mailonce",
    "lock_timeout": "500ms",
    "statement_timeout": "5s",
    "idle_in_transaction_session_timeout": "5s",
    "jit": "off",
}
# A commit that is not flushed is not durable, whatever the database or the role was set to. All
# other values are the operator's choice and stay.
DURABLE = (
    "SELECT set_config('synchronous_commit', 'on', {local}) "
    "WHERE current_setting('synchronous_commit') = 'off'"
)
_UNSUPPORTED = "08P01"


class PostgresConnection(asyncpg.Connection):  # type: ignore[misc]
    """A connection that knows whether a standby may lack what it committed."""

    __slots__ = ("is_unreplicated",)

    def __init__(self, protocol: Any, transport: Any, *more: Any) -> None:
        super().__init__(protocol, transport, *more)
        self.is_unreplicated = False
        _watch(transport)

    def _process_log_message(self, fields: Mapping[str, str], last_query: str) -> None:
        # The wait for a synchronous standby was cut short: the transaction stands here, perhaps
        # not there, and the server calls that a success with a warning. The routine's name is the
        # one part of it that is not translated.
        if fields.get("R") == "SyncRepWaitForLSN":
            self.is_unreplicated = True
        super()._process_log_message(fields, last_query)


@dataclass(frozen=True, slots=True)
class PostgresServer:
    """Where the database is, and whether a pooler stands in front of it."""

    url: str
    is_pooled: bool = False
    connect_timeout_s: float = CONNECT_TIMEOUT_S

    @classmethod
    async def find(cls, url: str) -> "PostgresServer":
        """Connect once and see what is there.

        Raises: UnavailableError or ConfigError, in one sentence with what to do.
        """
        given = read_url(url)
        url, timeout_s = given.dsn, given.connect_timeout_s
        direct = cls(url, connect_timeout_s=timeout_s)
        pooled = cls(url, is_pooled=True, connect_timeout_s=timeout_s)
        try:
            connection = await direct.connect(SESSION)
        except asyncpg.ProtocolViolationError as error:
            if error.sqlstate != _UNSUPPORTED:
                raise refused_start(url, error) from error
            return pooled
        except (*UNREACHABLE, asyncpg.PostgresError, ValueError) as error:
            raise refused_start(url, error) from error
        try:
            # The simple protocol, which needs no statement to outlive its transaction.
            await connection.execute(
                "DO $$BEGIN ASSERT current_setting('lock_timeout') = '500ms'; END$$"
            )
        except asyncpg.AssertError:
            return pooled
        except (*UNREACHABLE, asyncpg.PostgresError) as error:
            raise refused_start(url, error) from error
        finally:
            connection.terminate()
        return direct

    async def connect(self, settings: Mapping[str, str], **more: Any) -> Any:
        return await asyncpg.connect(**self._arguments(settings), **more)

    async def open_pool(self, settings: Mapping[str, str], *, max_size: int) -> Any:
        """Make a pool of connections.

        Raises: what asyncpg raises.
        """
        return await asyncpg.create_pool(
            **self._arguments(settings),
            min_size=1,
            max_size=max_size,
            command_timeout=COMMAND_TIMEOUT_S,
            reset=_leave_as_is,
            init=None if self.is_pooled else _make_durable,
        )

    def engine(
        self,
        settings: Mapping[str, str],
        *,
        timeout_s: float | None = None,
        connection_class: type[PostgresConnection] = PostgresConnection,
        **more: Any,
    ) -> AsyncEngine:
        """Make an engine for what is not in a hurry; `timeout_s` bounds a statement, if given."""
        arguments = {
            **self._arguments(settings),
            "command_timeout": timeout_s,
            "connection_class": connection_class,
        }

        async def connect(**given: Any) -> Any:
            del given
            return await asyncpg.connect(**arguments)

        named: dict[str, Any] = {"async_creator_fn": connect}
        if self.is_pooled:
            named |= {
                "prepared_statement_cache_size": 0,
                "prepared_statement_name_func": lambda: "",
            }
        engine = create_async_engine(
            "postgresql+asyncpg://",
            hide_parameters=True,
            connect_args=named,
            **more,
        )
        _ping_when_idle(engine)
        if self.is_pooled:
            begin = local(settings)

            @event.listens_for(engine.sync_engine, "begin")
            def _(connection: Connection) -> None:
                for statement in begin:
                    connection.exec_driver_sql(statement)

        return engine

    def _arguments(self, settings: Mapping[str, str]) -> dict[str, Any]:
        pooled = {"statement_cache_size": 0, "server_settings": {"application_name": "mailonce"}}
        return {
            "dsn": self.url,
            "timeout": self.connect_timeout_s,
            "connection_class": PostgresConnection,
            **(pooled if self.is_pooled else {"server_settings": dict(settings)}),
        }


def _ping_when_idle(engine: AsyncEngine) -> None:
    """See that a connection still answers before it is lent, where it was not used for a while.

    SQLAlchemy's own way (`pool_pre_ping`) takes three round trips each time, as many as most reads.
    A connection that the server closed is known at once: asyncpg has heard of it.
    """
    core = engine.sync_engine

    @event.listens_for(core, "checkin")
    def note_use(_: DBAPIConnection | None, record: ConnectionPoolEntry) -> None:
        record.info[_USED_S] = time.monotonic()

    @event.listens_for(core, "checkout")
    def look(lent: DBAPIConnection, record: ConnectionPoolEntry, _: PoolProxiedConnection) -> None:
        driver: Any = record.driver_connection
        if driver.is_closed():
            raise exc.InvalidatePoolError
        if time.monotonic() - record.info.get(_USED_S, math.inf) <= PING_IDLE_S:
            return
        try:
            core.dialect.do_ping(lent)
        except (core.dialect.loaded_dbapi.Error, *UNREACHABLE) as error:
            raise exc.InvalidatePoolError from error


def local(settings: Mapping[str, str]) -> list[str]:
    """Give the statements that set the limits of one transaction."""
    names = (name for name in settings if name != "application_name")
    return [
        *(f"SET LOCAL {name} = '{settings[name]}'" for name in names),
        DURABLE.format(local="true"),
    ]


async def _make_durable(connection: Any) -> None:
    await connection.execute(DURABLE.format(local="false"))


async def _leave_as_is(connection: Any) -> None:
    """Save the round trip of a reset: whoever changes a session here also changes it back."""
    del connection


def _watch(transport: Any) -> None:
    """Let the kernel notice that the other side is gone."""
    opened = transport.get_extra_info("socket")
    if opened is None or opened.family not in {socket.AF_INET, socket.AF_INET6}:
        return
    opened.setsockopt(socket.SOL_SOCKET, socket.SO_KEEPALIVE, 1)
    options = {
        "TCP_KEEPIDLE": KEEPALIVE_IDLE_S,
        "TCP_KEEPINTVL": KEEPALIVE_EVERY_S,
        "TCP_KEEPCNT": KEEPALIVE_PROBES,
        "TCP_USER_TIMEOUT": UNANSWERED_MS,
    }
    for name, value in options.items():
        # Not every system has all of them.
        if (number := getattr(socket, name, None)) is not None:
            opened.setsockopt(socket.IPPROTO_TCP, number, value)
