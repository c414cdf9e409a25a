"""Read an inbox behind a number, and wait for mail; waiting costs the database nothing.

However many wait, one loop looks for all of them: at once at the inboxes in which this process, or
another that told us, kept a message; and in turn at some of the others each second, since such a
hint may get lost. A waiter is in the list before its first look, so nothing can come in between.
"""

import asyncio
import contextlib
from collections import Counter
from collections.abc import Collection, Iterator
from dataclasses import dataclass, field
from functools import partial
from itertools import islice
from typing import NamedTuple

from mailonce.clock import Clock
from mailonce.errors import GoneError, MailonceError, MissingError, UnavailableError
from mailonce.loop import Loop
from mailonce.store.dialects.contract import Database, Tx
from mailonce.store.inboxes import inboxes, messages
from mailonce.store.inboxes.inboxes import SeqRange
from mailonce.store.inboxes.messages import StoredMessage

SWEEP_S = 1.0
SWEEP_INBOXES = 500
WAIT_S_MAX = 25.0
WAITERS_MAX = 20_000
WORKSPACE_WAITERS_MAX = 15_000


class CursorLostError(GoneError):
    """Mail behind the cursor was deleted before it was read."""

    code = "cursor_lost"

    def __init__(self, *, after: int, forgotten: int) -> None:
        self.oldest_seq = forgotten + 1
        self.lost = forgotten - after
        super().__init__(
            f"{self.lost} numbers behind `after={after}` were deleted; go on with "
            f"`after={forgotten}`, which shows what is left"
        )


class InboxPage(NamedTuple):
    """Messages of an inbox in its order, where to go on, and how far it can be read."""

    messages: list[StoredMessage]
    next: int
    range: SeqRange


@dataclass(slots=True, eq=False)
class _Waiter:
    inbox: str
    after: int
    woken: asyncio.Event = field(default_factory=asyncio.Event)


class InboxReaders:
    """All who read inboxes through this process."""

    def __init__(self, database: Database, clock: Clock) -> None:
        self._database = database
        self._clock = clock
        # By inbox.
        self._waiters: dict[str, set[_Waiter]] = {}
        self._of_workspace: Counter[str] = Counter()
        self._many = 0
        # The inboxes to look at, and whether all of them are.
        self._changed: set[str] = set()
        self._swept = 0
        self._loop = Loop("inboxes", self._look, retry_s=SWEEP_S)
        self._closing = False
        self.start = self._loop.start

    @property
    def waiting(self) -> int:
        return self._many

    def release(self) -> None:
        """End all waits, and allow no new ones: the process is about to stop."""
        self._closing = True
        for waiters in self._waiters.values():
            for waiter in waiters:
                waiter.woken.set()

    async def stop(self) -> None:
        """Stop looking."""
        self.release()
        await self._loop.stop()

    def wake(self, changed: Collection[str] | None) -> None:
        """Look soon at inboxes that got a message; None: at all that somebody waits for."""
        own = self._waiters.keys() if changed is None else self._waiters.keys() & set(changed)
        if own:
            self._changed |= own
            self._loop.wake()

    async def read(
        self, inbox: str, *, workspace: str, after: int, limit: int, wait_s: float = 0
    ) -> InboxPage:
        """Read the messages behind `after`; where there are none, wait for one, `wait_s` at most.

        Raises: MissingError, CursorLostError, UnavailableError where too many wait.
        """
        deadline = self._clock.monotonic() + min(wait_s, WAIT_S_MAX)
        waiter = _Waiter(inbox, after)
        with self._listed(waiter, workspace) if wait_s > 0 else contextlib.nullcontext():
            while True:
                waiter.woken.clear()
                page = await self._database.read(
                    lambda tx: _read(tx, inbox, after=after, limit=limit)
                )
                waiter.after = page.next
                left_s = deadline - self._clock.monotonic()
                if page.messages or left_s <= 0 or self._closing:
                    return page
                timer = asyncio.get_running_loop().call_later(left_s, waiter.woken.set)
                await waiter.woken.wait()
                timer.cancel()

    @contextlib.contextmanager
    def _listed(self, waiter: _Waiter, workspace: str) -> Iterator[None]:
        if self._of_workspace[workspace] >= WORKSPACE_WAITERS_MAX or self._many >= WAITERS_MAX:
            raise UnavailableError("too many requests wait for mail; try again in a moment")
        self._waiters.setdefault(waiter.inbox, set()).add(waiter)
        self._of_workspace[workspace] += 1
        self._many += 1
        try:
            yield
        finally:
            self._many -= 1
            self._of_workspace[workspace] -= 1
            if not self._of_workspace[workspace]:
                del self._of_workspace[workspace]
            waiters = self._waiters[waiter.inbox]
            waiters.discard(waiter)
            if not waiters:
                del self._waiters[waiter.inbox]

    async def _look(self) -> float:
        changed, self._changed = self._changed, set()
        wanted = changed or set(self._next_to_sweep())
        if wanted:
            # Where it fails, each reader reads again at its end, and gets the error.
            with contextlib.suppress(MailonceError):
                await self._look_at(sorted(wanted))
        return SWEEP_S

    def _next_to_sweep(self) -> list[str]:
        names = list(self._waiters)
        if self._swept >= len(names):
            self._swept = 0
        some = list(islice(names, self._swept, self._swept + SWEEP_INBOXES))
        self._swept += len(some)
        return some

    async def _look_at(self, wanted: list[str]) -> None:
        for start in range(0, len(wanted), SWEEP_INBOXES):
            some = wanted[start : start + SWEEP_INBOXES]
            ranges = await self._database.read(partial(inboxes.ranges, ids=some))
            for inbox in some:
                readable = ranges.get(inbox)
                for waiter in self._waiters.get(inbox, ()):
                    # One that was deleted ends the wait as well.
                    if readable is None or readable.readable > waiter.after:
                        waiter.woken.set()


def _read(tx: Tx, inbox: str, *, after: int, limit: int) -> InboxPage:
    readable = inboxes.ranges(tx, [inbox]).get(inbox)
    if readable is None:
        raise MissingError(f"there is no inbox {inbox[:80]!r}; see GET /v1/inboxes")
    # Who begins has lost nothing.
    if 0 < after < readable.forgotten:
        raise CursorLostError(after=after, forgotten=readable.forgotten)
    rows = messages.page(tx, inbox, after=after, until=readable.readable, limit=limit)
    is_full = len(rows) == limit
    end = rows[-1].seq if is_full else max(after, readable.readable)
    return InboxPage(rows, end, readable)
