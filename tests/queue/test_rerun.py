"""Redeliver and reprocess: what is owed again, under which key, and how far a rerun got."""

import asyncio
import os
from collections import Counter
from collections.abc import Iterable
from dataclasses import replace
from functools import partial
from hashlib import sha256
from types import SimpleNamespace
from typing import Any

import orjson
import psutil
import pytest
from sqlalchemy import func, select, text, update

from mailonce.clock import Clock
from mailonce.core.deliveries.delivery import key_of
from mailonce.core.deliveries.rerun import Rerun, RerunFilter, RerunKind, RerunState
from mailonce.core.events.event import EventType
from mailonce.core.ids import public
from mailonce.core.query import DeliveryFilter
from mailonce.core.work.states import AttemptKind, State
from mailonce.errors import ClashError, MissingError, RefusedError
from mailonce.pipeline.retry_dead_letter import retry
from mailonce.queue.configuration import ConfigurationCache
from mailonce.queue.rerun import ABANDONED_MS, REPROCESS_ROWS, SLICE_ROWS, ReadArrivals, Reruns
from mailonce.store.configuration import routes, sources
from mailonce.store.dialects.contract import DAY_MS, Database
from mailonce.store.ledger import dead_letters
from mailonce.store.schema.tables import DEAD_LETTERS, DELIVERIES, EVENTS, RERUNS
from mailonce.store.work import pages, reruns
from mailonce.store.work import rows as work_rows
from mailonce.telemetry import Metrics
from mailonce.views.reread import arrivals_reader
from tests.factories import SEALER, Ledger, make_source, new_id

REDELIVERY, REPROCESSING = RerunKind.REDELIVERY, RerunKind.REPROCESSING
EVERYTHING = RerunFilter()
MISSING = RerunFilter(route="rte_main", missing=True)
FILL_ROWS = 20_000


class Bench:
    """Reruns of one process, over the deliveries of a ledger."""

    def __init__(self, ledger: Ledger) -> None:
        self.ledger = ledger
        self.database: Database = ledger.database
        self.configuration = ConfigurationCache(self.database, Clock(), SEALER, Metrics())
        self.woken: list[str] = []
        self.reruns = self.another()

    def another(self, read: ReadArrivals | None = None) -> Reruns:
        return Reruns(
            self.database,
            Clock(),
            self.configuration,
            read or arrivals_reader(self.database),
            window_days=35,
            wake=self.woken.extend,
        )

    async def owe(self, number: int, **changes: Any) -> list[bytes]:
        """Owe events to the main route, then change what stands of them."""
        if not self.ledger.routes:
            await self.ledger.add_route()
        if not self.configuration.snapshot.sources:
            await self.database.write(
                lambda tx: sources.put(
                    tx, make_source(), SEALER, origin="api", now_ms=0, chance=os.urandom
                )
            )
        await self.configuration.reload()
        keys = await self.ledger.owe(number)
        if changes:
            await self.change(keys, **changes)
        return keys

    async def change(self, keys: list[bytes], **changes: Any) -> None:
        statement = update(DELIVERIES).where(DELIVERIES.c.key.in_(keys)).values(**changes)
        await self.database.write(lambda tx: tx.execute(statement) and None)

    async def rows(self) -> dict[bytes, Any]:
        rows = await self.database.read(lambda tx: tx.execute(select(DELIVERIES)).all())
        return {bytes(row.key): row for row in rows}

    async def make(self, asked: RerunFilter = EVERYTHING, kind: RerunKind = REDELIVERY) -> Rerun:
        return await self.reruns.make("default", kind, asked)

    async def finish(self, rerun: Rerun) -> Rerun:
        for _ in range(10_000):
            await self.reruns.step()
            rerun = await self.find(rerun)
            if rerun.state is not RerunState.RUNNING:
                return rerun
        raise AssertionError("the rerun never ends")

    async def find(self, rerun: Rerun) -> Rerun:
        return await self.reruns.find(rerun.workspace, rerun.kind, rerun.id)

    async def run(self, asked: RerunFilter = EVERYTHING, kind: RerunKind = REDELIVERY) -> Rerun:
        return await self.finish(await self.make(asked, kind))


@pytest.fixture
def bench(ledger: Ledger) -> Bench:
    return Bench(ledger)


