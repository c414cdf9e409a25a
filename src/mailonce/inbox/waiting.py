"""Read an inbox behind a number, and wait for mail; waiting costs the database nothing.

However many wait, one loop looks for all of them: at once at the inboxes in which this process, or
another that told us, kept a message; and in turn at some of the others each second, since such a
hint may get lost. A waiter is in the list before its first look, so nothing can come in between.
Looks that find nothing, as nearly all do when a request begins or its time is over, share one read
(`read_queue`); who was woken does not queue there.
"""

import asyncio
import contextlib
from collections import Counter
from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from itertools import islice
from types import MappingProxyType
from typing import Any, NamedTuple

from mailonce.clock import Clock
from mailonce.core.query import MessageFilter
from mailonce.errors import (
    GoneError,
    MailonceError,
    MissingError,
    ParseError,
    RefusedError,
    UnavailableError,
)
from mailonce.inbox.read_queue import REST_S, ReadQueue, WakeCounts
from mailonce.loop import Loop
from mailonce.store.dialects.contract import Database, Tx
from mailonce.store.inboxes import inboxes, messages
from mailonce.store.inboxes.inboxes import SeqRange
from mailonce.store.inboxes.messages import EVERY, MessagePage, StoredMessage

SWEEP_S = 1.0
SWEEP_INBOXES = 500
WAIT_S_MAX = 25.0
PAGE_BYTES_MAX = 2 << 20
WAITERS_MAX = 20_000
WORKSPACE_WAITERS_MAX = 15_000


class CursorLostError(GoneError):
    """Mail behind the cursor was deleted before it was read."""

    code = "cursor_lost"

    def __init__(self, *, after: int, last: int) -> None:
        """Say that the mail with the numbers from `after` up to `last` is gone."""
        self.oldest_seq = last + 1
        self.lost = last - after
        self.next = last
        self.members = {"oldest_seq": self.oldest_seq, "lost": self.lost, "next": self.next}
        super().__init__(
            f"the next {self.lost} behind `after={after}` were deleted; go on with `after={last}`"
        )


class InboxPage(NamedTuple):
    """Messages of an inbox in its order, where to go on, and how far it can be read."""

    messages: list[StoredMessage]
    next: int
    range: SeqRange
    # How often the same mail came again, by message; absent where it did not.
    copies: Mapping[str, int] = MappingProxyType({})

    @property
    def unread(self) -> int:
        """Count the mails from the first on that was not read yet: none of them is shown."""
        return max(0, self.range.last - self.range.readable)


@dataclass(slots=True, eq=False)
class _Waiter:
    inbox: str
    after: int
    # One who waits for several inboxes is woken by any of them.
    wake: Callable[[], object]


