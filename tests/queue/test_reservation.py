"""Deliveries that are leased as they are recorded: who may start them, and what a crash leaves.

SQLite, where worker and writer are one process and a statement costs no round trip, has none.
"""

import asyncio
from collections.abc import Awaitable, Callable
from typing import Any, cast

import pytest
import pytest_asyncio
from sqlalchemy import text, update

from mailonce.clock import Clock
from mailonce.core.ledger.entry import ArrivalOutcome, EntryOutcome
from mailonce.core.work.job import LEASE_LOST
from mailonce.core.work.states import State
from mailonce.pipeline.record import Limits, Recorder
from mailonce.queue.attempt import Attempts
from mailonce.queue.configuration import ConfigurationCache
from mailonce.queue.reservation import SlotReservation
from mailonce.queue.wake import Wakes
from mailonce.queue.worker import Worker
from mailonce.store.dialects.contract import Batch, Database, OutcomeUnknownError
from mailonce.store.dialects.postgres import claim_keys_sql as postgres_sql
from mailonce.store.dialects.postgres.pool import has_ended
from mailonce.store.schema.tables import LANES
from mailonce.telemetry import Metrics
from tests.endpoint import answers, hangs, in_turn
from tests.factories import SEALER, make_body, make_entry, make_source
from tests.queue.conftest import Works

After = Callable[[int], Awaitable[None]]
PATIENT_S = 20
# A lane that is kept for longer than any pause of a busy machine.
HOLD_S = 60.0


class Door:
    """What a process with a worker does with arrivals; `after` comes between commit and answer."""

    def __init__(self, works: Works, worker: Worker, after: After | None = None) -> None:
        self._works = works
        self._worker = worker
        self._after = after
        self._calls = 0
        # What each batch leased.
        self.leased: list[int] = []

    async def open(self) -> "Door":
        database = self._works.database
        configuration = ConfigurationCache(database, Clock(), SEALER, Metrics())
        await configuration.reload()
        self.recorder = Recorder(
            cast("Database", self),
            Clock(),
            Metrics(),
            Limits(),
            routing=lambda: configuration.snapshot.routing,
            refresh=configuration.refresh,
            owed=self._worker.wake,
        )
        self.recorder.reserve = self._worker.reserve
        self.recorder.start()
        self._works.closing.insert(0, self.recorder.close)
        return self

    async def post(self, name: str) -> None:
        now_ms = self._works.ledger.now_ms
        answer = await self.recorder.record(
            make_entry(make_source(), make_body(name), now_ms=now_ms)
        )
        assert isinstance(answer, ArrivalOutcome)

    async def warm_up(self) -> None:
        """Let the worker take the lane and find it empty."""
        await self.post(f"warm-{id(self)}")
        await self._works.until_ended(seconds=PATIENT_S)
        lanes, now_s = self._worker._lanes.known, Clock().monotonic
        await self._works.until(lambda: all(lane.takes(1, now_s()) for lane in lanes.values()))
        self._works.endpoint.requests.clear()
        self.leased.clear()

    def __getattr__(self, name: str) -> Any:
        return getattr(self._works.database, name)

    async def record(self, batch: Batch, *, short_lock_wait: bool = False) -> list[EntryOutcome]:
        answers = await self._works.database.record(batch, short_lock_wait=short_lock_wait)
        self.leased.append(len(batch.leased))
        if self._after is not None:
            self._calls += 1
            await self._after(self._calls)
        return answers


@pytest_asyncio.fixture
async def ours(works: Works) -> Works:
    if works.database.name == "sqlite":
        pytest.skip("SQLite leases nothing early")
    return works


async def test_what_a_lane_with_nothing_due_is_owed_needs_no_lease_of_its_own(ours: Works) -> None:
    await ours.add_route()
    door = await Door(ours, await ours.start(hold_s=HOLD_S)).open()
    await door.warm_up()

    for number in range(5):
        await door.post(f"early-{number}")
    await ours.until_ended(seconds=PATIENT_S)

    assert door.leased == [1] * 5
    rows = [row for row in await ours.rows() if row["token"] < 0]
    seen = ours.endpoint.at("/ok")
    assert sorted(bytes.fromhex(request.key) for request in seen) == sorted(
        bytes(row["key"]) for row in rows
    )
    assert {(row["state"], row["attempts"], row["status"]) for row in rows} == {
        (State.DONE, 1, 200)
    }
    assert {request.attempt for request in seen} == {1}
    assert all(request.body for request in seen)


async def test_a_route_with_a_body_of_its_own_gets_that_one(ours: Works) -> None:
    await ours.add_route("/plain")
    await ours.add_route("/own", mapping={"where": "$.route_id"})
    door = await Door(ours, await ours.start(hold_s=HOLD_S)).open()
    await door.warm_up()

    await door.post("both")
    await ours.until_ended(seconds=PATIENT_S)

    assert door.leased == [2]
    [own], [plain] = ours.endpoint.at("/own"), ours.endpoint.at("/plain")
    assert own.body == b'{"where":"rte_own"}'
    assert b'"route_id":"rte_plain"' in plain.body