async def test_a_redelivery_owes_the_same_row_again(bench: Bench) -> None:
    [key] = await bench.owe(1, state=State.DONE, attempts=3, done_ms=1, status=200, token=7)
    before = (await bench.rows())[key]

    done = await bench.run()

    after = (await bench.rows())[key]
    assert (done.total, done.done, done.state) == (1, 1, RerunState.FINISHED)
    assert (after.state, after.lane, after.redeliveries) == (State.DUE, AttemptKind.REDELIVERY, 1)
    assert (after.attempts, after.round_began, after.token) == (3, 3, 7)
    assert (after.body, after.event, after.day) == (before.body, before.event, before.day)
    assert after.deadline_ms > before.deadline_ms
    assert after.due_ms <= (await bench.database.head()).now_ms
    assert bench.woken == ["rte_main"]


async def test_what_is_on_lease_is_asked_for_once_more(bench: Bench) -> None:
    [key] = await bench.owe(
        1, state=State.LEASED, attempts=1, token=5, lease_ms=2**40, deadline_ms=7
    )

    done = await bench.run(RerunFilter(ids=(key,)))

    row = (await bench.rows())[key]
    assert done.done == 1
    # Its old deadline is past, and would end the attempt that was asked for.
    assert row.deadline_ms > row.made_ms
    assert (row.state, row.again, row.redeliveries, row.token) == (State.LEASED, True, 1, 5)


async def test_what_is_still_owed_is_left_alone_unless_it_is_named(bench: Bench) -> None:
    later = (await bench.database.head()).now_ms + 3_600_000
    [key] = await bench.owe(1, due_ms=later, lane=AttemptKind.RETRY)

    of_all = await bench.run()
    untouched = (await bench.rows())[key].due_ms
    named = await bench.run(RerunFilter(ids=(key,)))

    row = (await bench.rows())[key]
    assert (of_all.total, of_all.done, untouched) == (0, 0, later)
    assert (named.done, row.state, row.redeliveries) == (1, State.DUE, 0)
    assert row.due_ms < later


async def test_a_dead_letter_is_resolved_with_its_redelivery(bench: Bench) -> None:
    [key] = await bench.owe(1)
    await _give_up(bench)
    [letter] = await _letters(bench)

    await bench.reruns.retry(letter)
    await bench.reruns.retry((await _letters(bench))[0])

    [resolved] = await _letters(bench)
    row = (await bench.rows())[key]
    assert (letter.resolved_ms, letter.reason, letter.arrival_key) == (None, "off", key.hex())
    assert resolved.resolved_ms is not None
    assert (row.state, row.redeliveries) == (State.DUE, 1), "a second retry changes nothing"


async def test_what_a_redelivery_made_due_is_told_from_what_was_pending(bench: Bench) -> None:
    ours = await bench.owe(SLICE_ROWS + 5, state=State.DONE, done_ms=1)
    [pending] = await bench.owe(1)

    first = await bench.run()
    counted = await _undelivered(bench, first)
    await bench.change(ours[:2], state=State.DONE)
    second = await bench.run()

    rows = await bench.rows()
    assert (first.done, counted) == (SLICE_ROWS + 5, SLICE_ROWS + 5)
    assert rows[pending].redelivery is None
    assert (await _undelivered(bench, first), await _undelivered(bench, second)) == (
        SLICE_ROWS + 3, 2,
    )  # fmt: skip


async def test_a_retried_letter_belongs_to_no_redelivery_any_more(bench: Bench) -> None:
    [key] = await bench.owe(1, state=State.DONE, done_ms=1)
    done = await bench.run()
    of_redelivery = (await bench.rows())[key].redelivery
    await _give_up(bench)
    [letter] = await _letters(bench)

    await bench.reruns.retry(letter)

    assert bytes(of_redelivery) == done.id
    assert (await bench.rows())[key].redelivery is None


async def _undelivered(bench: Bench, of: Rerun) -> int:
    where = DeliveryFilter(redelivery=of.id)
    sums = await bench.database.read(lambda tx: pages.count_undelivered(tx, "default", where))
    return sum(one.times for one in sums)


