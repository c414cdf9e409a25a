"""The gate for async code: ASGI apps, asyncio workers."""

import asyncio
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager
from contextvars import ContextVar
from functools import cached_property
from typing import Any, Generic, TypeVar

from mailonce.errors import ConfigError, LeaseLostError, UnavailableError
from mailonce.gate.base import BaseDriver, BaseGate, BasePassage, GateCore
from mailonce.gate.flows.outbox import finished, read_request
from mailonce.gate.flows.passage import Begin, Commit, CommitWith, Flow, Rollback, opening, undoing
from mailonce.gate.rules.answer import Answer
from mailonce.gate.rules.arity import demand_arguments
from mailonce.gate.rules.decision import Claim, First
from mailonce.gate.rules.http import Request, Response, checked, demand_awaitable
from mailonce.gate.rules.keys import MISSING
from mailonce.gate.sql.commit_guard import NOT_AWAITED, NOT_ENDED, NOT_NEEDED, misuse
from mailonce.gate.sql.outbox import Owed
from mailonce.gate.sql.statements import Row, Statement
from mailonce.gate.store_contract import AsyncStore, AsyncTransaction
from mailonce.gate.unawaited_calls import UnawaitedCall, awaited, notice_unawaited, noting_calls

# What a handler must leave to the gate, awaited or not.
_ENDS = ("close", "commit", "rollback")
Handle = TypeVar("Handle")
T = TypeVar("T")


class AsyncGate(BaseGate[AsyncStore[Handle]], Generic[Handle]):
    """The awaited gate; `BaseGate` says what it does."""

    awaits = True

    async def run(
        self, request: Request, work: Callable[["AsyncPassage[Handle]"], Awaitable[Response]]
    ) -> Answer:
        """Run `work` if this is the first copy; answer in any case.

        What `work` raises is raised again, after everything was undone or the lease let go.
        """
        return await self._run(self.rules.read(request), work)

    async def enter(self, request: Request) -> "AsyncPassage[Handle] | Answer":
        """Claim the request's key. A caller that gets a passage must finish or abandon it."""
        return await self._enter(self.rules.read(request))

    async def defer(self, request: Request) -> Answer:
        """Promise to finish the request later, in a worker; answer at once with 202.

        Invariant: the claim and the owed work commit together. The answer says `X-Mailonce-Gate:
        processing`, so that the sender retries; then it gets the response that the worker recorded.
        """
        claim = self.rules.read(request)
        if isinstance(claim, Answer):
            return claim
        if claim is None:
            return self.rules.answer(MISSING)
        flow = self.rules.ways.defer(claim, self.rules.owe(claim, request))
        try:
            return self.rules.deferred(await AsyncDriver(self.store).drive(flow))
        except UnavailableError as error:
            return self.rules.unavailable(error)

    def finisher(
        self, work: Callable[["AsyncPassage[Handle]", Request], Awaitable[Response]]
    ) -> Callable[[Owed], Awaitable[Answer]]:
        """Make the outbox's handler for deferred requests: `{REQUEST: gate.finisher(work)}`.

        Raises: ConfigError where `work` does not take (passage, request).
        """
        demand_arguments(work, "work", "passage", "request")

        async def finish(owed: Owed) -> Answer:
            claim, request = read_request(owed.body)
            return finished(await self._run(claim, lambda passage: work(passage, request)))

        return finish

    async def check(self) -> None:
        """See at the start that the tables are there and can be read.

        Raises: UnavailableError that says what is missing, and how to make it.
        """
        await AsyncDriver(self.store).drive(self.rules.ways.check())

    async def prune(self, *, rows_max: int = 1000) -> int:
        """Forget up to `rows_max` records whose window has ended; say how many.

        Raises: UnavailableError.
        """
        return await AsyncDriver(self.store).drive(self.rules.ways.prune(rows_max=rows_max))

    async def _run(
        self,
        claim: Claim | Answer | None,
        work: Callable[["AsyncPassage[Handle]"], Awaitable[Response]],
    ) -> Answer:
        passage = await self._enter(claim)
        if isinstance(passage, Answer):
            return passage
        try:
            response = await demand_awaitable(work(passage))
        except LeaseLostError:
            return await passage.yield_to_holder()
        except UnavailableError as error:
            await passage.undo()
            return self.rules.unavailable(error)
        except BaseException:
            await passage.abandon()
            raise
        return await passage.finish(response)

    async def _enter(self, claim: Claim | Answer | None) -> "AsyncPassage[Handle] | Answer":
        if isinstance(claim, Answer):
            return claim
        driver = AsyncDriver(self.store)
        try:
            decision = await driver.drive(self.rules.ways.enter(claim))
        except UnavailableError as error:
            return self.rules.unavailable(error)
        if isinstance(decision, First):
            notice_unawaited(note_unawaited)
            return AsyncPassage(self.rules, driver, claim, decision)
        return self.rules.answer(decision)