async def test_a_failed_attempt_is_tried_again_with_the_same_bytes(ours: Works) -> None:
    await ours.add_route()
    door = await Door(ours, await ours.start(hold_s=HOLD_S)).open()
    await door.warm_up()
    ours.endpoint.behaviours["/ok"] = in_turn(answers(500), answers(200))

    await door.post("twice")
    await ours.until_ended(seconds=PATIENT_S)

    first, second = ours.endpoint.at("/ok")
    assert (first.attempt, second.attempt) == (1, 2)
    assert (first.key, first.body) == (second.key, second.body)


@pytest.mark.parametrize("is_twin", [False, True])
async def test_a_lane_that_was_lost_meanwhile_leases_nothing(
    ours: Works, monkeypatch: pytest.MonkeyPatch, *, is_twin: bool
) -> None:
    if is_twin:
        condition = "lanes.owner = {owner} AND"
        assert condition in postgres_sql._HELD
        loose = postgres_sql._HELD.replace(condition, "{owner}::bytea IS NOT NULL AND")
        monkeypatch.setattr(postgres_sql, "_HELD", loose)
        monkeypatch.setattr(postgres_sql, "record", postgres_sql.record.__wrapped__)
    await ours.add_route()
    worker = await ours.start(hold_s=HOLD_S)
    door = await Door(ours, worker).open()
    await door.warm_up()
    until_ms = (await ours.database.head()).now_ms + 60_000
    taken = update(LANES).values(owner=b"somebody else", until_ms=until_ms)
    await ours.database.write(lambda tx: tx.execute(taken) and None)

    await door.post("not ours")

    assert door.leased == [1 if is_twin else 0]
    if not is_twin:
        [row] = await ours.rows(state=State.DUE)
        assert (row["attempts"], row["leased_by"]) == (0, None)
        back = update(LANES).values(owner=worker._owner)
        await ours.database.write(lambda tx: tx.execute(back) and None)
        await ours.until_ended(seconds=PATIENT_S)
        assert [request.attempt for request in ours.endpoint.requests] == [1]


@pytest.mark.parametrize("is_twin", [False, True])
async def test_a_process_that_was_paused_past_the_lease_does_not_begin(
    ours: Works, monkeypatch: pytest.MonkeyPatch, *, is_twin: bool
) -> None:
    if is_twin:
        make = Attempts.make

        async def begin(self: Attempts, lane: Any, job: Any, *, until_s: float) -> None:
            await make(self, lane, job, until_s=until_s + PATIENT_S)

        monkeypatch.setattr(Attempts, "make", begin)

    async def pause(call: int) -> None:
        if call == 2:
            await ours.until(lambda: has_lost(ours), seconds=PATIENT_S)

    await ours.add_route(timeout_s=0.2)
    door = await Door(ours, await ours.start(hold_s=HOLD_S, lease_s=0.4), after=pause).open()
    await door.warm_up()

    await door.post("paused")
    await ours.until_ended(seconds=PATIENT_S)
    await asyncio.sleep(0.1)

    assert door.leased == [1]
    attempts = sorted(request.attempt for request in ours.endpoint.requests)
    assert (attempts == [2]) is not is_twin


async def has_lost(works: Works) -> bool:
    return any(row["error"] == LEASE_LOST for row in await works.attempts())


@pytest.mark.parametrize("is_twin", [False, True])
async def test_what_a_lost_answer_hides_is_delivered_at_once(
    ours: Works, monkeypatch: pytest.MonkeyPatch, *, is_twin: bool
) -> None:
    if is_twin:
        monkeypatch.setattr(SlotReservation, "give_back", SlotReservation.cancel)

    async def lose(call: int) -> None:
        if call == 2:
            raise OutcomeUnknownError("the answer was lost; try again")

    await ours.add_route()
    # So long that only its end, and not its age, can bring the delivery in time.
    door = await Door(ours, await ours.start(hold_s=HOLD_S, lease_s=600.0), after=lose).open()
    await door.warm_up()

    await door.post("lost")

    assert door.leased == [1, 0]
    if is_twin:
        await asyncio.sleep(2.5)
        assert not ours.endpoint.requests
        return
    await ours.until_ended(seconds=PATIENT_S)
    assert [request.attempt for request in ours.endpoint.requests] == [1]
    assert not await has_lost(ours)


