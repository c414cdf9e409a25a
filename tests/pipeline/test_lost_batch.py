"""A batch whose commit stood although nobody heard so, and which then meets a held row."""

from typing import Any, cast

from sqlalchemy import func, select

from mailonce.clock import Clock
from mailonce.core.ledger.entry import ArrivalOutcome, EntryOutcome
from mailonce.pipeline.record import Limits, Recorder
from mailonce.store.dialects.contract import (
    DAY_MS,
    Batch,
    Database,
    LockedError,
    OutcomeUnknownError,
)
from mailonce.store.schema.tables import ARRIVALS, COUNTS, EVENTS
from mailonce.telemetry import Metrics
from tests.factories import make_body, make_entry, make_source


class LosesAnswer:
    """A database that loses its first answer, a moment before midnight, and is held up then."""

    def __init__(self, database: Database, midnight_ms: int) -> None:
        self._database = database
        self._midnight_ms = midnight_ms
        self._calls = 0

    def __getattr__(self, name: str) -> Any:
        return getattr(self._database, name)

    async def record(self, batch: Batch, *, short_lock_wait: bool = False) -> list[EntryOutcome]:
        self._calls += 1
        if self._calls == 1:
            batch.received_ms = self._midnight_ms - 1
            await self._database.record(batch, short_lock_wait=short_lock_wait)
            raise OutcomeUnknownError("the answer was lost; try again")
        if self._calls == 2:
            raise LockedError("a row is held; try again")
        return await self._database.record(batch, short_lock_wait=short_lock_wait)


async def test_its_parts_find_their_rows_of_the_day_before(database: Database) -> None:
    now_ms = (await database.head()).now_ms
    today = now_ms // DAY_MS
    await database.ensure_days(range(today - 1, today + 1))
    lossy = cast("Database", LosesAnswer(database, today * DAY_MS))
    recorder = Recorder(lossy, Clock(), Metrics(), Limits())
    outcomes: list[object] = []
    for number in range(4):
        body = make_body(number, message_id=f"message-{number}")
        recorder.submit(make_entry(make_source(), body, now_ms=now_ms), outcomes.append)

    recorder.start()
    await recorder.close()

    assert [one.new for one in outcomes if isinstance(one, ArrivalOutcome)] == [1, 1, 1, 1]
    queries: list[Any] = [
        select(ARRIVALS.c.day, func.count()).group_by(ARRIVALS.c.day),
        select(EVENTS.c.day, func.count()).group_by(EVENTS.c.day),
        select(COUNTS.c.day, func.sum(COUNTS.c.count)).group_by(COUNTS.c.day),
    ]
    rows = await database.read(lambda tx: [tx.execute(query).all() for query in queries])
    assert [tuple(row) for some in rows for row in some] == [(today - 1, 4)] * 3