@pytest.mark.parametrize("state", [State.LEASED, State.DONE])
async def test_a_letter_that_two_people_retry_at_once_is_sent_once(
    bench: Bench, state: State
) -> None:
    [key] = await bench.owe(1)
    await _give_up(bench)
    [letter] = await _letters(bench)

    is_first = await bench.reruns.retry(letter)
    await bench.change([key], state=state)
    is_second = await bench.reruns.retry(letter)

    row = (await bench.rows())[key]
    assert (is_first, is_second) == (True, False)
    assert (row.state, row.again, row.redeliveries) == (state, False, 1)


async def test_a_letter_that_is_dismissed_while_it_is_retried_stays_closed(bench: Bench) -> None:
    [key] = await bench.owe(1)
    await _give_up(bench)
    [letter] = await _letters(bench)

    async def redeliver(read: dead_letters.DeadLetter) -> bool:
        await bench.database.write(
            lambda tx: dead_letters.dismiss(
                tx, "default", letter.id, by="key_1", because="known", now_ms=1
            )
        )
        return await bench.reruns.retry(read)

    parts: Any = SimpleNamespace(database=bench.database, clock=Clock())
    with pytest.raises(ClashError, match=r"is closed already: dismissed \(known\)"):
        await retry(parts, {}, redeliver, "default", public("dead", letter.id))

    assert (await bench.rows())[key].state == State.DEAD


async def test_a_dead_letter_of_a_removed_route_is_refused_and_stays_as_it_is(
    bench: Bench,
) -> None:
    await bench.owe(1)
    await _give_up(bench)
    [letter] = await _letters(bench)
    await bench.database.write(lambda tx: routes.remove(tx, "default", "rte_main"))
    await bench.configuration.reload()
    parts: Any = SimpleNamespace(database=bench.database, clock=Clock())
    before = await bench.rows()

    with pytest.raises(RefusedError, match="its route was removed"):
        await retry(parts, {}, bench.reruns.retry, "default", public("dead", letter.id))

    assert await _letters(bench) == [letter], "not closed, not counted, its last error kept"
    assert await bench.rows() == before


async def test_a_filter_takes_what_it_names_and_a_dry_run_counts_the_same(bench: Bench) -> None:
    await bench.ledger.add_route()
    await bench.ledger.add_route(id="rte_other")
    keys = await bench.owe(10, state=State.DONE, done_ms=1)
    of_main = [key for key, row in (await bench.rows()).items() if row.route == "rte_main"]
    await bench.change(of_main[:3], state=State.DEAD)
    await bench.change(of_main[3:5], made_ms=1_000)
    now_ms = (await bench.database.head()).now_ms
    expected = {
        RerunFilter(): 20,
        RerunFilter(route="rte_main"): 10,
        RerunFilter(route="rte_main", states=(State.DEAD,)): 3,
        RerunFilter(until_ms=1_001): 2,
        RerunFilter(since_ms=1_001): 18,
        RerunFilter(since_ms=now_ms + DAY_MS): 0,
        RerunFilter(type=EventType.DELIVERED): 20,
        RerunFilter(type=EventType.OPENED): 0,
        RerunFilter(ids=tuple(keys[:4])): 4,
        RerunFilter(route="rte_missing"): 0,
    }
    for filter_, number in expected.items():
        await bench.change(keys, state=State.DONE, redeliveries=0)
        await bench.change(of_main[:3], state=State.DEAD)

        counted = (await bench.reruns.count("default", REDELIVERY, filter_)).total
        done = await bench.run(filter_)

        changed = sum(row.redeliveries for row in (await bench.rows()).values())
        assert (counted, done.done, changed) == (number, number, number), filter_


