"""The worker against real endpoints, on both databases."""

import asyncio
import time
from collections.abc import Sequence
from hashlib import sha256
from typing import Any

import orjson
import pytest
from sqlalchemy import update

from mailonce.core.deliveries.route import Route, RouteKind
from mailonce.core.work.breaker import BreakerRule
from mailonce.core.work.job import LEASE_LOST, AttemptOutcome, LeasedJob, LeaseRequest
from mailonce.core.work.states import AttemptKind, State
from mailonce.errors import UnavailableError
from mailonce.queue import held_lanes
from mailonce.queue.deliveries import Runner
from mailonce.store.configuration import routes
from mailonce.store.schema.tables import DELIVERIES
from mailonce.store.work import rows as work_rows
from tests.endpoint import Request, answers, hangs, in_turn
from tests.factories import make_source
from tests.queue.conftest import Works
from tests.stopwatch import Stopwatch


async def test_each_event_is_delivered_once_with_its_frozen_body(works: Works) -> None:
    await works.add_route()
    await works.start()

    keys = await works.owe(50)
    await works.until_ended()

    seen = works.endpoint.at("/ok")
    assert sorted(bytes.fromhex(request.key) for request in seen) == keys
    assert await works.states() == [State.DONE] * 50
    assert {row["status"] for row in await works.attempts()} == {200}
    assert works.metric("mailonce_attempts_total", route="rte_ok", end="done") == 50


async def test_a_lease_that_ran_out_while_the_process_was_paused_is_not_begun(
    works: Works, monkeypatch: pytest.MonkeyPatch
) -> None:
    leases, lease = works.database.deliveries, works.database.deliveries.lease
    paused: list[LeasedJob] = []

    async def is_lost() -> bool:
        return any(row["error"] == LEASE_LOST for row in await works.attempts())

    async def pause(wants: Sequence[LeaseRequest], *, owner: bytes) -> list[LeasedJob]:
        jobs = await lease(wants, owner=owner)
        if jobs and not paused:
            paused.extend(jobs)
            await works.until(is_lost)
        return jobs

    monkeypatch.setattr(leases, "lease", pause)
    await works.add_route(timeout_s=0.2)
    for _ in range(2):
        await works.start(lease_s=0.4)

    await works.owe()
    await works.until_ended()

    assert [job.attempt for job in paused] == [1]
    assert [request.attempt for request in works.endpoint.requests] == [2]
    assert await works.states() == [State.DONE]


async def test_a_receiver_can_make_the_key_itself(works: Works) -> None:
    await works.add_route("/one")
    await works.add_route("/two")
    await works.add_route("/own", mapping={"who": "$.identity", "where": "$.route_id"})
    await works.start()

    await works.owe()
    await works.until_ended()

    for path in ("/one", "/two", "/own"):
        [request] = works.endpoint.at(path)
        body = orjson.loads(request.body)
        identity, route = body.get("identity", body.get("who")), "rte_" + path.strip("/")
        assert body.get("route_id", body.get("where")) == route
        assert request.headers["x-mailonce-route"] == route
        assert sha256(f"{identity}|{route}".encode()).hexdigest() == request.key


async def test_a_wake_up_brings_it_at_once_and_a_lost_one_within_a_second(works: Works) -> None:
    await works.add_route()
    await works.start(look_every_s=1.0)
    await works.owe()
    await works.until_ended()

    with Stopwatch() as woken:
        await works.owe()
        await works.until(lambda: len(works.endpoint.requests) == 2)
    with Stopwatch() as looked:
        await works.ledger.owe()
        await works.until(lambda: len(works.endpoint.requests) == 3)

    assert woken.seconds < 0.5
    assert looked.seconds < 3


async def test_retries_have_the_same_bytes_and_key_and_their_number(works: Works) -> None:
    await works.add_route("/flaky", waits_s=(0.1, 0.2, 0.1))
    works.endpoint.behaviours["/flaky"] = in_turn(answers(500), answers(503), answers(200))
    await works.start()

    await works.owe()
    await works.until_ended()

    seen = works.endpoint.at("/flaky")
    assert [request.attempt for request in seen] == [1, 2, 3]
    assert len({(request.key, request.body) for request in seen}) == 1
    assert seen[1].at_s - seen[0].at_s >= 0.08
    assert seen[2].at_s - seen[1].at_s >= 0.16
    assert [row["status"] for row in await works.attempts()] == [500, 503, 200]


