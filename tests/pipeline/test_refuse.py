"""Refusals are counted within bounds, also for sources that somebody made up."""

from mailonce.core.arrivals.arrival import Arrival
from mailonce.core.moment import DAY_MS
from mailonce.pipeline.refuse import UNKNOWN_NAMES_A_DAY_MAX, Refusals
from mailonce.store.dialects.contract import Database
from mailonce.store.ledger import refusals
from mailonce.store.ledger.refusals import RefusalCount

NOON_MS = 20_000 * DAY_MS + DAY_MS // 2
HOUR_MS = 3_600_000


def make_arrival(*, now_ms: int = NOON_MS) -> Arrival:
    headers = {"user-agent": "Postmark", "x-token": "a secret", "cookie": "one"}
    return Arrival(method="POST", headers=headers, body=b"{}", now_ms=now_ms, peer="192.0.2.7")


async def rows(database: Database) -> list[RefusalCount]:
    return await database.read(
        lambda tx: refusals.page(tx, "default", source=None, below=None, limit=1000)
    )


async def test_a_wrong_url_is_counted_by_name_without_a_body(database: Database) -> None:
    counter = Refusals(database, b"one")
    first_ms = NOON_MS + 2 * 60_000 + 45_000
    for minutes in (0, 9, 10):
        counter.add_unknown("postmrk", make_arrival(now_ms=first_ms + minutes * 60_000))
        await counter.flush()

    later, earlier = await rows(database)

    assert (earlier.source, earlier.count, later.count) == ("(unknown) postmrk", 2, 1)
    assert earlier.minute == first_ms // 60_000, "the minute in which the first came"
    assert later.minute == earlier.minute + 10
    assert (earlier.sample, earlier.body_bytes, earlier.peer) == (b"", 2, "192.0.2.7")
    assert b"Postmark" in earlier.headers
    assert b"secret" not in earlier.headers


async def test_a_scanner_does_not_fill_the_table(database: Database) -> None:
    counter = Refusals(database, b"one")
    for hour in range(3):
        for name in ("", "..%2f", "a b", "x" * 101, "a\n"):
            counter.add_unknown(name, make_arrival(now_ms=NOON_MS + hour * HOUR_MS))
        for number in range(500):
            counter.add_unknown(f"guess-{number}", make_arrival(now_ms=NOON_MS + hour * HOUR_MS))
        await counter.flush()
    counter.add_unknown("postmrk", make_arrival(now_ms=NOON_MS + DAY_MS))
    await counter.flush()

    stored = await rows(database)
    sums = await database.read(lambda tx: refusals.sums(tx, minute=0, limit=2))

    names = {row.source for row in stored}
    assert len(stored) == 3 * UNKNOWN_NAMES_A_DAY_MAX + 1, "the rest has one of the places"
    assert all(name.isprintable() for name in names)
    assert {"(unknown)", "(unknown) guess-0", "(unknown) postmrk"} <= names
    assert sum(row.count for row in stored) == 3 * 505 + 1, "each is counted"
    last_minute = (NOON_MS + 2 * HOUR_MS) // 60_000
    assert sums[0] == ("(unknown)", "no source has this name", 3 * 486, last_minute)
    assert sums[1].times == 3
