"""Forget sends after their time, in slices: the ledger late, the words of mails earlier."""

from collections.abc import Callable
from functools import partial

from mailonce.store.dialects.contract import DAY_MS, Database, Priority, Tx
from mailonce.store.sends import forgetting

SLICE_ROWS = 500


class SendPurge:
    """Deletes what is past its time; several processes may run it at once."""

    def __init__(self, database: Database, *, ledger_days: int, body_days: int) -> None:
        self._database = database
        self._ledger_days = ledger_days
        self._body_days = body_days

    async def forget(self) -> None:
        """Delete settled sends, what the keys of requests stood for, and words nobody needs."""
        now_ms = (await self._database.head()).now_ms
        ledger_ms = now_ms - self._ledger_days * DAY_MS
        # A request's key is forgotten after its sends, never before.
        await self._until_none(partial(forgetting.forget, before_ms=ledger_ms, most=SLICE_ROWS))
        await self._until_none(
            partial(forgetting.forget_requests, before_ms=ledger_ms, most=SLICE_ROWS)
        )
        body_ms = now_ms - self._body_days * DAY_MS
        await self._until_none(
            partial(forgetting.forget_contents, before_ms=body_ms, most=SLICE_ROWS)
        )

    async def _until_none(self, work: Callable[[Tx], int]) -> None:
        while await self._database.write(work, priority=Priority.MAINTENANCE):
            pass