class InboxWait:
    """A place among those who wait for an inbox, for a reader who found nothing new in it.

    It is woken when there may be something, or when all waits end. The reader closes it, and looks
    again.
    """

    __slots__ = ("_is_woken", "_leave", "_then")

    def __init__(self) -> None:
        self._is_woken = False
        self._leave: Callable[[], None] | None = None
        self._then: Callable[[], object] | None = None

    def listed(self, leave: Callable[[], None]) -> "InboxWait":
        self._leave = leave
        return self

    def then(self, call: Callable[[], object]) -> None:
        """Call somebody when it is woken, or now where it was."""
        self._then = call
        if self._is_woken:
            call()

    def wake(self) -> None:
        self._is_woken = True
        if self._then is not None:
            self._then()

    def close(self) -> None:
        self._then = None
        if self._leave is not None:
            self._leave()
            self._leave = None


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
        self._ranges: ReadQueue[str, SeqRange] = ReadQueue(self._read_ranges, rest_s=REST_S)
        # By inbox: who was woken comes first.
        self._urgent = WakeCounts()
        self._loop = Loop("inboxes", self._look, retry_s=SWEEP_S)
        self._closing = False
        self.start = self._loop.start

    @property
    def waiting(self) -> int:
        return self._many

    def release(self) -> None:
        """End all waits, and allow no new ones: the process is about to stop."""
        self._closing = True
        # Who is woken may leave at once.
        for waiter in [one for waiters in self._waiters.values() for one in waiters]:
            waiter.wake()

    async def stop(self) -> None:
        """Stop looking."""
        self.release()
        await self._loop.stop()

    @property
    def is_closing(self) -> bool:
        return self._closing

    def wake(self, changed: Collection[str] | None) -> None:
        """Look soon at inboxes that got a message; None: at all that somebody waits for."""
        own = self._waiters.keys() if changed is None else self._waiters.keys() & set(changed)
        if own:
            self._changed |= own
            self._loop.wake()

    async def read(
        self,
        inbox: str,
        *,
        workspace: str,
        after: int,
        limit: int,
        wait_s: float = 0,
        which: MessageFilter = EVERY,
        bytes_max: int | None = None,
    ) -> InboxPage:
        """Read the messages behind `after`; where there are none, wait for one, `wait_s` at most.

        Raises: MissingError, CursorLostError, ParseError where `after` was never given,
        UnavailableError where too many wait.
        """
        pages = await self.read_many(
            {inbox: after},
            workspace=workspace,
            limit=limit,
            wait_s=wait_s,
            which=which,
            bytes_max=bytes_max,
        )
        page = pages[inbox]
        if isinstance(page, MailonceError):
            raise page
        return page

    async def look(
        self,
        inbox: str,
        *,
        workspace: str,
        after: int,
        limit: int,
        waits: bool,
        which: MessageFilter = EVERY,
    ) -> InboxPage | InboxWait:
        """Read the messages behind `after`; where there are none and one `waits`, give the wait.

        Raises: as `read` does.
        """
        read = partial(
            self._read_shared, inbox, workspace=workspace, after=after, limit=limit, which=which
        )
        if not waits:
            return await read()
        wait = InboxWait()
        waiter = _Waiter(inbox, after, wait.wake)
        self._enter([waiter], workspace)
        is_kept = False
        try:
            page = await read()
            if _has_news(page) or self._closing:
                return page
            waiter.after = page.next
            is_kept = True
            return wait.listed(partial(self._leave, (waiter,), workspace))
        finally:
            if not is_kept:
                self._leave([waiter], workspace)

    async def _read_shared(self, inbox: str, *, after: int, **given: Any) -> InboxPage:
        """Read as `read` does, without a read of its own where there is nothing to read."""
        if not self._urgent.take(inbox):
            known = await self._ranges.ask(inbox)
            if known is not None and known.has_nothing_behind(after):
                return InboxPage([], after, known)
        return await self.read(inbox, after=after, **given)

    async def _read_ranges(self, some: Sequence[str]) -> dict[str, SeqRange]:
        return await self._database.read(partial(inboxes.ranges, ids=some))

    async def read_many(
        self,
        cursors: Mapping[str, int],
        *,
        workspace: str,
        limit: int,
        wait_s: float = 0,
        which: MessageFilter = EVERY,
        bytes_max: int | None = None,
    ) -> dict[str, InboxPage | RefusedError]:
        """Read several inboxes, each behind its number; where none has mail, wait for the first.

        `limit` is for each of them; what they hold together is bounded, too, and an inbox for which
        there was no room has an empty page. Raises: UnavailableError where too many wait.
        """
        look = partial(
            _read_all,
            cursors=cursors,
            limit=limit,
            which=which,
            bytes_max=PAGE_BYTES_MAX if bytes_max is None else bytes_max,
        )
        deadline = self._clock.monotonic() + min(wait_s, WAIT_S_MAX)
        woken = asyncio.Event()
        waiters = [_Waiter(inbox, after, woken.set) for inbox, after in cursors.items()]
        with self._listed(waiters, workspace) if wait_s > 0 else contextlib.nullcontext():
            while True:
                woken.clear()
                pages = await self._database.read(look)
                left_s = deadline - self._clock.monotonic()
                if any(map(_has_news, pages.values())) or left_s <= 0 or self._closing:
                    return pages
                for waiter in waiters:
                    page = pages[waiter.inbox]
                    waiter.after = page.next if isinstance(page, InboxPage) else waiter.after
                timer = asyncio.get_running_loop().call_later(left_s, woken.set)
                try:
                    await woken.wait()
                finally:
                    timer.cancel()

    @contextlib.contextmanager
    def _listed(self, waiters: Sequence[_Waiter], workspace: str) -> Iterator[None]:
        self._enter(waiters, workspace)
        try:
            yield
        finally:
            self._leave(waiters, workspace)

    def _enter(self, waiters: Sequence[_Waiter], workspace: str) -> None:
        many = len(waiters)
        is_full = (
            self._of_workspace[workspace] + many > WORKSPACE_WAITERS_MAX
            or self._many + many > WAITERS_MAX
        )
        if is_full:
            raise UnavailableError("too many requests wait for mail; try again in a moment")
        for waiter in waiters:
            self._waiters.setdefault(waiter.inbox, set()).add(waiter)
        self._of_workspace[workspace] += many
        self._many += many

    def _leave(self, waiters: Sequence[_Waiter], workspace: str) -> None:
        many = len(waiters)
        self._many -= many
        self._of_workspace[workspace] -= many
        if not self._of_workspace[workspace]:
            del self._of_workspace[workspace]
        for waiter in waiters:
            others = self._waiters[waiter.inbox]
            others.discard(waiter)
            if not others:
                del self._waiters[waiter.inbox]

    async def _look(self) -> float:
        changed, self._changed = self._changed, set()
        self._urgent.keep(self._waiters)
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
            ranges = await self._read_ranges(some)
            for inbox in some:
                readable = ranges.get(inbox)
                # One that was deleted ends the wait as well.
                woken = [
                    waiter
                    for waiter in self._waiters.get(inbox, ())
                    if readable is None or readable.readable > waiter.after
                ]
                if woken:
                    self._urgent.add(inbox, len(woken))
                for waiter in woken:
                    waiter.wake()