async def test_what_fails_to_the_end_is_a_dead_letter_with_its_history(works: Works) -> None:
    await works.add_route("/bad", waits_s=(0.02, 0.02), headers={"X-Key": "hunter2hunter2"})
    works.endpoint.behaviours["/bad"] = answers(500, b"no: hunter2hunter2 " + b"x" * 9_000)
    await works.start()

    [key] = await works.owe()
    await works.until_ended()

    [letter] = await works.letters()
    tried = await works.attempts()
    assert (letter["reason"], letter["attempts"]) == ("attempts", 3)
    assert bytes(letter["delivery"]) == key
    assert [(row["attempt"], row["status"]) for row in tried] == [(1, 500), (2, 500), (3, 500)]
    assert {len(bytes(row["answer"])) for row in tried} == {4096}
    assert all(b"hunter2" not in bytes(row["answer"]) for row in tried)


async def test_blame_ends_sooner(works: Works) -> None:
    await works.add_route("/bad", blamed_attempts_max=2)
    works.endpoint.behaviours["/bad"] = answers(422)
    await works.start()

    await works.owe()
    await works.until_ended()

    [letter] = await works.letters()
    assert (letter["reason"], len(works.endpoint.requests)) == ("permanent", 2)


async def test_a_deadline_ends_it_though_attempts_are_left(works: Works) -> None:
    await works.add_route("/bad", waits_s=(0.08,) * 60, deadline_s=1)
    works.endpoint.behaviours["/bad"] = answers(500)
    await works.start()

    await works.owe()
    await works.until_ended()

    [letter] = await works.letters()
    assert letter["reason"] == "deadline"
    assert 2 <= len(works.endpoint.requests) <= 15


async def test_retry_after_is_honoured(works: Works) -> None:
    await works.add_route("/busy", waits_s=(0.01,))
    works.endpoint.behaviours["/busy"] = in_turn(answers(503, Retry_After="1"), answers(200))
    await works.start()

    await works.owe()
    await works.until_ended()

    first, second = works.endpoint.at("/busy")
    assert second.at_s - first.at_s >= 0.95


async def test_retry_after_is_capped(works: Works) -> None:
    await works.add_route("/busy", deadline_s=10**7)
    works.endpoint.behaviours["/busy"] = answers(429, Retry_After="9999999")
    await works.start()

    await works.owe()
    await works.until(works.attempts)

    [row] = await works.rows()
    wait_ms = row["due_ms"] - (await works.database.head()).now_ms
    assert 3_500_000 < wait_ms <= 3_600_000


async def test_a_slow_rate_outlasts_the_time_for_which_a_worker_has_the_route(
    works: Works,
) -> None:
    await works.add_route("/slow", rate_per_s=0.5)
    await works.start(hold_s=0.2, look_every_s=0.1)
    await works.owe()
    await works.until_ended()
    # Nothing is due, for longer than a worker keeps it to itself.
    await asyncio.sleep(1)

    await works.owe()
    await works.until_ended()

    first, second = works.endpoint.at("/slow")
    assert second.at_s - first.at_s >= 1.9


async def test_a_gate_that_is_still_at_it_is_asked_again(works: Works) -> None:
    await works.add_route("/gate")
    works.endpoint.behaviours["/gate"] = in_turn(
        answers(202, X_Mailonce_Gate="processing"), answers(202)
    )
    await works.start()

    await works.owe()
    await works.until_ended()

    assert len(works.endpoint.at("/gate")) == 2
    assert await works.states() == [State.DONE]


async def test_a_410_switches_off_and_on_again_resumes_what_is_owed(works: Works) -> None:
    await works.add_route("/gone", concurrency=1)
    works.endpoint.behaviours["/gone"] = answers(410)
    await works.start()
    await works.owe(5)

    async def is_off() -> bool:
        tx_routes = await works.database.read(
            lambda tx: tx.exec_driver_sql("SELECT off FROM routes").scalar_one()
        )
        return tx_routes is not None

    await works.until(is_off)
    await works.owe(2)
    await works.look()
    while_off = len(works.endpoint.requests)
    owed = await works.states()
    works.endpoint.behaviours["/gone"] = answers(200)
    await works.switch("rte_gone", None)
    await works.until_ended()

    assert while_off == 1, "nobody asks once more"
    assert owed == [State.DUE] * 7
    assert await works.states() == [State.DONE] * 7
    assert await works.letters() == []


