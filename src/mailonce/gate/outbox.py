"""The outbox: effects outside the database, queued in the app's own transaction.

A worker leases what is due of the topics that it has handlers for, calls the handler with the
effect's own stable key, and records that it is done, under the token of its lease. A crash between
the two repeats the call, never the key: the called service must recognise a repeat by it.
"""

import asyncio
import concurrent.futures
import logging
import time
from collections.abc import Awaitable, Callable, Mapping
from inspect import (
    isasyncgenfunction,
    isawaitable,
    iscoroutinefunction,
    isgeneratorfunction,
    unwrap,
)
from typing import ClassVar, Generic, TypeVar

from mailonce.errors import ConfigError, UnavailableError
from mailonce.gate.async_gate import AsyncDriver
from mailonce.gate.base import demand_store, is_async
from mailonce.gate.effect_result import GENERATOR, see_end
from mailonce.gate.flows.outbox import (
    OVERDUE_S,
    REQUEST,
    BusyError,
    GiveUpError,
    OutboxFlows,
    Pace,
)
from mailonce.gate.gate import Driver
from mailonce.gate.rules.owed_send import SEND
from mailonce.gate.sql.outbox import OUTBOX, OutboxSql, Owed
from mailonce.gate.store_contract import AnyStore, AsyncStore, Store

__all__ = ["REQUEST", "AsyncOutbox", "GiveUpError", "Outbox", "Owed", "Pace"]

Handle = TypeVar("Handle")
Effect = Callable[[Owed], object]
AsyncEffect = Callable[[Owed], Awaitable[object]]


S = TypeVar("S", bound=AnyStore)
E = TypeVar("E")
# What an async handler gives, and what that gives once more.
AWAITED_MAX = 2
log = logging.getLogger("mailonce.gate")


class BaseOutbox(Generic[S, E]):
    """An outbox's store, its flows, and the handlers by topic.

    Raises: ConfigError where store or handler is of the other kind: one awaits, the other does not.
    """

    awaits: ClassVar[bool]

    def __init__(
        self,
        store: S,
        handlers: Mapping[str, E],
        *,
        pace: Pace | None = None,
        table: str = OUTBOX,
    ) -> None:
        name, kind = type(self).__name__, "an async" if self.awaits else "a blocking"
        demand_store(store, written=f"{name}({{}}, …)", awaits=self.awaits)
        if iscoroutinefunction(getattr(store, "begin", None)) is not self.awaits:
            raise ConfigError(f"{name} cannot use {type(store).__name__}; give it {kind} store")
        if not isinstance(handlers, Mapping):
            raise ConfigError('handlers go by topic; give a dict: `{"receipt": send_receipt}`')
        for topic, handler in handlers.items():
            if not callable(handler):
                kind_of = type(handler).__name__
                raise ConfigError(f"the handler of {topic!r} is a {kind_of}; give a function")
            if isgeneratorfunction(unwrap(handler)) or isasyncgenfunction(unwrap(handler)):
                raise ConfigError(GENERATOR.format(topic=topic))
            # What is no coroutine function may still give something to await.
            if is_async(handler) and not self.awaits:
                raise ConfigError(f"{name} cannot await the handler of {topic!r}; use AsyncOutbox")
            if self.awaits and not (is_async(handler) or is_async(unwrap(handler))):
                raise ConfigError(
                    f"the handler of {topic!r} is not async; write `async def`, or use Outbox"
                )
        self.ways = OutboxFlows(OutboxSql(store.sql.dialect, table), pace or Pace())
        self._store = store
        self._handlers = dict(handlers)
        self._topics_in_log: set[str] = set()
        self._next_look = 0.0

    def _may_look(self) -> bool:
        """Say whether it is time to look for topics that nobody handles."""
        now = time.monotonic()
        if now < self._next_look:
            return False
        self._next_look = now + OVERDUE_S
        return True

    def _tell(self, topics: list[str]) -> None:
        """Log once what this worker leaves, in case that no other one handles it."""
        kind = "Async" if self.awaits else ""
        for topic in topics:
            remedy = f"name it: {kind}Outbox(store, {{{topic!r}: function}})"
            if topic == SEND:
                remedy = f"use {kind}SendOutbox(store, client)"
            log.warning(
                "effects of the topic %r are due for more than %g s, and this worker has no "
                "handler for it; where no other has one, %s",
                topic, OVERDUE_S, remedy,
            )  # fmt: skip
        self._topics_in_log.update(topics)

    def _log(self, owed: Owed, failure: Exception | None) -> None:
        """Log a failure; that another worker has the same key is none."""
        if failure is not None and not isinstance(failure, BusyError):
            log.warning("%s", self.ways.note(owed, failure))


