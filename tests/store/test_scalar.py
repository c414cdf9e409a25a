"""A value that is asked for again and again is what a read would give."""

from sqlalchemy import BigInteger, Integer, bindparam, func, select

from mailonce.store.dialects.contract import Database
from mailonce.store.expectations import due
from mailonce.store.inboxes import purge
from mailonce.store.schema.mail_tables import INBOXES
from mailonce.store.schema.tables import COUNTS
from mailonce.store.work import reruns
from tests.factories import Ledger, make_body, make_source

AT_LEAST = select(func.count()).where(COUNTS.c.count >= bindparam("least", type_=Integer))
DIFFERENCE = select(
    bindparam("more", type_=BigInteger) - bindparam("less", type_=BigInteger) + func.length("four")
)


async def test_a_value_changes_with_each_commit_and_each_parameter(ledger: Ledger) -> None:
    database, found = ledger.database, []
    for number in range(3):
        found.append(await database.scalar(AT_LEAST, least=1))
        await ledger.tell(make_source(), [make_body(number)])

    assert found == [0, 1, 2]
    assert await database.scalar(AT_LEAST, least=2) == 0


async def test_parameters_go_by_their_names(database: Database) -> None:
    assert await database.scalar(DIFFERENCE, less=2, more=10) == 12
    assert await database.scalar(DIFFERENCE, more=1, less=10) == -5


async def test_an_empty_database_has_nothing_due(database: Database) -> None:
    assert not await database.scalar(due.HAS_DUE, now_ms=1 << 50)
    assert not await database.scalar(purge.HAS_OVERDUE, now_ms=1 << 50)
    assert not await database.scalar(reruns.HAS_RUNNING)
    assert await database.scalar(select(INBOXES.c.id)) is None
