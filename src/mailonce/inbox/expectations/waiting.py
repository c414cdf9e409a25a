"""Wait for an expectation that mail may still fulfil; waiting costs the database nothing.

As with inboxes: one loop looks for all who wait, at once at those that a process published, and in
turn at some of the others each second, since a hint may get lost.

Each request reads when it begins and when its time is over, together with all others that do so at
the same time (`shared_reads`); whoever is woken, because something happened, does not queue there.
"""

import asyncio
import contextlib
from collections import Counter
from collections.abc import Callable, Collection, Iterator
from contextlib import AbstractContextManager
from functools import partial
from itertools import islice

from mailonce.clock import Clock
from mailonce.core.expectations.settle import Settlement
from mailonce.errors import MailonceError, UnavailableError
from mailonce.inbox.expectations.expectation_parts import (
    ExpectationParts,
    expectation_id,
    missing_expectation,
    topic_of,
)
from mailonce.inbox.expectations.shared_reads import SharedReads
from mailonce.inbox.read_queue import WakeCounts
from mailonce.inbox.waiting import WAIT_S_MAX, WAITERS_MAX, WORKSPACE_WAITERS_MAX
from mailonce.loop import Loop
from mailonce.store.expectations import expectations
from mailonce.store.expectations.standing import ExpectationStanding

SWEEP_S = 1.0
SWEEP_MAX = 500


class ExpectationWait:
    """Somebody who waits for an expectation, and is called when it may have changed."""

    __slots__ = ("_call", "_is_woken", "_leave")

    def __init__(self) -> None:
        self._call: Callable[[], object] | None = None
        self._is_woken = False
        self._leave: Callable[[], object] | None = None

    def set(self) -> None:
        """Wake whoever waits."""
        self._is_woken = True
        if self._call is not None:
            self._call()

    def then(self, call: Callable[[], object]) -> None:
        """Call somebody when it may have changed, or now where it may have already."""
        self._call = call
        if self._is_woken:
            call()

    def close(self) -> None:
        """Wait no longer."""
        leave, self._leave, self._call = self._leave, None, None
        if leave is not None:
            leave()

    def enter(self, listed: AbstractContextManager[None]) -> None:
        """Stand in a list until it is closed."""
        listed.__enter__()
        self._leave = partial(listed.__exit__, None, None, None)


class ExpectationWaiters:
    """All who wait for expectations through this process."""

    def __init__(self, parts: ExpectationParts, clock: Clock) -> None:
        self._parts = parts
        self._clock = clock
        # By the topic of their expectation.
        self._waiters: dict[str, set[asyncio.Event | ExpectationWait]] = {}
        self._of_workspace: Counter[str] = Counter()
        self._many = 0
        self._swept = 0
        # What to look at next, beside those whose turn it is.
        self._changed: set[str] = set()
        self._reads = SharedReads(parts.database)
        # By topic: who was woken by what was published comes first.
        self._urgent = WakeCounts()
        self._closing = False
        self._loop = Loop("expectations", self._look, retry_s=SWEEP_S)
        self.start = self._loop.start

    @property
    def waiting(self) -> int:
        return self._many

    def release(self) -> None:
        """End all waits, and allow no new ones: the process is about to stop."""
        self._closing = True
        for waiters in list(self._waiters.values()):
            for woken in list(waiters):
                woken.set()

    async def stop(self) -> None:
        """Stop looking."""
        self.release()
        await self._loop.stop()

    def wake(self, changed: Collection[str] | None) -> None:
        """Wake who waits for what changed; None: look at all of them, some at a time."""
        if changed is None:
            self._changed.update(self._waiters)
            self._loop.wake()
            return
        for topic in self._waiters.keys() & set(changed):
            waiters = list(self._waiters.get(topic, ()))
            self._urgent.add(topic, len(waiters))
            for woken in waiters:
                woken.set()

    async def read(
        self, workspace: str, id_: bytes, *, wait_s: float = 0
    ) -> tuple[ExpectationStanding, Settlement]:
        """Give an expectation and its state; while it waits for mail, wait, `wait_s` at most.

        Raises: MissingError, UnavailableError where too many wait.
        """
        deadline = self._clock.monotonic() + min(wait_s, WAIT_S_MAX)
        woken = asyncio.Event()
        with self._listed(id_, workspace, woken) if wait_s > 0 else contextlib.nullcontext():
            while True:
                woken.clear()
                known, settled = await self._load(workspace, id_)
                left_s = deadline - self._clock.monotonic()
                if not settled.is_waiting or left_s <= 0:
                    return known, settled
                timer = asyncio.get_running_loop().call_later(left_s, woken.set)
                try:
                    if not self._closing:
                        await woken.wait()
                finally:
                    timer.cancel()
                if self._closing:
                    # The last look is as good as another one; all would look at once.
                    return known, settled

    async def look(
        self, workspace: str, id_: bytes, *, waits: bool
    ) -> tuple[ExpectationStanding, Settlement] | ExpectationWait:
        """Give an expectation and its state, or, while it waits for mail, what to wait for.

        Raises: MissingError, UnavailableError where too many wait.
        """
        if not waits or self._closing:
            return await self._load(workspace, id_)
        wait = ExpectationWait()
        wait.enter(self._listed(id_, workspace, wait))
        try:
            known, settled = await self._load(workspace, id_)
        except BaseException:
            wait.close()
            raise
        if settled.is_waiting and not self._closing:
            return wait
        wait.close()
        return known, settled

    async def _load(self, workspace: str, id_: bytes) -> tuple[ExpectationStanding, Settlement]:
        known = await self._reads.read(workspace, id_, is_urgent=self._urgent.take(topic_of(id_)))
        if known is None:
            raise missing_expectation()
        return known, known.settle(now_ms=await self._parts.now_ms())

    @contextlib.contextmanager
    def _listed(
        self, id_: bytes, workspace: str, woken: asyncio.Event | ExpectationWait
    ) -> Iterator[None]:
        own = self._of_workspace[workspace]
        if own >= WORKSPACE_WAITERS_MAX or self._many >= WAITERS_MAX:
            raise UnavailableError("too many requests wait for expectations; try again in a moment")
        topic = topic_of(id_)
        self._waiters.setdefault(topic, set()).add(woken)
        self._of_workspace[workspace] += 1
        self._many += 1
        try:
            yield
        finally:
            self._many -= 1
            self._of_workspace[workspace] -= 1
            if not self._of_workspace[workspace]:
                del self._of_workspace[workspace]
            others = self._waiters[topic]
            others.discard(woken)
            if not others:
                del self._waiters[topic]

    async def _look(self) -> float:
        changed, self._changed = self._changed, set()
        self._urgent.keep(self._waiters)
        wanted = sorted(changed & self._waiters.keys()) or self._next_to_sweep()
        # Where it fails, each waiter reads again at its end, and gets the error.
        with contextlib.suppress(MailonceError):
            for start in range(0, len(wanted), SWEEP_MAX):
                ids = [expectation_id(topic) for topic in wanted[start : start + SWEEP_MAX]]
                # One that is quarantined is looked at each second, and so at its deadline.
                moved = await self._parts.database.read(partial(expectations.changed, ids=ids))
                self.wake([topic_of(id_) for id_ in moved])
        return SWEEP_S

    def _next_to_sweep(self) -> list[str]:
        names = list(self._waiters)
        if self._swept >= len(names):
            self._swept = 0
        some = list(islice(names, self._swept, self._swept + SWEEP_MAX))
        self._swept += len(some)
        return some