class Outbox(BaseOutbox[Store[Handle], Effect], Generic[Handle]):
    """The worker for code that blocks; `handlers` are called by topic."""

    awaits = False

    def drain(self) -> int:
        """Do what is due and has a handler, one after the other; say how many took effect.

        What failed is logged, and due again later or given up. Each is leased when its turn comes.
        One whose lease was half over before it could start (a paused process) is not started, but
        due again when the lease ends.

        Raises: UnavailableError where the store cannot be asked; what was leased is due again
        when its lease ends.
        """
        done = 0
        for _ in range(self.ways.pace.rows_max):
            since = time.monotonic()
            owed = Driver(self._store).drive(self.ways.lease(self._handlers))
            if owed is None:
                self._look()
                break
            if self.ways.may_start(waited_s=time.monotonic() - since):
                failure = self._try(owed)
                self._log(owed, failure)
                is_settled = Driver(self._store).drive(self.ways.settle(owed, failure))
                done += is_settled and failure is None
        return done

    def counts(self) -> dict[str, int]:
        """Count what is due, done and dead."""
        return Driver(self._store).drive(self.ways.count())

    def revive(self, *, rows_max: int = 100) -> int:
        """Make what was given up due again."""
        return Driver(self._store).drive(self.ways.revive(rows_max=rows_max))

    def prune(self, *, rows_max: int = 1000) -> int:
        """Forget what was done before the window."""
        return Driver(self._store).drive(self.ways.prune(rows_max=rows_max))

    def _look(self) -> None:
        if self._may_look():
            flow = self.ways.overdue(self._handlers.keys() | self._topics_in_log)
            self._tell(Driver(self._store).drive(flow))

    def _try(self, owed: Owed) -> Exception | None:
        try:
            result = self._handlers[owed.topic](owed)
            see_end(result, owed.topic, wait_s=self.ways.pace.lease_s / 2)
        except Exception as error:  # noqa: BLE001 - the outermost loop around the app's own code
            return error
        return None


class AsyncOutbox(BaseOutbox[AsyncStore[Handle], AsyncEffect], Generic[Handle]):
    """The same, awaited; an effect is stopped half a lease after it began."""

    awaits = True

    async def drain(self) -> int:
        """Do what is due and has a handler, one after the other; say how many took effect.

        What failed is logged, and due again later or given up. Each is leased when its turn comes.
        One whose lease was half over before it could start (a paused process) is not started, but
        due again when the lease ends.

        Raises: UnavailableError where the store cannot be asked; what was leased is due again
        when its lease ends.
        """
        done = 0
        for _ in range(self.ways.pace.rows_max):
            since = time.monotonic()
            owed = await AsyncDriver(self._store).drive(self.ways.lease(self._handlers))
            if owed is None:
                await self._look()
                break
            if self.ways.may_start(waited_s=time.monotonic() - since):
                failure = await self._try(owed)
                self._log(owed, failure)
                is_settled = await AsyncDriver(self._store).drive(self.ways.settle(owed, failure))
                done += is_settled and failure is None
        return done

    async def counts(self) -> dict[str, int]:
        """Count what is due, done and dead."""
        return await AsyncDriver(self._store).drive(self.ways.count())

    async def revive(self, *, rows_max: int = 100) -> int:
        """Make what was given up due again."""
        return await AsyncDriver(self._store).drive(self.ways.revive(rows_max=rows_max))

    async def prune(self, *, rows_max: int = 1000) -> int:
        """Forget what was done before the window."""
        return await AsyncDriver(self._store).drive(self.ways.prune(rows_max=rows_max))

    async def _look(self) -> None:
        if self._may_look():
            flow = self.ways.overdue(self._handlers.keys() | self._topics_in_log)
            self._tell(await AsyncDriver(self._store).drive(flow))

    async def _try(self, owed: Owed) -> Exception | None:
        try:
            async with asyncio.timeout(self.ways.pace.lease_s / 2):
                result: object = self._handlers[owed.topic](owed)
                # A wrapper may look async and not be: its effect is done, and not to be done again.
                # A handler that forgot an `await` gives what it should have awaited.
                for _ in range(AWAITED_MAX):
                    if isinstance(result, concurrent.futures.Future):
                        result = asyncio.wrap_future(result)
                    if not isawaitable(result):
                        break
                    result = await result
                see_end(result, owed.topic, wait_s=0)
        except asyncio.CancelledError:
            task = asyncio.current_task()
            if task is None or task.cancelling():
                raise
            # What the handler awaited was cancelled, and not this worker.
            return UnavailableError(f"the effect {owed.topic!r} was cancelled by itself")
        except Exception as error:  # noqa: BLE001 - the outermost loop around the app's own code
            return error
        return None