async def test_what_is_counted_is_what_is_done_where_a_route_was_removed(bench: Bench) -> None:
    await bench.ledger.add_route()
    await bench.ledger.add_route(id="rte_gone")
    await bench.owe(3, state=State.DONE, done_ms=1)
    rows = await bench.rows()
    gone = [key for key, row in rows.items() if row.route == "rte_gone"]
    kept, pending, erased = (key for key, row in rows.items() if row.route == "rte_main")
    await bench.change([pending], state=State.DUE, done_ms=None)
    await bench.change([erased], body=b"")
    await bench.database.write(lambda tx: routes.remove(tx, "default", "rte_gone"))
    await bench.configuration.reload()
    every = RerunFilter(ids=(*gone, kept, pending, erased, kept))

    named = await bench.reruns.leave_out_unsendable("default", every)
    counted = await bench.reruns.count("default", REDELIVERY, named.filter_)
    done = await bench.run(named.filter_)

    assert (named.mail_deleted, named.route_removed) == (1, 3)
    assert (counted.total, done.total, done.done) == (2, 2, 2)
    with pytest.raises(RefusedError, match="nor can 2 more: its route was removed"):
        await bench.reruns.leave_out_unsendable("default", RerunFilter(ids=tuple(gone)))
    assert (await bench.reruns.leave_out_unsendable("default", EVERYTHING)).filter_ == EVERYTHING
    await bench.change([kept], state=State.DONE, done_ms=1)
    by_filter = await bench.reruns.count("default", REDELIVERY, EVERYTHING)
    assert (by_filter.total, (await bench.run()).done) == (1, 1)


async def test_another_workspace_sees_and_moves_nothing(bench: Bench) -> None:
    [key] = await bench.owe(1, state=State.DONE, done_ms=1)

    done = await bench.finish(await bench.reruns.make("other", REDELIVERY, EVERYTHING))

    assert (done.total, done.done) == (0, 0)
    assert (await bench.rows())[key].state == State.DONE
    with pytest.raises(MissingError):
        await bench.reruns.count("other", REDELIVERY, RerunFilter(ids=(key,)))
    with pytest.raises(MissingError):
        await bench.reruns.find("default", REDELIVERY, done.id)


async def test_what_lost_its_body_with_its_day_is_not_owed_again(bench: Bench) -> None:
    old, kept = await bench.owe(2, state=State.DONE, done_ms=1, day=100)
    await bench.change([kept], body=b"{}")

    done = await bench.run()

    rows = await bench.rows()
    assert done.done == 1
    assert (rows[old].state, rows[kept].state) == (State.DONE, State.DUE)


async def test_a_rerun_is_stopped_between_slices_and_goes_on_from_there(bench: Bench) -> None:
    await _fill(bench, 2 * SLICE_ROWS + 500)
    rerun = await bench.make()
    await bench.reruns.step()
    await bench.reruns.step()

    stopped = await bench.reruns.switch("default", REDELIVERY, rerun.id, to=RerunState.STOPPED)
    await bench.reruns.step()
    still = await bench.find(rerun)
    await bench.reruns.switch("default", REDELIVERY, rerun.id, to=RerunState.RUNNING)
    done = await bench.finish(rerun)

    assert (stopped.state, stopped.done, stopped.total) == (
        RerunState.STOPPED, SLICE_ROWS, 2 * SLICE_ROWS + 500,
    )  # fmt: skip
    assert still.done == SLICE_ROWS
    assert (done.state, done.done) == (RerunState.FINISHED, 2 * SLICE_ROWS + 500)
    assert await _redelivered(bench) == {1: 2 * SLICE_ROWS + 500}
    with pytest.raises(ClashError):
        await bench.reruns.switch("default", REDELIVERY, rerun.id, to=RerunState.STOPPED)


async def test_one_process_works_at_a_rerun_until_it_is_gone(bench: Bench) -> None:
    await _fill(bench, 3 * SLICE_ROWS)
    rerun = await bench.make()
    await bench.reruns.step()
    await bench.reruns.step()
    heir = bench.another()

    await heir.step()
    await heir.step()
    waiting = await bench.find(rerun)
    long_ago = (await bench.database.head()).now_ms - ABANDONED_MS - 1
    await bench.database.write(
        lambda tx: tx.execute(update(RERUNS).values(changed_ms=long_ago)) and None
    )
    while await heir.step():
        pass
    await bench.reruns.step()
    done = await bench.find(rerun)

    assert waiting.done == SLICE_ROWS
    assert done.state is RerunState.FINISHED
    assert await _redelivered(bench) == {1: 3 * SLICE_ROWS}


async def test_a_slice_that_is_overtaken_leaves_nothing(
    bench: Bench, monkeypatch: pytest.MonkeyPatch
) -> None:
    await _fill(bench, 10)
    rerun = await bench.make()
    await bench.reruns.step()
    claimed = await bench.find(rerun)
    moved = replace(claimed, after_mark=claimed.after_mark + 1)

    monkeypatch.setattr(reruns, "list_running", lambda _: [moved])
    await bench.reruns.step()

    assert await _redelivered(bench) == {0: 10}
    assert (await bench.find(rerun)).done == 0


