"""A pooler in transaction mode in front of PostgreSQL: each transaction has another session."""

import asyncio
import os
import shutil
import subprocess
from collections.abc import AsyncIterator, Iterator
from pathlib import Path

import asyncpg
import pytest
import pytest_asyncio
from sqlalchemy import Connection, text

from mailonce.clock import Clock
from mailonce.core.ledger.entry import ArrivalOutcome
from mailonce.queue.maintain import Maintenance
from mailonce.store.database import open_database
from mailonce.store.dialects.contract import DAY_MS, Database
from mailonce.store.dialects.postgres.database import PostgresDatabase
from mailonce.store.dialects.postgres.session import PostgresServer as Found
from mailonce.store.schema.ledger_rows import KINDS
from mailonce.telemetry import Metrics
from tests.factories import Ledger, make_body, make_source
from tests.servers import NOBODY, PostgresServer, free_port, wait_for

SETTINGS = """
[databases]
* = host=127.0.0.1 port={port} user=postgres
[pgbouncer]
listen_addr = 127.0.0.1
listen_port = {listens}
unix_socket_dir =
auth_type = any
pool_mode = transaction
default_pool_size = 3
server_round_robin = 1
{more}
"""
IGNORED = (
    "ignore_startup_parameters = lock_timeout,statement_timeout,jit,plan_cache_mode,enable_seqscan,"
    "idle_in_transaction_session_timeout,enable_mergejoin,enable_hashjoin"
)

LEFT = """
SELECT current_setting('lock_timeout'), count(*) FROM pg_prepared_statements WHERE name <> ''
"""
SLEEP = text("SELECT pg_sleep(0.2)")


@pytest.fixture(params=["", IGNORED], ids=["as installed", "parameters ignored"])
def pooler(
    request: pytest.FixtureRequest, postgres: PostgresServer, tmp_path: Path
) -> Iterator[int]:
    """PgBouncer, where it is installed; give its port."""
    binary = shutil.which("pgbouncer", path=os.environ["PATH"] + ":/usr/sbin")
    if binary is None:
        pytest.skip("pgbouncer is not installed; apt install pgbouncer")
    listens = free_port()
    file = tmp_path / "pgbouncer.ini"
    file.write_text(SETTINGS.format(port=postgres.port, listens=listens, more=request.param))
    # It refuses to run as root, and another user may not reach the folder of the test.
    user = NOBODY if os.geteuid() == 0 else None
    process = subprocess.Popen(
        [binary, "/dev/stdin"],
        stdin=file.open("rb"),
        user=user,
        group=user,
        cwd="/",
        stdout=subprocess.DEVNULL,
        stderr=subprocess.DEVNULL,
    )
    try:
        ready = f"{postgres.binaries}/bin/pg_isready -q -h 127.0.0.1 -p {listens}".split()
        wait_for(lambda: subprocess.run(ready, check=False).returncode == 0, what="the pooler")
        yield listens
    finally:
        process.terminate()
        process.wait(10)


@pytest_asyncio.fixture
async def url(postgres: PostgresServer, postgres_template: str) -> AsyncIterator[str]:
    await _run(postgres.url(), f"CREATE DATABASE pooled TEMPLATE {postgres_template}")
    yield postgres.url("pooled")
    await _run(postgres.url(), "DROP DATABASE pooled WITH (FORCE)")


async def _run(url: str, statement: str) -> None:
    connection = await asyncpg.connect(url)
    try:
        await connection.execute(statement)
    finally:
        await connection.close()


def _sleep(tx: Connection) -> None:
    tx.execute(SLEEP)


async def _work(database: Database) -> None:
    """Record, look, prune old days and rotate, as a process does."""
    ledger = Ledger(database, (await database.head()).now_ms)
    source = make_source()
    await ledger.tell(source, [make_body(f"old-{number}") for number in range(3)], days_ago=40)
    for expected in (5, 0):
        answers = await ledger.tell(source, [make_body(number) for number in range(5)])
        assert (
            sum(answer.new for answer in answers if isinstance(answer, ArrivalOutcome)) == expected
        )
    due = text(f"UPDATE head SET rotated_ms = {ledger.now_ms - 35 * DAY_MS}")
    await database.write(lambda tx: tx.execute(due) and None)

    async def flush() -> None:
        """Nothing was counted in memory."""

    pruned = await Maintenance(
        database, Metrics(), flush, new_id=Clock().new_id, window_days=35, facts_days=400
    ).prune()
    assert (pruned.days, pruned.rotated) == (1, True)
    assert (await database.durability())["lock_timeout"] == "500ms"
    await database.probe(bytes(16))


@pytest.mark.usefixtures("url")
async def test_everything_works_through_a_pooler(pooler: int) -> None:
    database = await open_database(f"postgresql://postgres@127.0.0.1:{pooler}/pooled")
    try:
        assert isinstance(database, PostgresDatabase)
        assert await database.open_signal(lambda _: None) is None, "nobody can listen through it"
        # Three at once, so that there are three sessions, each transaction in another.
        await asyncio.gather(*(database.read(_sleep) for _ in range(3)))
        await _work(database)
    finally:
        await database.close()


async def test_limits_hold_for_a_transaction_and_leave_the_session_alone(url: str) -> None:
    database = await PostgresDatabase.open(Found(url, is_pooled=True), KINDS, flushers=1)
    try:
        await _work(database)

        left = await database._connections.run(lambda c: c.fetchrow(LEFT), bare=True)
    finally:
        await database.close()

    assert tuple(left) == ("0", 0)
