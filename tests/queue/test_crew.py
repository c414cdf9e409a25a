"""Workers beside each other on one PostgreSQL: who is gone, who is paused, who has which lane."""

import asyncio
from collections.abc import Iterator
from hashlib import sha256
from typing import Any

import asyncpg
import pytest
from sqlalchemy import select, update

from mailonce.clock import Clock
from mailonce.core.work.job import LeasedJob, LeaseRequest
from mailonce.core.work.states import AttemptKind
from mailonce.queue.crew import Crew
from mailonce.store.dialects.contract import Database
from mailonce.store.dialects.postgres.presence import SESSION_LOCKS, PostgresPresence
from mailonce.store.schema.tables import DELIVERIES, LANES, WORKERS
from mailonce.store.work import rows as work_rows
from tests.endpoint import answers
from tests.factories import Ledger, new_id
from tests.queue.conftest import Works
from tests.servers import PostgresServer

A, B = b"worker a", b"worker b"
FIRST = (AttemptKind.FIRST, AttemptKind.RETRY, AttemptKind.REDELIVERY)


@pytest.fixture
def database_url(request: pytest.FixtureRequest, postgres: PostgresServer) -> Iterator[str]:
    """A fresh PostgreSQL: SQLite has one process."""
    template: str = request.getfixturevalue("postgres_template")
    name = f"crew_{abs(hash(request.node.name)):x}"
    asyncio.run(_execute(postgres.url(), f"CREATE DATABASE {name} TEMPLATE {template}"))
    yield postgres.url(name)
    asyncio.run(_execute(postgres.url(), f"DROP DATABASE {name} WITH (FORCE)"))


async def _execute(url: str, statement: str) -> None:
    connection = await asyncpg.connect(url)
    await connection.execute(statement)
    await connection.close()


async def _lease(database: Database, owner: bytes, most: int) -> list[LeasedJob]:
    await database.lanes.hold(["rte_main"], owner=owner, hold_ms=60_000)
    return await database.deliveries.lease(
        [LeaseRequest("rte_main", most, 60_000, FIRST)], owner=owner
    )


async def _gone(crew: Crew, wanted: bytes) -> None:
    for _ in range(100):
        if wanted in (await crew.look()).gone:
            return
        await asyncio.sleep(0.1)
    raise AssertionError("nobody was gone")


async def test_only_a_presence_that_ended_makes_a_colleague_gone(database: Database) -> None:
    lanes = database.lanes
    presence = await lanes.open_presence(A, lambda: None)
    assert presence is not None
    await lanes.attend(A, session=presence.session, hold_ms=1)
    await lanes.attend(B, session=None, hold_ms=1)
    await asyncio.sleep(0.01)

    # Neither wrote that it lives, but A's connection does, and of B nothing can be seen.
    paused = await lanes.crew()
    await presence.close()
    crew = Crew(lanes, Clock(), b"me", hold_s=1)
    await _gone(crew, A)

    assert [(one.is_present, one.is_gone) for one in paused] == [(False, False)] * 2
    assert B not in (await crew.look()).gone


async def test_whoever_lost_its_own_presence_judges_nobody_for_a_while(database: Database) -> None:
    lost = await database.lanes.open_presence(A, lambda: None)
    assert isinstance(lost, PostgresPresence)
    await database.lanes.attend(A, session=lost.session, hold_ms=1)
    crew = Crew(database.lanes, Clock(), b"me", hold_s=60)
    crew.start()
    try:
        while crew._presence is None:
            await asyncio.sleep(0.01)
        assert isinstance(crew._presence, PostgresPresence)
        crew._presence._connection.terminate()
        await lost.close()

        for _ in range(15):
            assert (await crew.look()).gone == ()
            await asyncio.sleep(0.1)

        assert not crew._presence.is_closed(), "it was opened again"
    finally:
        await crew.stop()


async def _until_seen(crew: Crew, database: Database, owner: bytes) -> PostgresPresence:
    """Wait until a worker is present, and that is written down."""
    for _ in range(500):
        await crew.look()
        presence = crew._presence
        rows = await database.read(lambda tx: tx.execute(select(WORKERS)).all())
        seen = {bytes(row.owner) for row in rows if row.session is not None}
        if isinstance(presence, PostgresPresence) and owner in seen:
            return presence
        await asyncio.sleep(0.01)
    raise AssertionError("it did not become present")


async def test_a_worker_is_written_down_when_others_can_see_it_die(
    database: Database, database_url: str
) -> None:
    """It was there for ten seconds after kill -9, where that came before its presence."""
    other = await asyncpg.connect(database_url.partition("?")[0])
    crew = Crew(database.lanes, Clock(), A, hold_s=60)
    # Until that is let go, the presence waits.
    session = int.from_bytes(sha256(A).digest()[:4], "big") >> 1
    await other.execute("SELECT pg_advisory_lock($1, $2)", SESSION_LOCKS, session)
    crew.start()
    look = asyncio.create_task(crew.look())
    try:
        async with asyncio.timeout(60):
            while not await other.fetchval("SELECT count(*) FROM pg_locks WHERE NOT granted"):
                await asyncio.sleep(0)
            for _ in range(20):
                early = await database.lanes.crew()
        await other.execute("SELECT pg_advisory_unlock($1, $2)", SESSION_LOCKS, session)
        await look
        written = await other.fetch("SELECT owner, session FROM workers")
        # As if it was killed.
        await crew.stop()
        async with asyncio.timeout(60):
            while not (workers := await database.lanes.crew())[0].is_gone:
                await asyncio.sleep(0)
    finally:
        await crew.stop()
        await other.close()

    assert early == []
    assert [tuple(row) for row in written] == [(A, session)]
    assert workers[0].is_present