class AsyncPassage(BasePassage["AsyncDriver[Handle]"], Generic[Handle]):
    """The hold of the first copy on its key, while the app's code runs."""

    def __init__(
        self, rules: GateCore, driver: "AsyncDriver[Handle]", claim: Claim | None, first: First
    ) -> None:
        super().__init__(rules, driver, claim, first)
        # The calls of `owe`, `once` and `phase` that have not ended.
        self.open_calls: list[str] = []
        # The task in which a phase runs.
        self._inside: asyncio.Task[Any] | None = None
        # A handler may use a gate in turn: then this is the passage that it is in itself.
        self._outer = _present()
        _PRESENT.set(self)

    @cached_property
    def _recording(self) -> asyncio.Lock:
        """Let one point be recorded at a time, and one phase run: they share a transaction."""
        return asyncio.Lock()

    @property
    def tx(self) -> Handle:
        """Give the app's connection or session, in the transaction that the claim is part of."""
        return self._driver.transaction.handle

    async def finish(self, response: Response) -> Answer:
        """Record the response with the work, commit, and give what may now be sent.

        Raises: ConfigError where it is no response; then everything is undone.
        """
        try:
            checked(response)
            self._check_fault()
            self._check_ended("owe", "once", "phase")
            self._check_certain()
        except ConfigError:
            await self.abandon()
            raise
        except UnavailableError as error:
            await self.undo()
            return self._rules.unavailable(error)
        self._end()
        try:
            ending = await self._driver.drive(
                self._rules.ways.finish(self.claim, self._first, response)
            )
        except UnavailableError as error:
            return self._rules.unavailable(error)
        return self._rules.conclude(self.claim, ending, response)

    async def abandon(self) -> None:
        """Undo the work, and count it as failed."""
        await self.undo()
        self._rules.fail()

    async def undo(self) -> None:
        """Undo the work, or release the lease: the next copy may try at once.

        Nothing is counted: for a passage that is answered in another way.
        """
        self._end()
        # A task of the handler's may still record a point with the passage's own.
        driver = AsyncDriver(self._driver.store) if self.leased else self._driver
        try:
            await driver.drive(self._rules.ways.abandon(self.claim, self._first))
        except UnavailableError:
            # The lease then ends by itself.
            return

    async def yield_to_holder(self) -> Answer:
        """Answer as the copy that took the lease would be answered."""
        self._end()
        try:
            seen = await self._driver.drive(self._rules.ways.look(self._claimed()))
        except UnavailableError as error:
            return self._rules.unavailable(error)
        return self._rules.answer(seen)

    async def renew(self) -> bool:
        """Renew the lease; False: it was lost, stop working."""
        flow = self._rules.ways.renew(self._claimed(), self._first)
        self.lost = self.lost or not await AsyncDriver(self._driver.store).drive(flow)
        return not self.lost

    @noting_calls
    async def owe(self, topic: str, body: bytes, *, name: str | None = None) -> None:
        """Owe an effect outside the database, in this transaction: an `Outbox` worker does it.

        `name` tells several effects of one topic apart; a second one of a name is refused.

        Raises: UnavailableError.
        """
        name = name or topic
        rows = await self._driver.transaction.execute(self._owing(topic, body, name))
        self._check_owed(name, rows)

    @noting_calls
    async def once(self, name: str, call: Callable[[str], Awaitable[T]]) -> T:
        """Do an outside effect and record its result; where it is recorded already, give that.

        `call` gets the effect's own key, to hand to the outside: a crash between the effect and
        its record repeats the call, and only whoever is called can tell that it is a repeat.
        Its result must be JSON.

        Raises: LeaseLostError where another copy took over, UnavailableError, ConfigError.
        """
        if not self._reach("once", name, call, nested=self._is_inside()):
            try:
                async with self._bounded(name):
                    value = await awaited(call(self.effect_key(name)))
                added, fault = self._written(self._points.of_call, name, value)
            except BaseException:
                self._points.leave(name)
                raise
            async with self._recording:
                self._check_certain()
                with self._recorded(name):
                    await self._driver.drive(opening())
                    await self._keep(name, added)
            if fault is not None:
                raise fault
        known: T = self._points.result(name)
        return known

    @noting_calls
    async def phase(self, name: str, work: Callable[[Handle], Awaitable[T]]) -> T:
        """Change the app's own database and record it, together; recorded already: give that.

        What `work` gives must be JSON.

        Raises: LeaseLostError where another copy took over; then the change is undone. ConfigError.
        """
        if not self._reach("phase", name, work, nested=self._is_inside()):
            try:
                async with self._recording:
                    self._check_certain()
                    await self._change(name, work)
            except BaseException:
                self._points.leave(name)
                raise
        known: T = self._points.result(name)
        return known

    async def _change(self, name: str, work: Callable[[Handle], Awaitable[object]]) -> None:
        await self._driver.drive(opening())
        self._inside = asyncio.current_task()
        try:
            async with self._bounded(name):
                value = await awaited(work(self.tx))
            self._check_fault()
            self._check_ended("owe")
            added = {name: self._written(self._points.of_phase, name, value)}
        except BaseException:
            await self._driver.drive(undoing())
            raise
        finally:
            self._inside = None
        with self._recorded(name):
            await self._keep(name, added)

    def _check_ended(self, *names: str) -> None:
        """Refuse to commit while a call runs, or has not begun: its effect would be left out."""
        for name in self.open_calls:
            if name in names:
                raise misuse(NOT_ENDED.format(name=name))

    def _is_inside(self) -> bool:
        """Say whether the task that asks runs the work of a phase, which it would wait for."""
        return self._inside is not None and self._inside is asyncio.current_task()

    @asynccontextmanager
    async def _bounded(self, name: str) -> AsyncIterator[None]:
        """Stop a recovery point that hangs."""
        point_s = self._rules.policy.point_s
        try:
            async with asyncio.timeout(point_s) as limit:
                yield
        except TimeoutError as error:
            if not limit.expired():
                raise
            raise UnavailableError(
                f"the recovery point {name!r} took longer than `point_s` ({point_s:g} s), and was "
                "stopped; the next copy tries it again"
            ) from error

    def owns(self, called: object) -> bool:
        """Say whether `called` is the connection or session of the open transaction."""
        return self._driver.owns(called)

    def forget(self, name: str, owner: str) -> None:
        """Refuse to finish: what the handler called and did not await would be lost."""
        words = NOT_NEEDED if name in _ENDS else NOT_AWAITED
        self._refuse(words.format(name=name, owner=owner))

    async def _keep(self, name: str, added: dict[str, str]) -> None:
        points = self._points.joined(added)
        held = await self._driver.drive(self._rules.ways.keep(self._claimed(), self._first, points))
        self._held(name, held=held)
        self._points.keep(added)


