"""Folding counts changes how they are kept, never what they sum up to."""

import asyncio

from sqlalchemy import Connection, func, select

from mailonce.core.query import CountFilter
from mailonce.store.dialects.contract import Database
from mailonce.store.ledger import counts
from mailonce.store.schema.tables import COUNTS
from tests.factories import Ledger, make_body, make_source

EVERYTHING = CountFilter()
MAIN = make_source()


def sums(tx: Connection, workspace: str = "default") -> list[counts.Count]:
    return counts.page(tx, workspace, EVERYTHING, after=None, limit=1000)


def rows(tx: Connection) -> int:
    return tx.execute(select(func.count()).select_from(COUNTS)).scalar_one()


async def fold_all(database: Database, before_day: int, *, rows_max: int = 3) -> int:
    folded = 0
    while some := await database.write(lambda tx: counts.fold(tx, before_day, rows_max=rows_max)):
        assert some <= rows_max
        folded += some
    return folded


async def test_a_fold_keeps_every_sum_in_fewer_rows(ledger: Ledger) -> None:
    foreign = make_source(id="src_foreign", workspace="other")
    await ledger.add_workspace("other")
    for number in range(10):
        await ledger.tell(MAIN, [make_body(number), make_body(f"o{number}", type="opened")])
    await ledger.tell(foreign, [make_body(1)])
    tomorrow = ledger.now_ms // 86_400_000 + 1
    before = await ledger.database.read(sums)

    folded = await fold_all(ledger.database, tomorrow)
    again = await fold_all(ledger.database, tomorrow)

    assert (folded, again) == (21, 0)
    assert await ledger.database.read(sums) == before
    assert await ledger.database.read(lambda tx: sums(tx, "other")) != []
    assert await ledger.database.read(rows) == 3


async def test_a_fold_leaves_days_that_are_not_finished(ledger: Ledger) -> None:
    await ledger.tell(MAIN, [make_body(1)], days_ago=1)
    await ledger.tell(MAIN, [make_body(2)])

    folded = await fold_all(ledger.database, ledger.now_ms // 86_400_000)

    assert folded == 1


async def test_deltas_that_come_after_a_fold_join_it(ledger: Ledger) -> None:
    tomorrow = ledger.now_ms // 86_400_000 + 1
    for number in range(3):
        await ledger.tell(MAIN, [make_body(number)])
        await fold_all(ledger.database, tomorrow)

    assert [row.times for row in await ledger.database.read(sums)] == [3]
    assert await ledger.database.read(rows) == 1


async def test_sums_hold_while_doors_record_and_two_fold_at_once(ledger: Ledger) -> None:
    tomorrow = ledger.now_ms // 86_400_000 + 1

    async def record() -> None:
        for number in range(40):
            await ledger.tell(MAIN, [make_body(number)])

    async def fold() -> None:
        for _ in range(20):
            await ledger.database.write(lambda tx: counts.fold(tx, tomorrow, rows_max=5))

    await asyncio.gather(record(), fold(), fold())
    await fold_all(ledger.database, tomorrow)

    assert [row.times for row in await ledger.database.read(sums)] == [40]
    assert await ledger.database.read(rows) == 1