async def test_a_worker_whose_presence_cannot_be_opened_again_is_not_gone(
    database: Database, database_url: str, postgres: PostgresServer
) -> None:
    """As when the server has no connection left, while the worker's own ones go on."""
    name = database_url.rpartition("/")[2].partition("?")[0]
    crew, judge = (Crew(database.lanes, Clock(), who, hold_s=10) for who in (A, B))
    crew.start()
    try:
        presence = await _until_seen(crew, database, A)
        # The worker has connections, and only a new one is refused.
        await asyncio.gather(*(database.lanes.crew() for _ in range(8)))
        await _execute(postgres.url(), f"ALTER DATABASE {name} ALLOW_CONNECTIONS false")
        presence._connection.terminate()
        gone: set[bytes] = set()
        for _ in range(15):
            gone.update((await judge.look()).gone)
            await asyncio.sleep(0.1)
    finally:
        await _execute(postgres.url(), f"ALTER DATABASE {name} ALLOW_CONNECTIONS true")
        await crew.stop()

    assert gone == set()


async def test_a_presence_that_the_database_does_not_see_is_opened_again(
    database: Database,
) -> None:
    """As after a failover: the connection to the old server looks alive for a while."""
    crews = [Crew(database.lanes, Clock(), who, hold_s=10) for who in (A, B)]
    for crew in crews:
        crew.start()
    try:
        old = [
            await _until_seen(crew, database, who) for crew, who in zip(crews, (A, B), strict=True)
        ]
        for presence in old:
            await presence._connection.execute("SELECT pg_advisory_unlock_all()")
        gone: set[bytes] = set()
        for _ in range(15):
            for crew in crews:
                gone.update((await crew.look()).gone)
            await asyncio.sleep(0.1)
        workers = await database.lanes.crew()
    finally:
        for crew in crews:
            await crew.stop()

    assert gone == set()
    assert [one.is_gone for one in workers] == [False, False]
    assert all(crew._presence not in old for crew in crews)


async def test_of_a_gone_worker_only_its_own_leases_end(ledger: Ledger) -> None:
    await ledger.add_route()
    await ledger.owe(3)
    [first, older] = await _lease(ledger.database, A, 2)
    await ledger.database.lanes.let_go(A)
    [others] = await _lease(ledger.database, B, 1)
    # A worker of an older version leased it after A, and did not write its name.
    again = update(DELIVERIES).where(DELIVERIES.c.key == older.key).values(token=older.token + 1)
    await ledger.database.write(lambda tx: tx.execute(again) and None)

    now_ms = (await ledger.database.head()).now_ms
    rescued = await ledger.database.write(
        lambda tx: work_rows.rescue(
            tx, now_ms=now_ms, new_id=lambda: new_id(now_ms), lost_max=8, most=10, of=A
        )
    )

    query = select(DELIVERIES.c.key).where(DELIVERIES.c.state == 1)
    leased = await ledger.database.read(lambda tx: {bytes(row[0]) for row in tx.execute(query)})
    assert len(rescued) == 1
    assert leased == {older.key, others.key}
    assert first.key not in leased


async def _owners(database: Database) -> list[bytes]:
    query = select(LANES.c.owner).where(LANES.c.owner != b"")
    rows: Any = await database.read(lambda tx: tx.execute(query).all())
    return [bytes(row[0]) for row in rows]


async def test_lanes_that_one_worker_cannot_keep_up_with_are_shared(works: Works) -> None:
    for number in range(6):
        await works.add_route(f"/r{number}", concurrency=2, timeout_s=5.0)
        works.endpoint.behaviours[f"/r{number}"] = answers(200, after_s=0.02)
    await works.start(hold_s=10.0)
    await works.ledger.owe(400)
    works.workers[0].wake(list(works.ledger.routes))
    await works.until(lambda: len(works.endpoint.requests) > 50)
    alone = await _owners(works.database)

    await works.start(hold_s=10.0)

    async def shared() -> bool:
        owners = await _owners(works.database)
        return sorted(owners.count(owner) for owner in set(owners)) == [3, 3]

    await works.until(shared)
    await works.until_ended(seconds=240)
    assert (len(alone), len(set(alone))) == (6, 1)
    assert len(works.endpoint.requests) == 2_400
    assert max(works.endpoint.most.values()) == 2, "a route's limit is never that of two workers"


async def test_while_one_worker_keeps_up_lanes_stay_where_they_are(works: Works) -> None:
    for number in range(4):
        await works.add_route(f"/r{number}")
    await works.start()
    await works.owe()
    await works.until_ended()
    before = await _owners(works.database)
    await works.start()

    for _ in range(15):
        await works.ledger.owe()
        works.workers[0].wake(list(works.ledger.routes))
        await asyncio.sleep(0.1)
    await works.until_ended()

    assert await _owners(works.database) == before
