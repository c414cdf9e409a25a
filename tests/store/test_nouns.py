"""The smaller store modules: arrivals, poison, dead letters, refusals, events by arrival."""

from functools import partial

import orjson
import pytest
from sqlalchemy import Connection, Table, text

from mailonce.core.arrivals.source import Poison
from mailonce.core.query import EventFilter
from mailonce.core.signatures.sealing import Sealer
from mailonce.errors import UnavailableError
from mailonce.store.configuration import sources
from mailonce.store.dialects.contract import Database
from mailonce.store.housekeeping import FORGET, Ages
from mailonce.store.ledger import arrivals, dead_letters, events, poison, refusals
from mailonce.store.schema.tables import POISON, REFUSALS, SOURCES
from tests.factories import SEALER, Ledger, make_body, make_dead, make_entry, make_source, new_id

MAIN = make_source()


async def test_an_arrival_is_found_with_its_body_in_its_own_workspace_only(ledger: Ledger) -> None:
    entry = make_entry(MAIN, make_body(1), now_ms=ledger.now_ms)
    await ledger.record(entry)

    mine = await ledger.database.read(lambda tx: arrivals.get(tx, "default", entry.id))
    foreign = await ledger.database.read(lambda tx: arrivals.get(tx, "other", entry.id))

    assert mine is not None
    assert (mine.body, mine.status, mine.new) == (make_body(1), "accepted", 1)
    assert foreign is None


async def test_bodies_are_read_in_pages_oldest_first_without_those_of_copies(
    ledger: Ledger,
) -> None:
    for days_ago in (3, 1, 0):
        new = [make_body(f"{days_ago}-{number}") for number in range(3)]
        await ledger.tell(MAIN, [*new, new[0]], days_ago=days_ago)

    bodies: list[bytes | None] = []
    after = None
    while page := await ledger.database.read(
        partial(arrivals.ids_with_body, after=after, until_ms=ledger.now_ms, limit=2)
    ):
        read = await ledger.database.read(partial(arrivals.get_many, ids=page))
        bodies += [read[id_].body for id_ in page]
        after = page[-1]

    assert bodies == [make_body(f"{day}-{number}") for day in (3, 1, 0) for number in range(3)]


async def test_the_events_of_an_arrival_come_in_its_own_order(ledger: Ledger) -> None:
    recipients = [f"{number}@example.com" for number in range(5)]
    body = orjson.dumps(
        {"event_type": "delivery", "payload": {"messageId": "m-1", "recipients": recipients}}
    )
    entry = make_entry(MAIN, body, now_ms=ledger.now_ms)
    await ledger.record(entry, make_entry(MAIN, make_body(1), now_ms=ledger.now_ms))

    rows = await ledger.database.read(lambda tx: events.of_arrival(tx, "default", entry.id))

    assert [event.recipient for event in rows] == recipients


async def test_tries_of_one_arrival_are_counted_and_forgotten(database: Database) -> None:
    def count_try(tx: Connection, key: str, now_ms: int) -> int:
        return poison.count_try(tx, "src_main", key, now_ms=now_ms)

    tries = [await database.write(partial(count_try, key="a", now_ms=n)) for n in (10, 20, 30)]
    other = await database.write(partial(count_try, key="b", now_ms=40))
    forgotten = await _forget(database, POISON, before_ms=15)
    fresh = await database.write(partial(count_try, key="a", now_ms=50))

    assert (tries, other, forgotten, fresh) == ([1, 2, 3], 1, 1, 1)


async def test_a_dead_letter_counts_failed_retries_until_it_is_resolved(ledger: Ledger) -> None:
    dead = make_dead(new_id(ledger.now_ms), "not JSON", b"{")
    await ledger.record(make_entry(MAIN, b"{", now_ms=ledger.now_ms, dead=(dead,)))
    write = ledger.database.write
    fail = partial(
        dead_letters.fail_again, workspace="default", letter=dead.id, error="still not", now_ms=1
    )
    resolve = partial(dead_letters.resolve, workspace="default", letter=dead.id, now_ms=2)

    failed = await write(fail)
    letter = await ledger.database.read(lambda tx: dead_letters.get(tx, "default", dead.id))
    open_before = await ledger.database.read(dead_letters.count_open)
    resolved = [await write(resolve), await write(resolve), await write(fail)]
    open_after = await ledger.database.read(lambda tx: dead_letters.count_open(tx, "default"))

    assert failed
    assert letter is not None
    assert (letter.attempts, letter.reason, letter.last_error) == (2, "not JSON", "still not")
    assert resolved == [True, False, False]
    assert (open_before, open_after) == (1, 0)


