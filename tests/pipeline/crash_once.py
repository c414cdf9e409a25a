"""Lease what is due to the handler `notes` and run it: a worker's life, as short as can be.

`python -m tests.pipeline.crash_once URL`; the message id says where it dies, see handling_app.
"""

import asyncio
import contextlib
import sys
from collections.abc import Iterator

from mailonce.clock import Clock
from mailonce.core.work.job import LeaseRequest
from mailonce.core.work.states import AttemptKind
from mailonce.handlers import handler_id
from mailonce.pipeline.run_handler import handle
from mailonce.store.database import open_database
from mailonce.store.dialects.sqlite import database as sqlite
from tests.acceptance.handling_app import handlers


@contextlib.contextmanager
def patient() -> Iterator[None]:
    """Let a handler take its time: the machine may be busy, and the limit is tried elsewhere."""
    limit, sqlite.HANDLER_LIMIT_S = sqlite.HANDLER_LIMIT_S, 10.0
    try:
        yield
    finally:
        sqlite.HANDLER_LIMIT_S = limit


async def live(url: str) -> None:
    database = await open_database(url)
    route_id = handler_id("default", "notes")
    handler = handlers.find(route_id)
    assert handler is not None
    owed, owner = database.deliveries, Clock().new_id()
    lanes = (AttemptKind.FIRST, AttemptKind.RETRY, AttemptKind.REDELIVERY)
    assert await database.lanes.hold([route_id], owner=owner, hold_ms=5_000)
    (job,) = await owed.lease([LeaseRequest(route_id, 1, 60_000, lanes)], owner=owner)
    with patient():
        outcome = await handle(database, Clock(), handlers, handler.route, job)
    # Long enough for one that dies behind its commit.
    await asyncio.sleep(0.2)
    await database.close()
    assert outcome is None, outcome


if __name__ == "__main__":
    asyncio.run(live(sys.argv[1]))