class AsyncDriver(BaseDriver[AsyncStore[Handle], AsyncTransaction[Handle]], Generic[Handle]):
    async def drive(self, flow: Flow[T]) -> T:
        """Run a flow to its end; on a fault, undo what is open."""
        rows: Any = None
        try:
            while True:
                step = flow.send(rows)
                if isinstance(step, Statement):
                    rows = await self.transaction.execute(step)
                else:
                    rows = await self._do(step)
        except StopIteration as end:
            result: T = end.value
            return result
        except BaseException:
            await self._do(Rollback())
            raise

    def owns(self, called: object) -> bool:
        """Say whether a transaction is open in which a call of `called` works."""
        return self._open is not None and self._open.owns(called)

    async def _do(self, step: Begin | Commit | CommitWith | Rollback) -> list[Row]:
        if isinstance(step, Begin):
            assert self._open is None, "a flow has one transaction at a time"
            self._open = await self.store.begin(write=step.write)
        elif self._open is not None:
            ending, self._open = self._open, None
            if isinstance(step, CommitWith):
                return await ending.commit_with(step.last)
            if isinstance(step, Commit):
                await ending.commit()
            else:
                await ending.rollback()
        return []


_PRESENT: ContextVar[AsyncPassage[Any] | None] = ContextVar("mailonce.gate.passage", default=None)


def _present() -> AsyncPassage[Any] | None:
    """Give the innermost passage of this context that has not ended."""
    passage = _PRESENT.get()
    while passage is not None and passage._ended:  # noqa: SLF001
        passage = passage._outer  # noqa: SLF001
    return passage


def passage_with(handle: object) -> AsyncPassage[Any] | None:
    """Give the open passage of this context whose `tx` is `handle`."""
    passage = _present()
    while passage is not None:
        if passage.owns(handle):
            return passage
        passage = passage._outer  # noqa: SLF001
    return None


def note_unawaited(call: UnawaitedCall) -> None:
    """Refuse the request whose handler called its passage, or its `tx`, and did not await it."""
    if isinstance(call.owner, AsyncPassage):
        if call.name in ("owe", "once", "phase"):
            call.owner.forget(call.name, "passage")
        return
    passage = passage_with(call.owner)
    if passage is not None:
        passage.forget(call.name, "session or connection")
