"""Both databases do what the table in core says, whichever statement does it."""

import asyncio
import itertools
from collections.abc import Awaitable, Callable
from typing import Any

import asyncpg
import pytest
from sqlalchemy import Connection, delete, insert, select

from mailonce.core.deliveries.rerun import RerunFilter
from mailonce.core.work.job import End, LeasedJob
from mailonce.core.work.lifecycle import MOVES, Act, Due, Move, end_of_lease, finish
from mailonce.core.work.states import AttemptKind, State, WorkKey
from mailonce.store.database import open_database
from mailonce.store.dialects.contract import Database
from mailonce.store.dialects.postgres import session
from mailonce.store.schema.tables import ATTEMPTS, DEAD_LETTERS, DELIVERIES
from mailonce.store.work import redelivery, rows
from mailonce.store.work.redelivery import RedeliveryRequest
from tests.factories import Ledger, new_id

KEY = WorkKey(b"k" * 32)
TOKEN, ATTEMPT, ROUND_BEGAN, WAIT_MS, LONG_AGO_MS = 7, 5, 2, 60_000, 1_000
ROW: dict[str, Any] = {
    "key": KEY, "workspace": "default", "route": "rte_main", "event": b"e", "day": 1,
    "body": b"{}", "lane": 0, "due_ms": LONG_AGO_MS, "deadline_ms": LONG_AGO_MS, "made_ms": 1,
    "attempts": ATTEMPT, "round_began": ROUND_BEGAN, "redeliveries": 0, "again": False,
    "token": TOKEN, "leased_by": b"w", "leased_token": TOKEN, "status": 418, "error": "before",
}  # fmt: skip
JOB = LeasedJob(KEY, TOKEN, "rte_main", AttemptKind.FIRST, ATTEMPT, ROUND_BEGAN, 0, 1, 1, b"{}")
# Of times that the database's clock gives, this much is known.
SOON_MS = 60_000
WAITING = """
    SELECT count(*) FROM pg_stat_activity
    WHERE datname = current_database() AND wait_event_type = 'Lock'
"""
Do = Callable[[Database, int], Awaitable[object]]


async def put(database: Database, **changes: Any) -> dict[str, Any]:
    row = ROW | {"lease_ms": None, "done_ms": None} | changes

    def work(tx: Connection) -> None:
        for table in (DELIVERIES, ATTEMPTS, DEAD_LETTERS):
            tx.execute(delete(table))
        tx.execute(insert(DELIVERIES).values(**row))

    await database.write(work)
    return row


async def check(database: Database, before: dict[str, Any], move: Move, now_ms: int) -> None:
    after = await database.read(lambda tx: dict(tx.execute(select(DELIVERIES)).mappings().one()))
    letters = await database.read(lambda tx: tx.execute(select(DEAD_LETTERS)).mappings().all())
    due_in_ms = move.due_in_ms(WAIT_MS)
    assert after["state"] == move.state
    assert after["lane"] == max(before["lane"], move.lane)
    if due_in_ms is None:
        assert after["due_ms"] == before["due_ms"]
    else:
        assert abs(after["due_ms"] - now_ms - due_in_ms) < SOON_MS
    assert after["round_began"] == (before["attempts"] if move.new_round else ROUND_BEGAN)
    assert after["attempts"] == before["attempts"] - (not move.counts)
    assert after["again"] == (before["again"] if move.again is None else move.again)
    assert (after["done_ms"] is not None) == move.is_end
    assert [letter["delivery"] for letter in letters] == (
        [KEY] if move.state is State.DEAD and before["state"] != State.DEAD else []
    )
    for letter in letters:
        assert (letter["attempts"], letter["last_error"]) == (after["attempts"], after["error"])
        assert (bytes(letter["raw"]), letter["route"]) == (b"{}", "rte_main")


def finishing(end: End) -> Do:
    async def do(database: Database, now_ms: int) -> object:
        one = finish(KEY, TOKEN, end, wait_ms=WAIT_MS)
        met = one._replace(letter=new_id(now_ms), reason="why", error="met")
        return await database.deliveries.finish([met])

    return do


def losing(lost_max: int) -> Do:
    async def do(database: Database, now_ms: int) -> object:
        return await database.write(
            lambda tx: rows.rescue(
                tx, now_ms=now_ms, new_id=lambda: new_id(now_ms), lost_max=lost_max, most=9
            )
        )

    return do


async def completing(database: Database, now_ms: int) -> object:
    return await database.write(lambda tx: rows.complete(tx, JOB, now_ms=now_ms))


async def giving_up(database: Database, now_ms: int) -> object:
    return await database.write(
        lambda tx: rows.give_up(
            tx, "rte_main", reason="deadline", until_ms=now_ms, now_ms=now_ms,
            new_id=lambda: new_id(now_ms), most=9,
        )
    )  # fmt: skip


async def redelivering(database: Database, now_ms: int) -> object:
    again = RedeliveryRequest(now_ms, 0, {"rte_main": 60})
    by_key = redelivery.by_keys([KEY])
    return await database.write(
        lambda tx: redelivery.redeliver(tx, "default", RerunFilter(ids=(KEY,)), by_key, again)
    )


