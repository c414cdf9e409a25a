"""Leases, their fence and their ends, alike on both databases."""

import asyncio
from typing import Any

import pytest
from sqlalchemy import insert, select, update

from mailonce.core.work.job import End, Finish, LeasedJob, LeaseRenewal, LeaseRequest, LostLease
from mailonce.core.work.lifecycle import finish
from mailonce.core.work.states import AttemptKind, State, WorkKey
from mailonce.store.dialects.contract import Database
from mailonce.store.schema.tables import ATTEMPTS, DEAD_LETTERS, DELIVERIES, EVENTS, LANES
from mailonce.store.work import pages, rows
from tests.factories import Ledger, new_id

OWNER, OTHER = b"owner", b"other"
FIRST = (AttemptKind.FIRST, AttemptKind.RETRY, AttemptKind.REDELIVERY)
LETTER = bytes(15) + b"1"


def want(
    most: int = 10, *, route: str = "rte_main", lease_ms: int = 60_000, **named: Any
) -> LeaseRequest:
    return LeaseRequest(route, most, lease_ms, named.get("lanes", FIRST))


def end(job: LeasedJob, end_: End = End.DONE, **named: Any) -> Finish:
    wait_ms = named.pop("wait_ms", 0)
    return finish(job.key, job.token, end_, wait_ms=wait_ms)._replace(**named)


async def lease(database: Database, *wants: LeaseRequest, owner: bytes = OWNER) -> list[LeasedJob]:
    routes = [one.route for one in wants]
    await database.lanes.hold(routes, owner=owner, hold_ms=60_000)
    return await database.deliveries.lease(wants, owner=owner)


async def row_of(database: Database, key: bytes) -> dict[str, Any]:
    rows = await database.read(
        lambda tx: tx.execute(select(DELIVERIES).where(DELIVERIES.c.key == key)).mappings().one()
    )
    return dict(rows)


async def change(database: Database, **values: Any) -> None:
    await database.write(lambda tx: tx.execute(update(DELIVERIES).values(**values)) and None)


async def rescue(ledger: Ledger, **named: Any) -> list[LostLease]:
    # A lease of one millisecond is over by then.
    await asyncio.sleep(0.01)
    now_ms = (await ledger.database.head()).now_ms
    return await ledger.database.write(
        lambda tx: rows.rescue(
            tx, now_ms=now_ms, new_id=lambda: new_id(now_ms), most=10,
            **({"lost_max": 3} | named),
        )
    )  # fmt: skip


async def test_a_lease_brings_the_frozen_body_and_counts_the_attempt(ledger: Ledger) -> None:
    await ledger.add_route()
    [key] = await ledger.owe()

    [job] = await lease(ledger.database, want())

    body = await ledger.database.read(lambda tx: tx.scalar(select(EVENTS.c.body)))
    assert (job.key, job.attempt, job.step, job.token) == (key, 1, 1, 1)
    assert job.body == body
    assert 0 < job.left_ms <= 4 * 86_400_000
    row = await row_of(ledger.database, key)
    assert (row["state"], row["attempts"], row["token"]) == (State.LEASED, 1, 1)


async def test_no_delivery_is_leased_twice(ledger: Ledger) -> None:
    await ledger.add_route()
    keys = await ledger.owe(40)
    await ledger.database.lanes.hold(["rte_main"], owner=OWNER, hold_ms=60_000)

    leases = await asyncio.gather(
        *(ledger.database.deliveries.lease([want(5)], owner=OWNER) for _ in range(12))
    )

    leased = [job.key for jobs in leases for job in jobs]
    assert sorted(leased) == keys


async def test_a_lane_belongs_to_one_owner_until_its_time_is_over(ledger: Ledger) -> None:
    await ledger.add_route()
    await ledger.owe()
    hold = ledger.database.lanes.hold
    assert await hold(["rte_main"], owner=OWNER, hold_ms=60_000) == {"rte_main"}

    denied = await hold(["rte_main"], owner=OTHER, hold_ms=60_000)
    nothing = await ledger.database.deliveries.lease([want()], owner=OTHER)
    await ledger.database.write(lambda tx: tx.execute(update(LANES).values(until_ms=1)) and None)
    too_late = await ledger.database.deliveries.lease([want()], owner=OWNER)
    taken = await hold(["rte_main"], owner=OTHER, hold_ms=60_000)

    assert (denied, nothing, too_late, taken) == (set(), [], [], {"rte_main"})


async def test_lanes_that_were_let_go_are_free(ledger: Ledger) -> None:
    await ledger.add_route()
    hold = ledger.database.lanes.hold
    await hold(["rte_main"], owner=OWNER, hold_ms=60_000)

    await ledger.database.lanes.let_go(OWNER)

    assert await hold(["rte_main"], owner=OTHER, hold_ms=1) == {"rte_main"}