async def test_a_reprocessing_has_a_new_key_and_the_body_of_today(bench: Bench) -> None:
    keys = await bench.owe(3, state=State.DONE, done_ms=1)
    before = await bench.rows()
    await bench.ledger.add_route(mapping={"to": "$.recipient"})
    await bench.configuration.reload()

    counted = await bench.reruns.count("default", REPROCESSING, EVERYTHING)
    done = await bench.run(kind=REPROCESSING)

    after = await bench.rows()
    made = [row for key, row in after.items() if key not in before]
    revision = public("rpr", done.id)
    identities = await _identities(bench)
    assert (counted.total, done.total, done.done) == (3, 3, 3)
    assert {bytes(row.key) for row in made} == {
        sha256(f"{identity}|rte_main|{revision}".encode()).digest() for identity in identities
    }
    assert {row.body for row in made} == {orjson.dumps({"to": "ada@example.com"})}
    assert all((row.state, row.lane) == (State.DUE, AttemptKind.REDELIVERY) for row in made)
    assert all(bytes(row.reprocessing) == done.id for row in made)
    assert [after[key] for key in keys] == [before[key] for key in keys], "they stay as they are"


async def test_a_redelivery_has_the_old_body_whatever_the_mapping_is_now(bench: Bench) -> None:
    [key] = await bench.owe(1, state=State.DONE, done_ms=1)
    before = (await bench.rows())[key]
    await bench.ledger.add_route(mapping={"to": "$.recipient"})
    await bench.configuration.reload()

    await bench.run()

    rows = await bench.rows()
    assert list(rows) == [key]
    assert (rows[key].body, rows[key].event) == (before.body, before.event)


async def test_a_reprocessing_reaches_routes_that_came_later_and_can_be_run_twice(
    bench: Bench,
) -> None:
    await bench.owe(2, state=State.DONE, done_ms=1)
    await bench.ledger.add_route(id="rte_new", events=("delivered",))
    await bench.ledger.add_route(id="rte_none", events=("opened",))
    await bench.configuration.reload()

    await bench.run(RerunFilter(route="rte_new"), REPROCESSING)
    await bench.run(RerunFilter(route="rte_new"), REPROCESSING)
    await bench.run(RerunFilter(route="rte_none"), REPROCESSING)

    by_route: dict[str, int] = {}
    for row in (await bench.rows()).values():
        by_route[row.route] = by_route.get(row.route, 0) + 1
    assert by_route == {"rte_main": 2, "rte_new": 4}


async def test_a_reprocessing_of_named_events_and_of_a_time(bench: Bench) -> None:
    await bench.owe(3, state=State.DONE, done_ms=1)
    events = sorted(bytes(row.event) for row in (await bench.rows()).values())
    now_ms = (await bench.database.head()).now_ms

    named = await bench.run(RerunFilter(ids=(events[0],)), REPROCESSING)
    later = await bench.run(RerunFilter(since_ms=now_ms + 1000), REPROCESSING)
    of_type = await bench.run(RerunFilter(type=EventType.OPENED), REPROCESSING)

    assert (named.done, later.done, of_type.done) == (1, 0, 0)
    assert len(await bench.rows()) == 4
    with pytest.raises(MissingError):
        await bench.make(RerunFilter(ids=(new_id(now_ms),)), REPROCESSING)


async def test_a_route_that_was_away_gets_what_it_never_had_and_nothing_twice(
    bench: Bench,
) -> None:
    had = await bench.owe(3, state=State.DONE, done_ms=1)
    before = await bench.rows()
    await _owe_without_main(bench, 2)
    anew = await bench.run(RerunFilter(ids=(bytes(before[had[0]].event),)), REPROCESSING)

    counted = await bench.reruns.count("default", REPROCESSING, MISSING)
    first = await bench.run(MISSING, REPROCESSING)
    second = await bench.run(MISSING, REPROCESSING)

    made = [row for row in await _of_main(bench) if row.reprocessing == first.id]
    usual = {key_of(bytes(row.key).hex(), "rte_main") for row in await _events(bench)}
    assert anew.done == 1
    assert (counted.total, first.total, first.done) == (2, 2, 2)
    assert {bytes(row.key) for row in made} < usual, "the key that it would have had at first"
    assert all((row.state, row.lane) == (State.DUE, AttemptKind.REDELIVERY) for row in made)
    assert (second.total, second.done) == (0, 0)
    assert len(await _of_main(bench)) == 3 + 1 + 2
    assert [(await bench.rows())[key] for key in had] == [before[key] for key in had]