ENDS: dict[str, tuple[End, Do]] = {
    "done": (End.DONE, finishing(End.DONE)),
    "retry": (End.RETRY, finishing(End.RETRY)),
    "dead": (End.DEAD, finishing(End.DEAD)),
    "untried": (End.UNTRIED, finishing(End.UNTRIED)),
    "lost": (End.LOST, losing(3)),
    "lost too often": (End.LOST_TOO_OFTEN, losing(1)),
    "completed by a handler": (End.DONE, completing),
}


async def test_every_end_of_a_lease(ledger: Ledger, subtests: pytest.Subtests) -> None:
    await ledger.add_route()
    database = ledger.database
    now_ms = (await database.head()).now_ms
    for (name, (end, do)), again, lane in itertools.product(
        ENDS.items(), (False, True), AttemptKind
    ):
        with subtests.test(name, again=again, lane=lane.name):
            before = await put(
                database, state=State.LEASED, lane=lane, again=again, lease_ms=LONG_AGO_MS
            )

            assert await do(database, now_ms)

            await check(database, before, end_of_lease(end, again=again), now_ms)
            tried = await database.read(lambda tx: tx.execute(select(ATTEMPTS)).all())
            assert [row.attempt for row in tried] == ([] if end is End.UNTRIED else [ATTEMPT])


async def test_no_end_of_another_lease_changes_anything(
    ledger: Ledger, subtests: pytest.Subtests
) -> None:
    database = ledger.database
    ends = [(name, do) for name, (_, do) in ENDS.items() if not name.startswith("lost")]
    others: list[dict[str, Any]] = [
        *({"state": state} for state in (State.DUE, State.DONE, State.DEAD)),
        {"state": State.LEASED, "token": TOKEN + 1},
    ]
    for (name, do), now in itertools.product(ends, others):
        with subtests.test(name, now=str(now)):
            before = await put(database, **now)

            assert not await do(database, 1)

            after = await database.read(lambda tx: tx.execute(select(DELIVERIES)).mappings().one())
            assert {field: after[field] for field in before} == before


async def test_a_redelivery_from_each_state(ledger: Ledger, subtests: pytest.Subtests) -> None:
    await ledger.add_route()
    database = ledger.database
    now_ms = (await database.head()).now_ms
    for state, lane, again in itertools.product(State, AttemptKind, (False, True)):
        with subtests.test(state.name, lane=lane.name, again=again):
            done_ms = 5 if state in {State.DONE, State.DEAD} else None
            before = await put(database, state=state, lane=lane, again=again, done_ms=done_ms)

            assert await redelivering(database, now_ms) == 1

            await check(database, before, MOVES[state, Act.REDELIVER], now_ms)


async def test_what_is_past_its_deadline_ends_from_due_alone(
    ledger: Ledger, subtests: pytest.Subtests
) -> None:
    database = ledger.database
    now_ms = (await database.head()).now_ms
    for state in State:
        with subtests.test(state.name):
            before = await put(database, state=state, done_ms=5 if state >= State.DONE else None)

            gone = await giving_up(database, now_ms)

            assert gone == (state is State.DUE)
            as_before = Move(state, due=Due.AS_BEFORE)
            move = MOVES.get((state, Act.EXPIRE), as_before)
            await check(database, before, move, now_ms)


@pytest.fixture
def patience(monkeypatch: pytest.MonkeyPatch) -> None:
    """Let statements wait for a row for as long as a busy machine needs."""
    for name in ("lock_timeout", "statement_timeout"):
        monkeypatch.setitem(session.SESSION, name, "60s")


@pytest.mark.usefixtures("patience")
@pytest.mark.parametrize("database_url", ["postgresql"], indirect=True)
@pytest.mark.parametrize("end", [End.DONE, End.RETRY, End.DEAD])
async def test_a_redelivery_that_commits_while_the_end_waits_for_the_row_is_kept(
    database_url: str, end: End
) -> None:
    database = await open_database(database_url)
    asking = await asyncpg.connect(database_url)
    try:
        await put(database, state=State.LEASED, lease_ms=LONG_AGO_MS)
        now_ms = (await database.head()).now_ms
        transaction = asking.transaction()
        await transaction.start()
        await asking.execute("UPDATE deliveries SET again = true, redeliveries = 1")

        ending = asyncio.ensure_future(finishing(end)(database, now_ms))
        while not await asking.fetchval(WAITING):
            assert not ending.done()
            await asyncio.sleep(0.01)
        await transaction.commit()

        assert await ending == {KEY}
        row = await database.read(lambda tx: tx.execute(select(DELIVERIES)).mappings().one())
        letters = await database.read(lambda tx: tx.execute(select(DEAD_LETTERS)).all())
    finally:
        await asking.close()
        await database.close()
    assert (row["state"], row["lane"], row["again"]) == (State.DUE, AttemptKind.REDELIVERY, False)
    assert (row["round_began"], row["done_ms"], letters) == (ATTEMPT, None, [])