async def test_lanes_are_filled_in_the_order_asked_and_not_beyond(ledger: Ledger) -> None:
    await ledger.add_route()
    await ledger.owe(3)
    await change(ledger.database, lane=AttemptKind.RETRY)
    await ledger.owe(3)

    firsts = await lease(ledger.database, want(4))
    rest = await lease(ledger.database, want(1), want(4, lanes=(AttemptKind.RETRY, *FIRST[::2])))

    assert sorted(job.lane for job in firsts) == [AttemptKind.FIRST] * 3 + [AttemptKind.RETRY]
    assert [job.lane for job in rest] == [AttemptKind.RETRY] * 2


async def test_what_is_not_due_yet_is_not_leased_but_seen(ledger: Ledger) -> None:
    await ledger.add_route(id="rte_a")
    await ledger.add_route(id="rte_b")
    await ledger.owe()
    await ledger.database.write(
        lambda tx: tx.execute(
            update(DELIVERIES).where(DELIVERIES.c.route == "rte_b")
            .values(due_ms=DELIVERIES.c.due_ms + 60_000)
        ) and None
    )  # fmt: skip

    leased = await lease(ledger.database, want(route="rte_a"), want(route="rte_b"))
    look = await ledger.database.deliveries.look()

    assert [job.route for job in leased] == ["rte_a"]
    [owed] = look.owed
    assert owed.route == "rte_b"
    assert 50_000 < owed.due_in_ms <= 60_000
    assert not look.has_lost


async def test_a_lease_that_ran_out_is_seen(ledger: Ledger) -> None:
    await ledger.add_route()
    await ledger.owe()
    await lease(ledger.database, want(lease_ms=1))

    await asyncio.sleep(0.01)

    look = await ledger.database.deliveries.look()
    assert look.has_lost
    assert look.owed == []


async def test_done_is_written_with_its_attempt(ledger: Ledger) -> None:
    await ledger.add_route()
    await ledger.owe()
    [job] = await lease(ledger.database, want())

    stood = await ledger.database.deliveries.finish(
        [end(job, status=204, latency_ms=7, answer=b"thanks")]
    )

    row = await row_of(ledger.database, job.key)
    tried = await ledger.database.read(lambda tx: tx.execute(select(ATTEMPTS)).mappings().one())
    assert stood == {job.key}
    assert (row["state"], row["status"], row["lease_ms"]) == (State.DONE, 204, None)
    assert row["done_ms"] is not None
    assert tried["at_ms"] == row["done_ms"] - 7
    assert (tried["attempt"], tried["latency_ms"], bytes(tried["answer"])) == (1, 7, b"thanks")


async def test_a_retry_waits_in_its_own_lane(ledger: Ledger) -> None:
    await ledger.add_route()
    await ledger.owe()
    [job] = await lease(ledger.database, want())

    await ledger.database.deliveries.finish(
        [end(job, End.RETRY, wait_ms=30_000, status=503, error="answered 503")]
    )

    row = await row_of(ledger.database, job.key)
    now_ms = (await ledger.database.head()).now_ms
    assert (row["state"], row["lane"], row["error"]) == (
        State.DUE,
        AttemptKind.RETRY,
        "answered 503",
    )
    assert 25_000 < row["due_ms"] - now_ms <= 30_000


async def test_a_dead_delivery_leaves_a_letter_with_its_bytes(ledger: Ledger) -> None:
    await ledger.add_route()
    await ledger.owe()
    [job] = await lease(ledger.database, want())

    await ledger.database.deliveries.finish(
        [end(job, End.DEAD, error="answered 400", reason="permanent", letter=LETTER)]
    )

    row = await row_of(ledger.database, job.key)
    letter = await ledger.database.read(
        lambda tx: tx.execute(select(DEAD_LETTERS)).mappings().one()
    )
    assert row["state"] == State.DEAD
    assert (letter["kind"], letter["reason"], letter["last_error"], letter["attempts"]) == (
        "delivery", "permanent", "answered 400", 1,
    )  # fmt: skip
    assert (letter["route"], bytes(letter["delivery"])) == ("rte_main", job.key)
    assert (letter["source"], letter["arrival_key"]) == ("src_main", job.key.hex())
    assert bytes(letter["raw"]) == job.body
    assert letter["resolved_ms"] is None