async def test_what_a_route_got_by_another_reprocessing_is_not_missing(bench: Bench) -> None:
    await bench.ledger.add_route(id="rte_none", events=("opened",))
    await _owe_without_main(bench, 2)
    [one, _] = [bytes(row.id) for row in await _events(bench)]
    await bench.run(RerunFilter(route="rte_main", ids=(one,)), REPROCESSING)

    named = await bench.run(
        replace(MISSING, ids=tuple(bytes(row.id) for row in await _events(bench))), REPROCESSING
    )

    assert (named.total, named.done) == (1, 1)
    assert len(await _of_main(bench)) == 2
    untaken = await bench.run(replace(MISSING, route="rte_none"), REPROCESSING)
    assert untaken.done == 2, "it was looked at"
    assert {row.route for row in (await bench.rows()).values()} == {"rte_main", "rte_other"}


async def test_two_who_ask_for_the_missing_at_once_send_each_event_once(bench: Bench) -> None:
    await _owe_without_main(bench, REPROCESS_ROWS + 50)
    barrier, read = asyncio.Barrier(2), arrivals_reader(bench.database)

    async def read_together(workspace: str, arrivals: Iterable[bytes]) -> Any:
        """Both have looked for what is missing before one of them writes it."""
        await barrier.wait()
        return await read(workspace, arrivals)

    both = [bench.another(read_together) for _ in range(2)]
    asked = []
    for process in both:
        asked.append(await bench.make(MISSING, REPROCESSING))
        await process.step()
    async with asyncio.timeout(60):
        await asyncio.gather(*(process.step() for process in both))
    halfway = [await bench.find(one) for one in asked]
    # Both processes are gone, and another one goes on.
    long_ago = (await bench.database.head()).now_ms - ABANDONED_MS - 1
    await bench.database.write(
        lambda tx: tx.execute(update(RERUNS).values(changed_ms=long_ago)) and None
    )
    finished = [await bench.finish(one) for one in halfway]

    events = [bytes(row.event) for row in await _of_main(bench)]
    assert [one.done for one in halfway] == [REPROCESS_ROWS] * 2, "both had read the same events"
    assert {one.state for one in finished} == {RerunState.FINISHED}
    assert len(events) == len(set(events)) == REPROCESS_ROWS + 50


def test_a_rerun_that_was_stored_by_a_version_before_is_read() -> None:
    asked = RerunFilter(route="rte_main", missing=True, ids=(b"1" * 16,))
    before = orjson.loads(EVERYTHING.written())
    del before["missing"]

    assert RerunFilter.read(asked.written()) == asked
    assert RerunFilter.read(orjson.dumps(before)) == EVERYTHING


@pytest.mark.slow
async def test_redelivering_many_takes_little_memory_and_tells_how_far_it_is(
    bench: Bench,
) -> None:
    await _redeliver_many(bench, 50_000)


@pytest.mark.long
@pytest.mark.timeout(600)
async def test_redelivering_a_million_takes_little_memory(bench: Bench) -> None:
    await _redeliver_many(bench, 1_000_000)


async def _redeliver_many(bench: Bench, number: int) -> None:
    await _fill(bench, number)
    rerun = await bench.make()
    await bench.reruns.step()
    process = psutil.Process()
    before, reports = process.memory_info().rss, [0]

    while (await bench.find(rerun)).state is RerunState.RUNNING:
        for _ in range(10):
            await bench.reruns.step()
        reports.append((await bench.find(rerun)).done)

    grown = process.memory_info().rss - before
    assert rerun.total == number
    assert reports == sorted(reports)
    assert reports[-1] == number
    assert len(set(reports)) >= number // (10 * SLICE_ROWS), "progress is told along the way"
    assert await _redelivered(bench) == {1: number}
    assert grown < 50 << 20, f"{grown >> 20} MB more"