@pytest.mark.parametrize("is_twin", [False, True])
async def test_a_doubtful_lease_ends_nobody_elses(ours: Works, *, is_twin: bool) -> None:
    await ours.add_route()
    worker = await ours.start(hold_s=HOLD_S, lease_s=600.0)
    ours.endpoint.behaviours["/ok"] = hangs
    [key] = await ours.owe()
    await ours.until(lambda: ours.endpoint.requests, seconds=PATIENT_S)

    made = worker.reserve({"rte_ok": [cast("Any", key)]})
    assert made is not None
    if is_twin:
        made.token = 1
    made.give_back()
    await asyncio.gather(*worker._reserver._tasks)

    [row] = await ours.rows()
    is_ours = (row["state"], row["token"]) == (State.LEASED, 1)
    assert is_ours is not is_twin


async def test_the_leases_of_a_lost_batch_end_in_one_statement(
    ours: Works, monkeypatch: pytest.MonkeyPatch
) -> None:
    for path in ("/one", "/two", "/three"):
        await ours.add_route(path)
    worker = await ours.start(hold_s=HOLD_S, lease_s=600.0)
    await (await Door(ours, worker).open()).warm_up()
    ended: list[list[bytes]] = []

    async def count(finishes: Any) -> Any:
        ended.append([one.key for one in finishes])
        return set()

    monkeypatch.setattr(ours.database.deliveries, "finish", count)
    keys = {route: [cast("Any", route.encode())] for route in ours.ledger.routes}
    made = worker.reserve(keys)
    assert made is not None

    made.give_back()
    await asyncio.gather(*worker._reserver._tasks)

    assert [sorted(one) for one in ended] == [sorted(key for [key] in keys.values())]


async def test_a_lost_batch_ends_no_lease_that_another_batch_took(ours: Works) -> None:
    await ours.add_route()
    worker = await ours.start(hold_s=HOLD_S, lease_s=600.0)
    door = await Door(ours, worker).open()
    await door.warm_up()
    ours.endpoint.behaviours["/ok"] = hangs
    # Two doors were sent the same event; the statement of the other one was lost.
    await door.post("both")
    await ours.until(lambda: ours.endpoint.requests, seconds=PATIENT_S)
    [held] = [row for row in await ours.rows() if row["state"] == State.LEASED]
    lost = worker.reserve({"rte_ok": [cast("Any", bytes(held["key"]))]})
    assert lost is not None
    lost.give_back()
    await asyncio.gather(*worker._reserver._tasks)

    assert door.leased == [1]
    [still] = [row for row in await ours.rows() if row["key"] == held["key"]]
    assert (still["state"], still["token"]) == (State.LEASED, held["token"])


async def test_a_connection_that_ended_while_idle_costs_no_try(ours: Works) -> None:
    await ours.add_route()
    door = await Door(ours, await ours.start(hold_s=HOLD_S, lease_s=600.0)).open()
    await door.warm_up()
    kept = cast("Any", ours.database)._connections._kept
    pids = [connection.get_server_pid() for connection in kept]
    end = text("SELECT pg_terminate_backend(p) FROM unnest(CAST(:pids AS int[])) AS p")
    await ours.database.read(lambda tx: tx.execute(end, {"pids": pids}).all())
    await ours.until(lambda: all(has_ended(connection) for connection in kept))

    await door.post("after")

    assert door.leased == [1], "a batch that was tried before leases nothing"


async def test_what_is_told_as_a_process_stops_is_heard(ours: Works) -> None:
    messages: list[str] = []
    other, stopping = Wakes(ours.database), Wakes(ours.database)
    other.attach(lambda _: messages.append("some"), lambda: messages.append("all"), lambda _: False)
    for one in (other, stopping):
        one.start()
    await ours.until(lambda: other._signal is not None and stopping._signal is not None)
    await asyncio.sleep(0.1)
    messages.clear()

    stopping.owed_everywhere()
    await stopping.stop()
    await ours.until(lambda: messages)
    await other.stop()


async def test_the_routes_concurrency_holds(ours: Works) -> None:
    await ours.add_route(concurrency=2)
    door = await Door(ours, await ours.start(hold_s=HOLD_S)).open()
    await door.warm_up()
    ours.endpoint.behaviours["/ok"] = answers(200, after_s=0.1)

    for number in range(8):
        await door.post(f"many-{number}")
    await ours.until_ended(seconds=PATIENT_S)

    assert ours.endpoint.most["/ok"] == 2
    assert door.leased[0] == 1
    assert len(ours.endpoint.requests) == 8


async def test_two_doors_deliver_each_event_once(ours: Works) -> None:
    await ours.add_route()
    doors = [await Door(ours, await ours.start(hold_s=HOLD_S)).open() for _ in range(2)]
    await doors[0].warm_up()

    async def post_all(place: int) -> None:
        for number in range(25):
            await doors[place].post(f"door-{place}-{number}")

    await asyncio.gather(post_all(0), post_all(1))
    await ours.until_ended(seconds=PATIENT_S)

    keys = [request.key for request in ours.endpoint.requests]
    assert (len(keys), len(set(keys))) == (50, 50)
    assert {request.attempt for request in ours.endpoint.requests} == {1}
    early = [sum(door.leased) for door in doors]
    assert early[0] + early[1] > 0