async def test_only_a_lease_that_still_stands_is_renewed(ledger: Ledger) -> None:
    await ledger.add_route()
    await ledger.owe(3)
    held, over, ended = await lease(ledger.database, want())
    before = await row_of(ledger.database, held.key)
    await ledger.database.deliveries.finish([end(ended, status=200)])
    expired = update(DELIVERIES).where(DELIVERIES.c.key == over.key).values(lease_ms=1)
    await ledger.database.write(lambda tx: tx.execute(expired) and None)

    renewed = await ledger.database.deliveries.renew(
        [LeaseRenewal(one.key, one.token, 600_000) for one in (held, over, ended)]
    )
    by_others = await ledger.database.deliveries.renew(
        [LeaseRenewal(held.key, held.token - 1, 900_000)]
    )

    assert (renewed, by_others) == ({held.key}, set())
    after = await row_of(ledger.database, held.key)
    assert 540_000 <= after["lease_ms"] - before["lease_ms"] < 800_000
    assert (await row_of(ledger.database, over.key))["lease_ms"] == 1
    assert (await row_of(ledger.database, ended.key))["lease_ms"] is None


async def test_a_stale_worker_changes_nothing(ledger: Ledger) -> None:
    """Paused past its lease, it comes back after another has it, has finished it, or nobody has."""
    await ledger.add_route()
    await ledger.owe()
    [stale] = await lease(ledger.database, want(lease_ms=1))
    late = [end(stale, End.DEAD, reason="attempts", letter=LETTER)]

    await rescue(ledger)
    while_due = await ledger.database.deliveries.finish(late)
    [fresh] = await lease(ledger.database, want())
    while_leased = await ledger.database.deliveries.finish(late)
    stood = await ledger.database.deliveries.finish([end(fresh, status=200)])
    when_done = await ledger.database.deliveries.finish(late)

    row = await row_of(ledger.database, stale.key)
    letters = await ledger.database.read(lambda tx: tx.execute(select(DEAD_LETTERS)).all())
    assert (while_due, while_leased, stood, when_done) == (set(), set(), {fresh.key}, set())
    assert (row["state"], row["status"], fresh.attempt) == (State.DONE, 200, 2)
    assert letters == []


async def test_of_a_batch_only_what_is_fenced_off_is_missing(ledger: Ledger) -> None:
    await ledger.add_route()
    await ledger.owe(3)
    jobs = await lease(ledger.database, want())
    await ledger.database.deliveries.finish([end(jobs[1], End.RETRY)])

    stood = await ledger.database.deliveries.finish([end(job) for job in jobs])

    assert stood == {jobs[0].key, jobs[2].key}


async def test_ends_of_every_kind_are_written_together(ledger: Ledger) -> None:
    await ledger.add_route()
    await ledger.owe(4)
    jobs = await lease(ledger.database, want())
    ends = [
        end(jobs[0], status=200), end(jobs[1], End.RETRY, status=500), end(jobs[3], End.UNTRIED),
        end(jobs[2], End.DEAD, letter=new_id(1), reason="attempts"),
    ]  # fmt: skip

    stood = await ledger.database.deliveries.finish(ends)

    ended = [await row_of(ledger.database, job.key) for job in jobs]
    assert stood == {job.key for job in jobs}
    assert [row["state"] for row in ended] == [State.DONE, State.DUE, State.DEAD, State.DUE]
    assert [row["status"] for row in ended] == [200, 500, None, None]
    assert [row["attempts"] for row in ended] == [1, 1, 1, 0]


async def test_a_lost_lease_is_due_again_and_after_too_many_a_dead_letter(ledger: Ledger) -> None:
    await ledger.add_route()
    [key] = await ledger.owe()
    rescued = []

    for _ in range(3):
        await lease(ledger.database, want(lease_ms=1))
        rescued += await rescue(ledger)

    row = await row_of(ledger.database, key)
    letter = await ledger.database.read(
        lambda tx: tx.execute(select(DEAD_LETTERS)).mappings().one()
    )
    tried = await ledger.database.read(lambda tx: tx.execute(select(ATTEMPTS)).mappings().all())
    assert [one.is_dead for one in rescued] == [False, False, True]
    assert (row["state"], row["attempts"]) == (State.DEAD, 3)
    assert (letter["reason"], letter["attempts"]) == ("lease_lost", 3)
    assert [(one["attempt"], one["error"]) for one in tried] == [
        (number, "lease_lost") for number in (1, 2, 3)
    ]


async def test_a_lease_in_force_is_not_rescued(ledger: Ledger) -> None:
    await ledger.add_route()
    await ledger.owe()
    await lease(ledger.database, want())

    assert await rescue(ledger) == []
    assert await rescue(ledger, alive=(OWNER,)) == []
    assert len(await rescue(ledger, alive=(OTHER,))) == 1