async def _fill(bench: Bench, number: int) -> None:
    """Make finished deliveries of one event by the database's own means."""
    [first] = await bench.owe(1, state=State.DONE, done_ms=1, attempts=1)
    columns = ", ".join(column.name for column in DELIVERIES.columns if column.name != "key")
    values = columns.replace("made_ms", "made_ms - i % 997")
    source = {
        "sqlite": "WITH RECURSIVE n(i) AS (SELECT :first UNION ALL SELECT i + 1 FROM n"
        f" WHERE i < :last) SELECT randomblob(32), {values}"
        " FROM deliveries, n WHERE key = :one",
        "postgresql": f"SELECT sha256(int8send(i)), {values}"
        " FROM deliveries, generate_series(CAST(:first AS bigint), CAST(:last AS bigint)) AS i"
        " WHERE key = :one",
    }[bench.database.name]
    statement = text(f"INSERT INTO deliveries (key, {columns}) {source}")

    # In parts: nobody may write for as long as a million rows take on a busy machine.
    for begin in range(1, number, FILL_ROWS):
        part = {"one": first, "first": begin, "last": min(begin + FILL_ROWS, number) - 1}
        await bench.database.write(partial(_execute, statement=statement, values=part))
    assert first in await _some_keys(bench)


async def _some_keys(bench: Bench) -> set[bytes]:
    query = select(DELIVERIES.c.key).order_by(DELIVERIES.c.made_ms.desc()).limit(5_000)
    return {bytes(key) for key in await bench.database.read(lambda tx: tx.scalars(query).all())}


def _execute(tx: Any, *, statement: Any, values: dict[str, Any]) -> None:
    tx.execute(statement, values)


def _read_all(tx: Any, *, query: Any) -> list[tuple[int, int]]:
    return [(row[0], row[1]) for row in tx.execute(query)]


async def _redelivered(bench: Bench) -> dict[int, int]:
    """Count the deliveries by how often they were redelivered, in parts that are read quickly."""
    counts: Counter[int] = Counter()
    for first in range(0, 256, 16):
        key, last = DELIVERIES.c.key, bytes([first + 15]) + b"\xff" * 32
        query = (
            select(DELIVERIES.c.redeliveries, func.count())
            .where(key >= bytes([first]), key <= last)
            .group_by(DELIVERIES.c.redeliveries)
        )
        for redeliveries, many in await bench.database.read(partial(_read_all, query=query)):
            counts[redeliveries] += many
    return dict(counts)


async def _owe_without_main(bench: Bench, number: int) -> None:
    """Record events of a time at which the main route was away, or not made."""
    known = bench.ledger.routes.pop("rte_main", None)
    await bench.ledger.add_route(id="rte_other")
    await bench.owe(number)
    if known is None:
        await bench.ledger.add_route()
    else:
        bench.ledger.routes[known.id] = known
    await bench.configuration.reload()


async def _of_main(bench: Bench) -> list[Any]:
    return [row for row in (await bench.rows()).values() if row.route == "rte_main"]


async def _events(bench: Bench) -> list[Any]:
    query = select(EVENTS.c.id, EVENTS.c.key).order_by(EVENTS.c.id)
    return list(await bench.database.read(lambda tx: tx.execute(query).all()))


async def _identities(bench: Bench) -> list[str]:
    rows = await bench.database.read(
        lambda tx: tx.execute(text("SELECT key FROM events")).scalars().all()
    )
    return [bytes(key).hex() for key in rows]


async def _give_up(bench: Bench) -> None:
    now_ms = (await bench.database.head()).now_ms
    await bench.database.write(
        lambda tx: work_rows.give_up(
            tx,
            "rte_main",
            reason="off",
            until_ms=None,
            now_ms=now_ms,
            new_id=lambda: new_id(now_ms),
            most=10,
        )
    )


async def _letters(bench: Bench) -> list[dead_letters.DeadLetter]:
    ids = await bench.database.read(lambda tx: tx.scalars(select(DEAD_LETTERS.c.id)).all())
    rows = [
        await bench.database.read(lambda tx, id_=id_: dead_letters.get(tx, "default", bytes(id_)))  # type: ignore[misc]
        for id_ in ids
    ]
    return [letter for letter in rows if letter is not None]