async def test_the_breaker_opens_looks_and_closes(works: Works) -> None:
    await works.add_route("/down", waits_s=(0.02,) * 100, concurrency=4)
    works.endpoint.behaviours["/down"] = answers(500)
    worker = await works.start(breaker=BreakerRule(failures=4, wait_s=0.5))
    await works.owe(8)

    await works.until(lambda: works.metric("mailonce_breaker_open", route="rte_down") == 1)
    down = worker.endpoints_down()
    await asyncio.sleep(0.2)
    before = len(works.endpoint.requests)
    await asyncio.sleep(0.2)
    held_back = len(works.endpoint.requests) == before
    works.endpoint.behaviours["/down"] = answers(200)
    await works.until_ended()

    assert held_back, "while it is open nothing is sent"
    assert before <= 8
    assert list(down) == ["rte_down"]
    assert worker.endpoints_down() == {}
    assert works.metric("mailonce_breaker_open", route="rte_down") == 0


async def test_a_deleted_route_is_not_down_any_more(works: Works) -> None:
    await works.add_route("/down", waits_s=(0.02,) * 100)
    works.endpoint.behaviours["/down"] = answers(500)
    worker = await works.start(breaker=BreakerRule(failures=2, wait_s=0.3))
    await works.owe(3)
    await works.until(worker.endpoints_down)

    await works.database.write(lambda tx: routes.remove(tx, "default", "rte_down"))

    await works.until(lambda: not worker.endpoints_down())
    assert works.metric("mailonce_breaker_open", route="rte_down") == 0


async def test_a_worker_forgets_what_was_down_when_another_had_its_lane(
    works: Works, monkeypatch: pytest.MonkeyPatch
) -> None:
    if works.database.name == "sqlite":
        pytest.skip("there is one worker")
    await works.add_route("/down", waits_s=(0.02,) * 100)
    works.endpoint.behaviours["/down"] = answers(500)
    rule = BreakerRule(failures=2, wait_s=0.3)
    paused = await works.start(breaker=rule)
    await works.owe(3)
    await works.until(paused.endpoints_down)

    async def pause() -> None:
        await asyncio.sleep(0.01)

    async def is_free() -> bool:
        return not await works.database.lanes.held_down()

    with monkeypatch.context() as patch:
        patch.setattr(paused._lanes, "look", pause)
        patch.setattr(paused._lanes, "hold", pause)
        await works.until(is_free)
        works.endpoint.behaviours["/down"] = answers(200)
        await works.start(breaker=rule)
        await works.until_ended()

    await works.until(lambda: not paused.endpoints_down(), seconds=10)


async def test_an_endpoint_that_hangs_does_not_delay_another(works: Works) -> None:
    await works.add_route("/hangs", timeout_s=100.0)
    await works.add_route("/ok")
    works.endpoint.behaviours["/hangs"] = hangs
    await works.start(lease_s=200, drain_s=0.1)

    with Stopwatch() as watch:
        await works.owe(40)
        await works.until(lambda: len(works.endpoint.at("/ok")) == 40)

    assert watch.seconds < 3
    assert works.endpoint.most["/hangs"] == 32