@pytest.mark.parametrize(
    "holder", [{"leased_by": None, "leased_token": None}, {"leased_token": 0}], ids=["none", "old"]
)
async def test_a_lease_without_its_holder_is_rescued_at_a_start(
    ledger: Ledger, holder: dict[str, Any]
) -> None:
    await ledger.add_route()
    await ledger.owe()
    await lease(ledger.database, want())
    await change(ledger.database, **holder)

    assert len(await rescue(ledger, alive=(OWNER,))) == 1


@pytest.mark.parametrize("ending", [End.DONE, End.RETRY, End.DEAD])
async def test_asked_for_again_while_leased_it_is_due_again_at_its_end(
    ledger: Ledger, ending: End
) -> None:
    await ledger.add_route()
    await ledger.owe()
    [job] = await lease(ledger.database, want())
    await change(ledger.database, again=True, redeliveries=1)

    finish = end(job, ending, wait_ms=60_000, letter=LETTER, reason="attempts")
    await ledger.database.deliveries.finish([finish])
    [again] = await lease(ledger.database, want())

    letters = await ledger.database.read(lambda tx: tx.execute(select(DEAD_LETTERS)).all())
    assert (again.lane, again.attempt, again.step) == (AttemptKind.REDELIVERY, 2, 1)
    assert again.redeliveries == 1
    assert letters == []
    await ledger.database.deliveries.finish([end(again)])
    assert (await row_of(ledger.database, job.key))["state"] == State.DONE


async def test_asked_for_again_and_lost_it_is_due_again(ledger: Ledger) -> None:
    await ledger.add_route()
    await ledger.owe()
    await lease(ledger.database, want(lease_ms=1))
    await change(ledger.database, again=True, redeliveries=1)

    await rescue(ledger, lost_max=1)
    [again] = await lease(ledger.database, want())

    assert (again.lane, again.step) == (AttemptKind.REDELIVERY, 1)


async def test_what_was_not_started_goes_back_with_its_attempt(ledger: Ledger) -> None:
    await ledger.add_route()
    await ledger.owe()
    [job] = await lease(ledger.database, want())

    await ledger.database.deliveries.finish([end(job, End.UNTRIED)])
    [same] = await lease(ledger.database, want())

    tried = await ledger.database.read(lambda tx: tx.execute(select(ATTEMPTS)).all())
    assert (same.attempt, same.lane, same.token) == (1, AttemptKind.FIRST, 2)
    assert tried == []


async def test_a_handlers_own_transaction_ends_the_lease_or_nothing(ledger: Ledger) -> None:
    await ledger.add_route()
    await ledger.owe()
    [stale] = await lease(ledger.database, want(lease_ms=1))
    await rescue(ledger)
    [fresh] = await lease(ledger.database, want())

    def complete(job: LeasedJob) -> Any:
        return ledger.database.write(lambda tx: rows.complete(tx, job, now_ms=ledger.now_ms))

    results = [await complete(stale), await complete(fresh), await complete(fresh)]

    assert results == [False, True, False]
    assert (await row_of(ledger.database, fresh.key))["state"] == State.DONE


async def test_a_delivery_whose_body_is_gone_is_leased_without_one(ledger: Ledger) -> None:
    await ledger.add_route()
    await ledger.owe()
    await ledger.database.write(lambda tx: tx.execute(EVENTS.delete()) and None)

    [job] = await lease(ledger.database, want())
    await ledger.database.deliveries.finish([end(job, End.DEAD, reason="gone", letter=LETTER)])

    letter = await ledger.database.read(
        lambda tx: tx.execute(select(DEAD_LETTERS)).mappings().one()
    )
    assert job.body is None
    assert (letter["source"], bytes(letter["raw"])) == ("", b"")


async def test_keys_of_the_answer_are_bytes(ledger: Ledger) -> None:
    await ledger.add_route()
    await ledger.owe()
    [job] = await lease(ledger.database, want())

    stood = await ledger.database.deliveries.finish([end(job)])

    assert stood == {WorkKey(bytes(job.key))}


async def test_the_first_success_of_each_delivery_is_told_from_failures_and_redeliveries(
    ledger: Ledger,
) -> None:
    await ledger.add_route()
    sent, failed = await ledger.owe(2)
    attempts = [
        {
            "delivery": key, "attempt": attempt, "at_ms": 100 * attempt, "latency_ms": 5,
            "status": None, "error": error, "answer": None,
        }
        for key, attempt, error in (
            (sent, 1, "answered 500"), (sent, 2, None), (sent, 3, None), (failed, 1, "timeout"),
        )
    ]  # fmt: skip
    await ledger.database.write(lambda tx: tx.execute(insert(ATTEMPTS), attempts) and None)

    first = await ledger.database.read(lambda tx: pages.first_successes(tx, [sent, failed]))

    assert first == {sent: (2, 205)}