async def _forget(database: Database, table: Table, *, before_ms: int) -> int:
    ages = Ages(before_ms, before_ms)
    [forgetting] = [one for one in FORGET if one.table is table]
    slice_ = await database.read(lambda tx: forgetting.find(tx, ages, after=None, most=9))
    return await database.write(lambda tx: forgetting.delete(tx, ages, keys=slice_.keys))


async def test_old_refusals_are_forgotten(database: Database) -> None:
    some = [
        refusals.RefusalCount(
            workspace="default",
            source="src_main",
            reason="wrong signature",
            minute=minute,
            process=b"",
            count=1,
            body_bytes=0,
            headers=b"{}",
            sample=b"",
        )
        for minute in (1, 2, 3)
    ]
    await database.write(lambda tx: refusals.add_all(tx, some))

    forgotten = await _forget(database, REFUSALS, before_ms=3 * 60_000)

    assert forgotten == 2


async def test_a_query_that_fails_is_told_as_unavailable(database: Database) -> None:
    def work(tx: Connection) -> None:
        tx.execute(text("SELECT * FROM nowhere"))

    for run in (database.read, database.write):
        with pytest.raises(UnavailableError):
            await run(work)


async def test_a_page_of_todays_events_opens_no_other_day(ledger: Ledger) -> None:
    if ledger.database.name != "postgresql":
        pytest.skip("SQLite keeps all days in one table")
    for days_ago in range(5):
        await ledger.tell(
            MAIN, [make_body(f"{days_ago}-{n}") for n in range(20)], days_ago=days_ago
        )

    def work(tx: Connection) -> dict[str, int]:
        tx.execute(text("SELECT pg_stat_clear_snapshot()"))
        query = EventFilter()
        assert len(events.page(tx, "default", query, below=None, limit=10)) == 10
        rows = tx.execute(
            text(
                "SELECT relname, seq_tup_read + idx_tup_fetch FROM pg_stat_xact_user_tables "
                "WHERE relname LIKE 'events_%' AND seq_tup_read + idx_tup_fetch > 0"
            )
        )
        return {row[0]: row[1] for row in rows}

    read = await ledger.database.read(work)

    today = ledger.now_ms // 86_400_000
    # The first and the last row of the log tell its days; the page itself is today's.
    assert sum(read.values()) <= 10 + 2 * 6 + 2, read
    assert max(read, key=lambda name: read[name]) == f"events_{today}"


async def test_a_page_that_spans_days_is_no_longer_than_asked(ledger: Ledger) -> None:
    for days_ago in range(3):
        await ledger.tell(MAIN, [make_body(f"{days_ago}-{n}") for n in range(4)], days_ago=days_ago)

    rows = await ledger.database.read(
        lambda tx: events.page(tx, "default", EventFilter(), below=None, limit=6)
    )

    assert len(rows) == 6


async def test_a_source_of_an_older_version_is_read_and_no_proof_that_is_not_sealed(
    database: Database,
) -> None:
    source = make_source(secrets=("known",), unsigned=True, silence_s=7)
    forged = orjson.dumps({"poison": "refuse", "secrets": ["forged"], "basic": ["forged"]})

    def put(tx: Connection) -> None:
        sources.put(tx, source, SEALER, origin="api", now_ms=1, chance=bytes)
        tx.execute(SOURCES.update().values(settings=forged))

    await database.write(put)
    [known] = await database.read(lambda tx: sources.list_all(tx, SEALER))
    [unknown] = await database.read(lambda tx: sources.list_all(tx, Sealer(["another"])))

    assert (known.poison, known.unsigned, known.silence_s) == (Poison.REFUSE, False, None)
    assert (known.secrets, known.basic) == (source.secrets, source.basic)
    assert (unknown.secrets, unknown.basic, unknown.is_unreadable) == ((), (), True)
