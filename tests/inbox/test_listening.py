"""Since when mail could not have come unnoticed."""

from sqlalchemy import update

from mailonce.core.inboxes.listening import ALIVE_MS
from mailonce.inbox import listening
from mailonce.inbox.listening import Listening
from mailonce.store.dialects.contract import Database
from mailonce.store.inboxes import listeners
from mailonce.store.schema.mail_tables import LISTENERS
from tests.clock import ManualClock


async def test_it_is_known_since_when_some_process_listens(database: Database) -> None:
    clock = ManualClock()
    first, second, asks = (Listening(database, clock, clock.new_id()) for _ in range(3))
    nobody = await asks.since_ms()

    await first.beat()
    clock.advance(listening.REMEMBER_S + 1)
    since_ms = await asks.since_ms()
    await second.beat()
    await first.beat()
    clock.advance(listening.REMEMBER_S + 1)

    assert nobody is None
    assert since_ms is not None
    assert await asks.since_ms() == await first.since_ms() == since_ms


async def test_a_door_that_cannot_reach_the_database_does_not_count_as_listening(
    database: Database,
) -> None:
    """It may look healthy, but what it cannot write it cannot accept."""
    clock = ManualClock()
    door = Listening(database, clock, clock.new_id())
    await door.beat()
    long_ago = update(LISTENERS).values(
        since_ms=LISTENERS.c.since_ms - 10 * ALIVE_MS, until_ms=LISTENERS.c.until_ms - 2 * ALIVE_MS
    )
    await database.write(lambda tx: tx.execute(long_ago) and None)

    silent = await door.since_ms()
    await door.beat()
    clock.advance(listening.REMEMBER_S + 1)
    since_ms = await door.since_ms()

    assert silent is None
    [period] = await database.read(listeners.periods)
    assert since_ms == period.since_ms == period.until_ms


async def test_a_process_that_stops_says_no_more(database: Database) -> None:
    clock = ManualClock()
    door = Listening(database, clock, clock.new_id())
    door.start()
    while not await database.read(listeners.periods):
        pass

    await door.stop()
    before = await database.read(listeners.periods)

    assert await database.read(listeners.periods) == before