async def test_a_lane_that_should_leave_does_not_stand_still_for_an_endpoint_that_hangs(
    works: Works, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Another worker has none, and gets one of those that are behind once nothing runs on it."""
    monkeypatch.setattr(held_lanes, "LEAVE_S", 0.5)
    paths = ("/a", "/b")
    for path in paths:
        await works.add_route(path, timeout_s=100.0, concurrency=2)
    hanging: set[str] = set()

    async def first_hangs(request: Request, writer: asyncio.StreamWriter) -> None:
        is_first = request.path not in hanging
        hanging.add(request.path)
        await (hangs if is_first else answers(200, after_s=0.2))(request, writer)

    works.endpoint.behaviours = dict.fromkeys(paths, first_hangs)
    first = await works.start(lease_s=200, hold_s=2, drain_s=0.1)
    await works.owe(20)
    await works.until(lambda: all(first.holds(f"rte_{path[1:]}") for path in paths))
    await works.start(lease_s=200, hold_s=2, drain_s=0.1)

    async def all_but_those_that_hang() -> bool:
        return (await works.states()).count(State.DONE) == 38

    await works.until(all_but_those_that_hang, seconds=40)


async def test_concurrency_and_rate_of_a_route_hold(works: Works) -> None:
    await works.add_route("/narrow", concurrency=3)
    await works.add_route("/slow", rate_per_s=10.0)
    works.endpoint.behaviours["/narrow"] = answers(200, after_s=0.01)
    await works.start()

    began = time.monotonic()
    await works.owe(20)
    await works.until_ended()

    assert works.endpoint.most["/narrow"] == 3
    # Ten at once from the full bucket, then ten in a second.
    assert time.monotonic() - began >= 0.9


async def test_first_attempts_go_before_retries(works: Works) -> None:
    await works.add_route("/one", concurrency=1)
    await works.ledger.owe(20)
    values = {"lane": AttemptKind.RETRY, "due_ms": DELIVERIES.c.due_ms - 60_000}
    await works.database.write(lambda tx: tx.execute(update(DELIVERIES).values(**values)) and None)
    firsts = {key.hex() for key in await works.ledger.owe(5)}
    await works.start()

    await works.until_ended()

    order = [request.key in firsts for request in works.endpoint.requests]
    assert sum(order[:8]) == 5, "five first attempts and a turn or two of the others"


async def test_what_a_dead_worker_left_is_taken_over(works: Works) -> None:
    await works.add_route()
    keys = await works.ledger.owe(3)
    assert len(await _lease_as_another(works)) == 3

    await works.start()
    await works.until_ended()

    assert sorted(bytes.fromhex(r.key) for r in works.endpoint.requests) == keys
    assert {request.attempt for request in works.endpoint.requests} == {2}
    assert [row["error"] for row in await works.attempts()] == ["lease_lost"] * 3 + [None] * 3


async def _lease_as_another(works: Works) -> list[LeasedJob]:
    await works.database.lanes.hold(["rte_ok"], owner=b"dead", hold_ms=500)
    want = LeaseRequest(
        "rte_ok", 10, 500, (AttemptKind.FIRST, AttemptKind.RETRY, AttemptKind.REDELIVERY)
    )
    return await works.database.deliveries.lease([want], owner=b"dead")


async def test_a_stopped_worker_ends_its_attempts_and_gives_its_lanes_back(works: Works) -> None:
    await works.add_route("/slow", concurrency=4)
    works.endpoint.behaviours["/slow"] = answers(200, after_s=0.3)
    worker = await works.start()
    await works.owe(10)
    await works.until(lambda: len(works.endpoint.requests) == 4)

    await worker.stop()

    assert await works.states() == [State.DUE] * 6 + [State.DONE] * 4
    held = await works.database.lanes.hold(["rte_slow"], owner=b"next", hold_ms=1)
    assert held == {"rte_slow"}


async def test_a_stop_that_takes_too_long_leaves_nothing_leased(works: Works) -> None:
    await works.add_route("/hangs", timeout_s=30)
    works.endpoint.behaviours["/hangs"] = hangs
    worker = await works.start(drain_s=0.2)
    await works.owe(2)
    await works.until(lambda: len(works.endpoint.requests) == 2)

    await worker.stop()

    assert await works.states() == [State.DUE] * 2


async def test_results_wait_for_a_database_that_was_away(works: Works) -> None:
    await works.add_route()
    worker = await works.start(lease_s=30)
    away = True
    real = works.database.deliveries.finish

    async def finish(finishes: Any) -> Any:
        if away:
            raise UnavailableError("the network is gone")
        return await real(finishes)

    worker._attempts["deliveries"]._finisher._leases.finish = finish  # type: ignore[method-assign]
    await works.owe(3)
    await works.until(lambda: len(works.endpoint.requests) == 3)
    await asyncio.sleep(0.3)
    away = False
    await works.until_ended()

    assert len(works.endpoint.requests) == 3


async def test_a_runner_may_end_its_own_job_in_its_own_transaction(works: Works) -> None:
    await works.add_route("/own", kind=RouteKind.HANDLER)
    await works.add_route("/other", kind=RouteKind.HANDLER)
    ran: list[LeasedJob] = []

    async def run(_: Route, job: LeasedJob) -> AttemptOutcome | None:
        now_ms = (await works.database.head()).now_ms
        done = await works.database.write(lambda tx: work_rows.complete(tx, job, now_ms=now_ms))
        assert done
        ran.append(job)
        return None

    runner = Runner(run, takes=lambda route: route.id == "rte_own")
    worker = await works.start(runners={RouteKind.HANDLER: runner})
    await works.owe(3)
    await works.until(lambda: len(ran) == 3)
    await worker.stop()

    assert await works.states(route="rte_own") == [State.DONE] * 3
    assert await works.states(route="rte_other") == [State.DUE] * 3


async def test_a_runner_that_breaks_is_an_attempt_that_failed(works: Works) -> None:
    await works.add_route("/own", kind=RouteKind.HANDLER, waits_s=(0.01,))

    async def run(_: Route, __: LeasedJob) -> AttemptOutcome | None:
        raise KeyError("secret text")

    await works.start(runners={RouteKind.HANDLER: Runner(run)})
    await works.owe()
    await works.until_ended()

    [letter] = await works.letters()
    assert (letter["reason"], letter["last_error"]) == ("attempts", "unexpected KeyError")


@pytest.mark.parametrize("change", ["off", "deleted"])
async def test_a_route_that_is_off_or_deleted_is_left_alone(works: Works, change: str) -> None:
    route = await works.add_route()
    await works.start()
    await works.owe()
    await works.until_ended()

    if change == "off":
        await works.switch(route.id, "by a person")
    else:
        await works.database.write(lambda tx: routes.remove(tx, "default", route.id) and None)
    [configuration] = works.configurations.values()
    await works.until(lambda: all(one.off for one in configuration.snapshot.routes.values()))
    await works.owe()
    await works.look()

    assert len(works.endpoint.requests) == 1
    assert await works.states() == [State.DUE, State.DONE]


async def test_behind_an_open_breaker_a_deadline_still_ends_a_delivery(works: Works) -> None:
    await works.add_route("/down", waits_s=(0.01,) * 100, deadline_s=1)
    works.endpoint.behaviours["/down"] = answers(500)
    await works.start(breaker=BreakerRule(failures=2, wait_s=30), give_up_every_s=0.1)

    await works.owe(20)
    await works.until_ended()

    assert {letter["reason"] for letter in await works.letters()} == {"deadline"}
    assert len(works.endpoint.requests) < 40, "nobody was asked for each of them"


async def test_a_small_workspace_is_not_kept_waiting_by_a_large_one(works: Works) -> None:
    for number in range(6):
        await works.add_route(f"/large{number}", workspace="large", concurrency=10)
    await works.add_route("/small", workspace="small", concurrency=10)
    for path in ("/small", *(f"/large{number}" for number in range(6))):
        works.endpoint.behaviours[path] = answers(200, after_s=0.02)
    await works.ledger.owe(100, source=make_source(workspace="large"))
    await works.start(concurrency=20)
    await works.until(lambda: len(works.endpoint.requests) > 40)

    before = len(works.endpoint.requests)
    await works.ledger.owe(20, source=make_source(workspace="small"))
    works.workers[0].wake(["rte_small"])
    await works.until(lambda: len(works.endpoint.at("/small")) == 20)

    # It had half of the slots although the other owed thirty times as much.
    assert len(works.endpoint.requests) - before < 20 + 120
    assert await works.states(workspace="large") != [State.DONE] * 600


async def test_slow_endpoints_of_a_workspace_use_all_slots_and_delay_no_quick_one(
    works: Works,
) -> None:
    for number in range(4):
        await works.add_route(f"/slow{number}", timeout_s=9.0, concurrency=4)
        works.endpoint.behaviours[f"/slow{number}"] = hangs
    await works.add_route("/quick")
    await works.start(concurrency=8, lease_s=30.0, drain_s=0.1)
    await works.owe(10)
    await works.until(lambda: len(works.endpoint.at("/quick")) == 10)
    await works.until(lambda: sum(works.endpoint.running.values()) >= 6)
    await asyncio.sleep(0.3)
    slow = sum(works.endpoint.running.values())

    with Stopwatch() as watch:
        await works.owe()
        await works.until(lambda: len(works.endpoint.at("/quick")) == 11)

    assert slow == 8
    assert watch.seconds < 4
