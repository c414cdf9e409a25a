"""Delete inboxes and mail: on demand, and what is past its time.

Every process may run it. A crash leaves marked inboxes and whole slices; whoever prunes next goes
on with them.
"""

import asyncio
from collections.abc import Collection
from functools import partial
from typing import NamedTuple

from mailonce.core.ids import first_id
from mailonce.store.dialects.contract import DAY_MS, Database, Priority
from mailonce.store.inboxes import purge, unmatched
from mailonce.store.inboxes.purge import BlobKey, InboxPlace, PurgeCounts, PurgeSlice
from mailonce.store.work import clock_step

SLICE_MAILS = 200
# What one round takes on, so that other maintenance has its turn.
EXPIRE_INBOXES = 500
EXPIRE_S = 10.0
SWEEP_ROWS = 2_000
SWEEP_READS = 50
# Bytes that were used lately are left to whoever deletes what refers to them.
UNUSED_MS = 3600 * 1000


class PurgeReport(NamedTuple):
    """What was deleted; where it is not complete, maintenance goes on with it."""

    counts: PurgeCounts
    is_complete: bool


class InboxPurge:
    """Deletes inboxes, mail and bytes, slice by slice."""

    def __init__(
        self, database: Database, *, unmatched_mails_max: int, unmatched_days: int
    ) -> None:
        self._database = database
        self._unmatched_mails_max = unmatched_mails_max
        self._unmatched_days = unmatched_days
        # Behind which bytes the next sweep goes on.
        self._swept: BlobKey | None = None

    async def delete(
        self, places: Collection[InboxPlace], *, limit_s: float, priority: Priority = Priority.API
    ) -> PurgeReport:
        """Delete inboxes with all that is in them, as much as fits into the time.

        From the first transaction on nothing finds them any more, also where this ends early.
        """
        clock = asyncio.get_running_loop().time
        deadline = clock() + limit_s
        counts = await self._database.write(partial(purge.mark, places=places), priority=priority)
        for place in sorted(set(places)):
            is_gone = False
            while not is_gone:
                if clock() > deadline:
                    return PurgeReport(counts, is_complete=False)
                work = partial(purge.purge, inbox=place.id, most=SLICE_MAILS)
                slice_ = await self._database.write(work, priority=priority)
                counts = counts.plus(await self._finish(slice_, priority))
                is_gone = slice_.is_gone
        return PurgeReport(counts, is_complete=True)

    async def delete_message(self, inbox: str, message: str) -> PurgeCounts | None:
        """Delete one message with its mail; None where there is no such message."""
        work = partial(purge.delete_message, inbox=inbox, message=message)
        slice_ = await self._database.write(work)
        return None if slice_ is None else await self._finish(slice_, Priority.API)

    async def expire(self) -> PurgeReport:
        """Delete inboxes whose time is over, and go on with what a crash left."""
        now_ms = (await self._database.head()).now_ms
        if not await self._database.scalar(purge.HAS_OVERDUE, now_ms=now_ms):
            return PurgeReport(PurgeCounts(), is_complete=True)
        look = partial(purge.overdue, now_ms=now_ms, most=EXPIRE_INBOXES)
        places = await self._database.read(look)
        return await self.delete(places, limit_s=EXPIRE_S, priority=Priority.MAINTENANCE)

    async def trim(self) -> PurgeCounts:
        """Delete mail that no inbox took and that is too much, or too old by a clock one trusts."""
        now_ms = (await self._database.head()).now_ms
        note = await self._database.read(clock_step.read_note)
        old_ms = now_ms - self._unmatched_days * DAY_MS
        before = first_id(old_ms if note.waits_until_ms(now_ms) is None else 0)
        counts = PurgeCounts()
        for workspace in await self._database.read(unmatched.workspaces):
            look = partial(
                unmatched.superfluous,
                workspace=workspace,
                before=before,
                mails_max=self._unmatched_mails_max,
                most=SLICE_MAILS,
            )
            while keys := await self._database.read(look):
                work = partial(purge.delete_unmatched, keys=keys)
                slice_ = await self._database.write(work, priority=Priority.MAINTENANCE)
                counts = counts.plus(await self._finish(slice_, Priority.MAINTENANCE))
        return counts

    async def sweep(self) -> PurgeCounts:
        """Look through some of the bytes for those that nobody refers to, and delete them.

        Such bytes are left where a mail was deleted while it was being read, or where a crash came
        between a deletion and its last look at them.
        """
        now_ms = (await self._database.head()).now_ms
        counts = PurgeCounts()
        for _ in range(SWEEP_READS):
            look = partial(
                purge.unused_blobs,
                after=self._swept,
                before_ms=now_ms - UNUSED_MS,
                most=SWEEP_ROWS,
            )
            unused, self._swept = await self._database.read(look)
            counts = counts.plus(await self._delete_blobs(unused, Priority.MAINTENANCE))
            if self._swept is None:
                break
        return counts

    async def _finish(self, slice_: PurgeSlice, priority: Priority) -> PurgeCounts:
        """Look at bytes that a slice came to know only after it had taken its locks."""
        return slice_.counts.plus(await self._delete_blobs(slice_.unlocked, priority))

    async def _delete_blobs(self, blobs: Collection[BlobKey], priority: Priority) -> PurgeCounts:
        if not blobs:
            return PurgeCounts()
        work = partial(purge.delete_blobs, blobs=blobs)
        return await self._database.write(work, priority=priority)