def _has_news(page: InboxPage | RefusedError) -> bool:
    """Say whether a page is no reason to wait: it ends early before what was deleted, as well."""
    return not isinstance(page, InboxPage) or bool(page.messages) or page.next < page.range.readable


def _read_all(
    tx: Tx, cursors: Mapping[str, int], *, limit: int, which: MessageFilter, bytes_max: int
) -> dict[str, InboxPage | RefusedError]:
    known = inboxes.ranges(tx, list(cursors))
    left_bytes = bytes_max
    pages: dict[str, InboxPage | RefusedError] = {}
    for inbox, after in cursors.items():
        page: InboxPage | RefusedError
        if inbox not in known:
            page = MissingError(f"there is no inbox {inbox[:80]!r}; see GET /v1/inboxes")
        elif left_bytes <= 0:
            page = InboxPage([], after, known[inbox])
        else:
            read = partial(messages.page, tx, inbox, limit=limit, bytes_max=left_bytes, which=which)
            page = _read(tx, inbox, known[inbox], after, read)
        if isinstance(page, InboxPage):
            left_bytes -= sum(len(one.document) for one in page.messages)
        pages[inbox] = page
    return pages


def _read(
    tx: Tx, inbox: str, known: SeqRange, after: int, read: Callable[..., MessagePage]
) -> InboxPage | RefusedError:
    """Read behind a number, up to the next one whose mail was deleted.

    A reader that comes upon deleted mail is told before it reads on; one that begins has lost none.
    """
    if after > known.last:
        return ParseError(
            f"`after` is {after}, but {known.last} is the last number given; use `next` of a page"
        )
    begins, until = after == 0, known.readable
    while after < known.forgotten:
        gap = inboxes.first_gap(tx, inbox, after=after, until=known.forgotten)
        if gap is None or gap.first > after + 1:
            until = until if gap is None else min(until, gap.first - 1)
            break
        if not begins:
            return CursorLostError(after=after, last=gap.last)
        after = gap.last
    if after >= until:
        return InboxPage([], after, known)
    page = read(after=after, until=until)
    return InboxPage(page.messages, page.last, known, page.copies)
