"""A polled route's cursor passes nothing by, whatever commits when."""

import asyncio
import threading
import time
from collections.abc import Callable
from itertools import count
from typing import Any

import asyncpg
import pytest
from sqlalchemy import func, insert, select, update

from mailonce.clock import Clock
from mailonce.core.work.states import AttemptKind, State
from mailonce.errors import MissingError, ParseError, UnavailableError
from mailonce.queue import poll
from mailonce.queue.poll import Polls
from mailonce.store.dialects.contract import Database, Tx
from mailonce.store.schema.tables import DELIVERIES, LANES
from mailonce.store.work import polls
from mailonce.store.work.polls import Read

ROUTE = "rte_polled"
_numbers = count(1)


def row(*, route: str = ROUTE, made_ms: int = 1_000, body: bytes = b'{"n":1}') -> dict[str, Any]:
    return {
        "key": next(_numbers).to_bytes(32, "big"),
        "workspace": "default",
        "route": route,
        "event": bytes(16),
        "day": 0,
        "body": body,
        "state": State.DUE,
        "lane": AttemptKind.FIRST,
        "due_ms": made_ms,
        "deadline_ms": made_ms + 1_000,
        "made_ms": made_ms,
        "attempts": 0,
        "round_began": 0,
        "redeliveries": 0,
        "again": False,
        "token": 0,
    }


async def owe(database: Database, *rows: dict[str, Any]) -> list[bytes]:
    await database.write(lambda tx: tx.execute(insert(DELIVERIES), list(rows)) and None)
    return [one["key"] for one in rows]


@pytest.fixture
async def polled(database: Database) -> Polls:
    """Two polled routes, and nothing owed yet."""
    lanes = [
        {"route": route, "owner": b"", "until_ms": 0, "seq": 0, "acknowledged": 0}
        for route in (ROUTE, "rte_other")
    ]
    await database.write(lambda tx: tx.execute(insert(LANES), lanes) and None)
    return Polls(database, Clock())


async def read(polled: Polls, after: int | None = None, limit: int = 100) -> list[bytes]:
    page = await polled.read(ROUTE, workspace="w", after=after, limit=limit, wait_s=0)
    return [one.key for one in page.rows]


async def test_events_come_in_the_order_they_were_owed_and_are_numbered_once(
    database: Database, polled: Polls
) -> None:
    late, early = row(made_ms=2_000), row(made_ms=1_000)
    await owe(database, late, early, row(route="rte_other"))

    first = await polled.read(ROUTE, workspace="w", after=None, limit=100, wait_s=0)
    again = await polled.read(ROUTE, workspace="w", after=None, limit=100, wait_s=0)

    assert [one.key for one in first.rows] == [early["key"], late["key"]]
    assert (first.rows, first.cursor) == (again.rows, again.cursor)
    assert [one.seq for one in first.rows] == [1, 2]


async def test_what_was_not_acknowledged_is_given_again_and_the_rest_is_done(
    database: Database, polled: Polls
) -> None:
    keys = await owe(database, *(row(made_ms=number) for number in range(5)))
    await read(polled)

    await polled.acknowledge(ROUTE, 3)

    assert await read(polled) == keys[3:]
    by_state = select(DELIVERIES.c.state, func.count()).group_by(DELIVERIES.c.state)
    states = await database.read(lambda tx: {one[0]: one[1] for one in tx.execute(by_state)})
    assert states == {State.DONE: 3, State.DUE: 2}
    assert await read(polled, after=0) == keys, "whoever asks for the past still gets it"


async def test_acknowledging_twice_or_less_than_before_changes_nothing(
    database: Database, polled: Polls
) -> None:
    keys = await owe(database, *(row(made_ms=number) for number in range(4)))
    await read(polled)
    await polled.acknowledge(ROUTE, 3)

    for cursor in (3, 1, 0):
        assert (await polled.acknowledge(ROUTE, cursor)).acknowledged == 3

    assert await read(polled) == keys[3:]


