"""Look up addresses for many sessions at once, with few reads.

Each session asks about each of its recipients, and a read of the database costs more than all else
that a short mail needs. So there is one read at a time, and what is asked meanwhile is the next
one, together. A read begins after everything that it answers was asked: nobody gets an answer that
is older than the question.
"""

import asyncio
from collections.abc import Awaitable, Callable, Collection, Mapping

from mailonce.store.inboxes.inboxes import AddressedInbox

# Of one read.
NAMES_MAX = 1_000

Places = Mapping[str, AddressedInbox]


class AddressLookup:
    """Finds the inboxes that addresses lead to; `read` asks the database for some of them."""

    def __init__(self, read: Callable[[Collection[str]], Awaitable[Places]]) -> None:
        self._read = read
        # What the next read is asked for, and the last read that was begun.
        self._wanted: set[str] = set()
        self._next: asyncio.Task[Places] | None = None
        self._last: asyncio.Task[Places] | None = None

    async def find(self, names: Collection[str]) -> Places:
        """Give the inboxes of these addresses, and perhaps of others.

        Raises: what `read` raises, to all who share it.
        """
        self._wanted.update(names)
        if self._next is None:
            self._next = self._last = asyncio.create_task(self._run(self._last))
        # Whoever is cancelled leaves the others their answer.
        return await asyncio.shield(self._next)

    async def _run(self, before: asyncio.Task[Places] | None) -> Places:
        if before is not None:
            await asyncio.wait([before])
        names, self._wanted, self._next = sorted(self._wanted), set(), None
        places: dict[str, AddressedInbox] = {}
        for start in range(0, len(names), NAMES_MAX):
            places |= await self._read(names[start : start + NAMES_MAX])
        return places
