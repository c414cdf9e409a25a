"""Rows of several pairs are found by an index: SQLite takes none for `(a, b) IN` of two or more."""

import pytest
from sqlalchemy import Connection, select, update

from mailonce.core.sends.send_lifecycle import SendAct
from mailonce.store.dialects.contract import Database
from mailonce.store.dialects.sqlite.database import SqliteDatabase
from mailonce.store.filters import is_pair
from mailonce.store.inboxes import purge
from mailonce.store.inboxes.purge import BlobKey, InboxPlace
from mailonce.store.schema.tables import EVENTS, PULSES
from mailonce.store.sends import flights
from mailonce.store.sends.flights import FlightMark
from tests.store.scans import scans_of


@pytest.mark.parametrize("database_url", ["sqlite"], indirect=True)
async def test_of_several_pairs_the_only_writer_reads_no_whole_table(database: Database) -> None:
    assert isinstance(database, SqliteDatabase)
    marks = [
        FlightMark(
            b"send %d" % number, 1, act, "default", f"ann{number}@example.net", "",
            is_forced=False, frozen=None,
        )
        for number, act in enumerate([SendAct.BEGIN, SendAct.BEGIN, SendAct.REPEAT, SendAct.REPEAT])
    ]  # fmt: skip
    places = [InboxPlace("default", f"inb_{number}") for number in range(3)]
    blobs = {BlobKey("default", bytes([number]) * 32) for number in range(3)}
    events = [(20_000 + number, bytes([number]) * 16) for number in range(3)]

    def work(tx: Connection) -> None:
        flights.begin(tx, marks, now_ms=0)
        flights._suppress(tx, marks, "hard", 0)
        purge.mark(tx, places)
        purge._delete_unused(tx, blobs)
        tx.execute(
            update(EVENTS).where(is_pair(EVENTS.c.day, EVENTS.c.id, events)).values(body=None)
        )

    with scans_of(database) as scans:
        await database.write(work)

    assert scans == []


async def test_pairs_are_compared_as_pairs(database: Database) -> None:
    rows = [(one, other) for one in range(3) for other in range(3)]
    wanted = [(0, 1), (2, 0), (1, 9)]

    def work(tx: Connection) -> list[tuple[int, int]]:
        given = [
            {"source": f"{one} {other}", "minute": one, "taken": other, "refused": 0}
            for one, other in rows
        ]
        tx.execute(PULSES.insert(), given)
        columns = (PULSES.c.minute, PULSES.c.taken)
        query = select(*columns).where(is_pair(*columns, wanted)).order_by(*columns)
        return [(row[0], row[1]) for row in tx.execute(query)]

    assert await database.write(work) == [(0, 1), (2, 0)]
