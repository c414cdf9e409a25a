"""Polling: hand events to consumers that fetch them; waiting costs the database nothing.

However many wait, one loop looks for all of them: at once when this process recorded something,
and each second for what others recorded.
"""

import asyncio
import contextlib
from collections import Counter
from dataclasses import dataclass, field

from mailonce.clock import Clock
from mailonce.errors import MailonceError, MissingError, ParseError, UnavailableError
from mailonce.loop import Loop
from mailonce.store.dialects.contract import Database
from mailonce.store.work import polls
from mailonce.store.work.polls import Mark, Read

SWEEP_S = 1.0
# Many commits at once are looked at this often, not after each.
LOOK_EVERY_S = 0.01
NUMBER_ROWS_MAX = 1_000
ACKNOWLEDGE_ROWS_MAX = 5_000
PAGE_BYTES_MAX = 8 << 20
WAITERS_MAX = 2_000
# However many of them one workspace has, others can wait, too.
WORKSPACE_WAITERS_MAX = 500
WAIT_S_MAX = 25


@dataclass(slots=True, eq=False)
class _Waiter:
    workspace: str
    route: str
    after: int
    woken: asyncio.Event = field(default_factory=asyncio.Event)


class Polls:
    """The consumers that poll through this process."""

    def __init__(self, database: Database, clock: Clock) -> None:
        self._database = database
        self._clock = clock
        self._waiters: set[_Waiter] = set()
        self._of_workspace: Counter[str] = Counter()
        self._loop = Loop("polls", self._look, retry_s=SWEEP_S)
        self._closing = False
        self.start = self._loop.start

    def release(self) -> None:
        """End all waits, and allow no new ones: the process is about to stop."""
        self._closing = True
        for waiter in self._waiters:
            waiter.woken.set()

    async def stop(self) -> None:
        """Stop looking."""
        self.release()
        await self._loop.stop()

    def wake(self) -> None:
        """Look soon: a commit of this process made deliveries due."""
        if self._waiters:
            self._loop.wake()

    async def read(
        self, route: str, *, workspace: str, after: int | None, limit: int, wait_s: float
    ) -> Read:
        """Read the events after `after`, else after what was acknowledged.

        Where there are none, wait for some, `wait_s` at most.
        Raises: MissingError, ParseError where `after` was never given, UnavailableError where too
        many wait, in all or in this workspace.
        """
        deadline = self._clock.monotonic() + min(wait_s, WAIT_S_MAX)
        waiter = _Waiter(workspace, route, after or 0)
        if wait_s > 0:
            self._check_room(workspace)
            # Listed before the first look: what is recorded from here on wakes us.
            self._waiters.add(waiter)
            self._of_workspace[workspace] += 1
        try:
            while True:
                waiter.woken.clear()
                page = await self._read_now(waiter, after, limit)
                left_s = deadline - self._clock.monotonic()
                if page.cursor > waiter.after or left_s <= 0 or self._closing:
                    return page
                # Not `asyncio.wait_for`, which forgets a caller who leaves as it is woken.
                timer = asyncio.get_running_loop().call_later(left_s, waiter.woken.set)
                try:
                    await waiter.woken.wait()
                finally:
                    timer.cancel()
        finally:
            if waiter in self._waiters:
                self._waiters.discard(waiter)
                self._of_workspace[workspace] -= 1
                if not self._of_workspace[workspace]:
                    del self._of_workspace[workspace]

    def _check_room(self, workspace: str) -> None:
        if self._of_workspace[workspace] >= WORKSPACE_WAITERS_MAX:
            raise UnavailableError(
                f"{WORKSPACE_WAITERS_MAX} requests of this workspace wait for events already; "
                "wait with fewer, or try again in a moment"
            )
        if len(self._waiters) >= WAITERS_MAX:
            raise UnavailableError("too many requests wait for events; try again in a moment")

    async def acknowledge(self, route: str, cursor: int) -> Mark:
        """Mark everything up to `cursor` as done; it is not given again.

        A crash leaves the first part acknowledged: call it again.
        Raises: MissingError, or ParseError where `cursor` was never given.
        """
        now_ms = self._clock.now_ms()
        while True:
            mark = await self._database.write(
                lambda tx: polls.acknowledge(
                    tx, route, cursor=cursor, most=ACKNOWLEDGE_ROWS_MAX, now_ms=now_ms
                )
            )
            if mark is None:
                raise _missing(route)
            if cursor > mark.seq:
                raise _never_given("cursor", cursor, mark)
            if mark.acknowledged >= cursor:
                return mark

    async def _read_now(self, waiter: _Waiter, after: int | None, limit: int) -> Read:
        route = waiter.route
        mark = (await self._database.read(lambda tx: polls.marks(tx, [route]))).get(route)
        if mark is None:
            raise _missing(route)
        waiter.after = mark.acknowledged if after is None else after
        if mark.has_new:
            await self._database.write(lambda tx: polls.number(tx, route, most=NUMBER_ROWS_MAX))
        elif waiter.after > mark.seq:
            raise _never_given("after", waiter.after, mark)
        elif waiter.after == mark.seq:
            return Read([], waiter.after)
        return await self._database.read(
            lambda tx: polls.read_behind(
                tx, route, after=waiter.after, limit=limit, bytes_max=PAGE_BYTES_MAX
            )
        )

    async def _look(self) -> float:
        # Routes with wake-ups within a moment are looked at together.
        await asyncio.sleep(LOOK_EVERY_S)
        routes = {waiter.route for waiter in self._waiters}
        if routes:
            # Where it fails, each consumer reads again at its end, and gets the error.
            with contextlib.suppress(MailonceError):
                await self._look_at(routes)
        return SWEEP_S

    async def _look_at(self, routes: set[str]) -> None:
        marks = await self._database.read(lambda tx: polls.marks(tx, routes))
        for waiter in self._waiters:
            mark = marks.get(waiter.route)
            if mark is None or mark.has_new or mark.seq > waiter.after:
                waiter.woken.set()


def _missing(route: str) -> MissingError:
    return MissingError(f"there is no route {route[:80]!r}; see GET /v1/routes")


def _never_given(name: str, cursor: int, mark: Mark) -> ParseError:
    return ParseError(
        f"`{name}` is {cursor}, but {mark.seq} is the last number given; "
        "use the `cursor` of an answer"
    )