async def test_a_cursor_that_was_never_given_is_refused(database: Database, polled: Polls) -> None:
    await owe(database, row())
    await read(polled)

    with pytest.raises(ParseError, match="1 is the last number given"):
        await polled.acknowledge(ROUTE, 2)
    with pytest.raises(ParseError, match="1 is the last number given"):
        await polled.read(ROUTE, workspace="w", after=2, limit=10, wait_s=0)
    with pytest.raises(MissingError):
        await polled.acknowledge("rte_unknown", 0)
    with pytest.raises(MissingError):
        await polled.read("rte_unknown", workspace="w", after=None, limit=10, wait_s=0)


async def test_a_large_acknowledgement_is_taken_in_steps(
    database: Database, polled: Polls, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(poll, "ACKNOWLEDGE_ROWS_MAX", 3)
    monkeypatch.setattr(poll, "NUMBER_ROWS_MAX", 4)
    keys = await owe(database, *(row(made_ms=number) for number in range(11)))
    seen: list[bytes] = []
    cursor = 0
    while rows := (await polled.read(ROUTE, workspace="w", after=cursor, limit=5, wait_s=0)).rows:
        seen += [one.key for one in rows]
        cursor = rows[-1].seq

    mark = await polled.acknowledge(ROUTE, cursor)

    assert seen == keys
    assert mark.acknowledged == 11
    assert await read(polled) == []


async def test_a_redelivery_gets_a_new_number_behind_the_others(
    database: Database, polled: Polls
) -> None:
    keys = await owe(database, row(made_ms=1), row(made_ms=2))
    await read(polled)
    await polled.acknowledge(ROUTE, 2)

    again = update(DELIVERIES).where(DELIVERIES.c.key == keys[0])
    wanted = again.values(state=State.DUE, lane=AttemptKind.REDELIVERY, redeliveries=1, due_ms=5)
    await database.write(lambda tx: tx.execute(wanted) and None)

    page = await polled.read(ROUTE, workspace="w", after=None, limit=10, wait_s=0)
    assert [(one.key, one.seq, one.redeliveries) for one in page.rows] == [(keys[0], 3, 1)]


async def test_a_page_is_bounded_in_bytes_but_never_empty(
    database: Database, polled: Polls, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(poll, "PAGE_BYTES_MAX", 100)
    keys = await owe(
        database,
        row(made_ms=1, body=b'"' + b"x" * 200 + b'"'),
        *(row(made_ms=number, body=b'"' + b"x" * 40 + b'"') for number in (2, 3, 4)),
    )

    pages: list[list[bytes]] = []
    cursor = 0
    while page := (await polled.read(ROUTE, workspace="w", after=cursor, limit=10, wait_s=0)).rows:
        pages.append([one.key for one in page])
        cursor = page[-1].seq

    assert pages == [keys[:1], keys[1:3], keys[3:]]


async def test_a_body_that_was_forgotten_is_passed_over(database: Database, polled: Polls) -> None:
    keys = await owe(database, row(made_ms=1), {**row(made_ms=2), "body": None}, row(made_ms=3))

    page = await polled.read(ROUTE, workspace="w", after=None, limit=2, wait_s=0)

    assert ([one.key for one in page.rows], page.cursor) == (keys[:1], 2)


@pytest.mark.parametrize(("sweep_s", "wakes"), [(60, True), (0.2, False)])
async def test_one_who_waits_is_woken_by_a_commit_of_this_process_or_by_the_sweep(
    database: Database,
    polled: Polls,
    monkeypatch: pytest.MonkeyPatch,
    sweep_s: float,
    *,
    wakes: bool,
) -> None:
    monkeypatch.setattr(poll, "SWEEP_S", sweep_s)
    polled.start()
    try:
        waiting = asyncio.create_task(
            polled.read(ROUTE, workspace="w", after=0, limit=9, wait_s=25)
        )
        await asyncio.sleep(0.05)
        assert not waiting.done()
        keys = await owe(database, row())
        if wakes:
            polled.wake()
        page = await asyncio.wait_for(waiting, 60)

        assert [one.key for one in page.rows] == keys
    finally:
        await polled.stop()


async def test_many_who_wait_cost_one_question_a_sweep(
    polled: Polls, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(poll, "SWEEP_S", 0.1)
    queries: list[bool] = []
    real = polls.marks

    def counted(tx: Tx, routes: Any) -> Any:
        # One who waits asks for its own route; the sweep asks for the set of all.
        queries.append(isinstance(routes, set))
        return real(tx, routes)

    monkeypatch.setattr(polls, "marks", counted)
    polled.start()
    try:
        waiting = [
            asyncio.create_task(polled.read(ROUTE, workspace="w", after=0, limit=9, wait_s=20))
            for _ in range(60)
        ]
        while queries.count(False) < 60:
            await asyncio.sleep(0.01)
        queries.clear()
        began_s = time.monotonic()
        while len(queries) < 3:
            await asyncio.sleep(0.01)
        sweeps_max = 2 + (time.monotonic() - began_s) / poll.SWEEP_S

        assert len(queries) <= sweeps_max
        assert all(queries), "only the sweep asks"
        polled.release()
        assert all(not page.rows for page in await asyncio.wait_for(asyncio.gather(*waiting), 60))
    finally:
        await polled.stop()


async def test_whoever_leaves_in_the_turn_in_which_it_is_woken_waits_no_longer(
    polled: Polls,
) -> None:
    """`asyncio.wait_for` forgets then that it was cancelled."""
    for turns in range(6):
        waiting = asyncio.create_task(
            polled.read(ROUTE, workspace="w", after=0, limit=9, wait_s=25)
        )
        async with asyncio.timeout(60):
            while not [one for one in polled._waiters if one.woken._waiters]:
                await asyncio.sleep(0.01)
        [waiter] = polled._waiters
        waiter.woken.set()
        for _ in range(turns):
            await asyncio.sleep(0)
        waiting.cancel()

        await asyncio.wait([waiting], timeout=15)

        assert waiting.cancelled(), f"it was cancelled {turns} turns after it was woken"
        assert not polled._waiters


# The rest is about concurrent transactions, which SQLite has none of: it has one writer.
pytest_on_postgres = pytest.mark.parametrize("database_url", ["postgresql"], indirect=True)


class Writer:
    """Inserts deliveries in a transaction that stays open for as long as it is told to."""

    def __init__(self, connection: Any) -> None:
        self.connection = connection
        self.transaction = connection.transaction()

    async def insert(self, one: dict[str, Any]) -> bytes:
        columns = ", ".join(one)
        marks = ", ".join(f"${number}" for number in range(1, len(one) + 1))
        await self.connection.execute(
            f"INSERT INTO deliveries ({columns}) VALUES ({marks})", *one.values()
        )
        key: bytes = one["key"]
        return key


async def slow_batch(database_url: str, database: Database, take: Callable[[], Any]) -> set[bytes]:
    """Owe one event in a batch that is held open while others commit and are taken.

    Gives the keys that a consumer never saw.
    """
    connection = await asyncpg.connect(database_url)
    try:
        slow = Writer(connection)
        await slow.transaction.start()
        owed = [await slow.insert(row(made_ms=1_000))]
        owed += await owe(database, row(made_ms=2_000))
        seen = set(await take())
        await slow.transaction.commit()
        owed += await owe(database, row(made_ms=3_000))
        seen |= set(await take())
    finally:
        await connection.close()
    return set(owed) - seen


@pytest_on_postgres
async def test_a_batch_held_open_between_insert_and_commit_is_not_passed_by(
    database_url: str, database: Database, polled: Polls
) -> None:
    cursor = 0

    async def take() -> list[bytes]:
        nonlocal cursor
        page = await polled.read(ROUTE, workspace="w", after=cursor, limit=100, wait_s=0)
        cursor = page.cursor
        return [one.key for one in page.rows]

    assert await slow_batch(database_url, database, take) == set()


@pytest_on_postgres
async def test_a_cursor_over_the_time_or_a_sequence_passes_it_by(
    database_url: str, database: Database, polled: Polls
) -> None:
    """The broken twins: both cursors that everybody tries first lose the slow batch."""
    del polled
    await _give_numbers_at_insert(database_url)
    for column in ("made_ms", "seq"):
        last = 0

        async def take(column: str = column) -> list[bytes]:
            nonlocal last
            place = DELIVERIES.c[column]
            query = select(DELIVERIES.c.key, place).where(place > last).order_by(place)
            rows = await database.read(lambda tx: tx.execute(query).all())
            last = max([last, *(one[1] for one in rows)])
            return [one[0] for one in rows]

        lost = await slow_batch(database_url, database, take)

        assert len(lost) == 1, column
        await database.write(lambda tx: tx.execute(DELIVERIES.delete()) and None)


@pytest_on_postgres
async def test_one_numbers_at_a_time(
    database: Database, polled: Polls, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Where a second gave the same number to another row, a cursor would pass one of them by."""
    monkeypatch.setattr(poll, "NUMBER_ROWS_MAX", 1)
    numbered, go_on = threading.Event(), threading.Event()

    def dawdle(tx: Tx) -> int:
        page = polls.number(tx, ROUTE, most=1)
        numbered.set()
        go_on.wait(60)
        return page

    late = await owe(database, row(made_ms=2_000))
    first = asyncio.create_task(database.run_handler(dawdle, limit_s=20))
    await asyncio.to_thread(numbered.wait, 10)
    early = await owe(database, row(made_ms=1_000))
    second = asyncio.create_task(polled.read(ROUTE, workspace="w", after=0, limit=9, wait_s=0))
    await asyncio.wait({second}, timeout=0.2)

    assert not second.done()
    go_on.set()
    assert await first == 1
    try:
        page = await second
    except UnavailableError:
        # On a busy machine the lock may be waited for too long; whoever polls asks again.
        page = await polled.read(ROUTE, workspace="w", after=0, limit=9, wait_s=0)
    assert [(one.key, one.seq) for one in page.rows] == [(late[0], 1), (early[0], 2)]


@pytest_on_postgres
async def test_consumers_and_writers_at_once_lose_and_repeat_nothing(
    database_url: str, polled: Polls
) -> None:
    """Real transactions commit out of order while one follows the cursor and others fold, too."""
    owed: set[bytes] = set()
    writing = asyncio.Event()

    async def write(number: int) -> None:
        connection = await asyncpg.connect(database_url)
        try:
            for round_ in range(12):
                writer = Writer(connection)
                await writer.transaction.start()
                for _ in range(5):
                    owed.add(await writer.insert(row(made_ms=round_)))
                await asyncio.sleep(((number * 7 + round_ * 3) % 5) / 200)
                await writer.transaction.commit()
        finally:
            await connection.close()

    async def follow() -> list[bytes]:
        seen: list[bytes] = []
        cursor = 0
        while True:
            last_round = writing.is_set()
            page = await polled.read(ROUTE, workspace="w", after=cursor, limit=7, wait_s=0)
            assert [one.seq for one in page.rows] == sorted(one.seq for one in page.rows)
            seen += [one.key for one in page.rows]
            cursor = page.cursor
            if last_round and not page.rows:
                return seen

    followers = [asyncio.create_task(follow()) for _ in range(3)]
    await asyncio.gather(*(write(number) for number in range(6)))
    writing.set()
    for seen in await asyncio.gather(*followers):
        assert len(seen) == len(owed)
        assert set(seen) == owed


async def _give_numbers_at_insert(database_url: str) -> None:
    connection = await asyncpg.connect(database_url)
    try:
        await connection.execute("CREATE SEQUENCE plain")
        await connection.execute(
            "ALTER TABLE deliveries ALTER COLUMN seq SET DEFAULT nextval('plain')"
        )
    finally:
        await connection.close()


async def test_those_who_wait_in_one_workspace_leave_room_for_others(
    polled: Polls, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(poll, "WORKSPACE_WAITERS_MAX", 3)

    def wait(workspace: str) -> asyncio.Task[Read]:
        return asyncio.create_task(
            polled.read(ROUTE, workspace=workspace, after=0, limit=9, wait_s=20)
        )

    waiting = [wait("greedy") for _ in range(3)]
    await asyncio.sleep(0)
    with pytest.raises(UnavailableError, match="3 requests of this workspace"):
        await wait("greedy")
    modest = wait("modest")
    await asyncio.sleep(0.1)

    assert not modest.done()
    polled.release()
    for one in (*waiting, modest):
        assert (await one).rows == []
    # Whoever has gone is not counted any more.
    polled._closing = False
    again = wait("greedy")
    await asyncio.sleep(0.1)
    assert not again.done()
    polled.release()
    await again
