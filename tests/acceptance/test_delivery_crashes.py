"""Workers that die, freeze and come back: each delivery arrives, and no stale result stands."""

import contextlib
import random
import signal
import time
from collections import Counter
from pathlib import Path
from typing import Any

import httpx
import pytest

from tests.acceptance import crashing, mutants, sql
from tests.acceptance.delivering import DONE, DUE, has_ended, make_server, metric, owe, states
from tests.acceptance.delivering import worker_only as worker_role
from tests.acceptance.harness import Server, event, running
from tests.endpoint import Endpoint, answers, hangs, in_turn, running_endpoint
from tests.servers import wait_for

QUICK = {"lease_s": 1, "hold_s": 1, "lost_leases_max": 100}
CRM: dict[str, dict[str, Any]] = {"crm": {"timeout_s": 0.8, "waits_s": [0.1] * 10}}
# Where the process dies, one after the other, and what the endpoint has seen of the one delivery
# by then: the numbers of its attempts.
POINTS = {
    "before_lease": [],
    "after_lease": [],
    "before_finish": [2],
    "after_finish": [2, 3],
}
HISTORY = """
SELECT d.attempts, a.attempt, a.status, a.error FROM deliveries d
JOIN attempts a ON a.delivery = d.key ORDER BY a.attempt
"""


def make_worker(folder: Path, url: str, endpoint: Endpoint, **named: Any) -> Server:
    return make_server(
        folder, url, endpoint, named.pop("routes", CRM), worker=QUICK, **named
    )  # fmt: skip


@pytest.mark.slow
def test_a_delivery_survives_a_crash_at_each_point_of_its_way(
    database_url: str, tmp_path: Path
) -> None:
    with running_endpoint() as endpoint:
        server = make_worker(tmp_path / "server", database_url, endpoint)
        try:
            for point, attempts in POINTS.items():
                server.launcher = (crashing.__file__, point)
                server.spawn()
                if point == "before_lease":
                    wait_for(server.is_ready, seconds=60, what="the server")
                    # It may die before it has answered; what it took is committed.
                    with contextlib.suppress(httpx.TransportError):
                        server.post(event(1))
                assert server.process is not None
                assert server.process.wait(60) == -signal.SIGKILL, point

                assert [request.attempt for request in endpoint.requests] == attempts, point
        finally:
            server.kill()

        assert states(database_url) == {DONE: 1}
        assert len({(request.key, request.body) for request in endpoint.requests}) == 1
        assert [row[1:] for row in sql.query(database_url, HISTORY)] == [
            (1, None, "lease_lost"), (2, None, "lease_lost"), (3, 200, None),
        ]  # fmt: skip


@pytest.mark.slow
def test_a_delivery_leased_as_it_was_recorded_survives_a_crash_before_its_first_byte(
    postgres_url: str, tmp_path: Path
) -> None:
    with running_endpoint() as endpoint:
        # Leases that outlast the test: a dead worker's are ended because it is gone.
        server = make_server(
            tmp_path / "server", postgres_url, endpoint, CRM,
            worker={"lease_s": 600, "hold_s": 60},
            launcher=(crashing.__file__, "after_early_lease"),
        )  # fmt: skip
        try:
            server.start()
            number = 0
            # The first ones find no lane that is held; the one that does is the last.
            while not _is_dead(server):
                number += 1
                assert number < 200, "nothing was leased as it was recorded"
                with contextlib.suppress(httpx.TransportError):
                    server.post(event(number))
                wait_for(lambda: _keys(endpoint) == number or _is_dead(server), what="its end")  # noqa: B023
            assert _keys(endpoint) == number - 1

            server.launcher = ("-m", "mailonce")
            server.start()
            wait_for(lambda: states(postgres_url) == {DONE: number}, what="the last one")
        finally:
            server.kill()

    assert _keys(endpoint) == number
    lost = sql.query(postgres_url, "SELECT attempt FROM attempts WHERE error = 'lease_lost'")
    assert (1,) in lost
    assert [request.attempt for request in endpoint.requests][-1] == 2


@pytest.mark.slow
@pytest.mark.parametrize("mutant", [None, "finish_before_request"])
def test_a_worker_killed_in_a_request_asks_again_or_is_the_broken_twin(
    mutant: str | None, postgres_url: str, tmp_path: Path
) -> None:
    launcher = ("-m", "mailonce") if mutant is None else (mutants.__file__, mutant)
    with running_endpoint(crm=in_turn(hangs, answers(200))) as endpoint:
        server = make_worker(
            tmp_path / "server", postgres_url, endpoint,
            launcher=launcher, environment=worker_role(),
        )  # fmt: skip
        with running(server):
            owe(postgres_url, ["crm"], 1, mark="one")
            wait_for(lambda: endpoint.requests, what="the first request")
            server.kill()
            server.launcher = ("-m", "mailonce")
            server.start()
            deadline = time.monotonic() + (60 if mutant is None else 4)
            while len(endpoint.requests) < 2 and time.monotonic() < deadline:
                time.sleep(0.05)

    # The endpoint never took the first: a twin that called it done beforehand has lost it.
    assert (len(endpoint.requests) == 2) is (mutant is None)


@pytest.mark.slow
@pytest.mark.parametrize("mutant", [None, "finish_without_fence"])
def test_a_worker_that_wakes_after_its_lease_changes_nothing_or_is_the_broken_twin(
    mutant: str | None, postgres_url: str, tmp_path: Path
) -> None:
    launcher = ("-m", "mailonce") if mutant is None else (mutants.__file__, mutant)
    with running_endpoint(crm=in_turn(hangs, answers(200))) as endpoint:
        stale = make_worker(
            tmp_path / "stale", postgres_url, endpoint,
            launcher=launcher, environment=worker_role(),
        )  # fmt: skip
        fresh = make_worker(tmp_path / "fresh", postgres_url, endpoint, environment=worker_role())
        with running(stale):
            owe(postgres_url, ["crm"], 1, mark="one")
            wait_for(lambda: endpoint.requests, what="the first request")
            assert stale.process is not None
            stale.process.send_signal(signal.SIGSTOP)
            with running(fresh):
                wait_for(lambda: states(postgres_url) == {DONE: 1}, what="the second worker")
                before = sql.query(postgres_url, HISTORY)
                stale.process.send_signal(signal.SIGCONT)
                wait_for(
                    lambda: (
                        metric(stale, "mailonce_results_fenced_total")
                        or states(postgres_url) != {DONE: 1}
                        or len(endpoint.requests) > 2
                    ),
                    what="the stale worker to speak",
                )
                time.sleep(0.5)

                unchanged = (
                    states(postgres_url) == {DONE: 1}
                    and sql.query(postgres_url, HISTORY) == before
                    and len(endpoint.requests) == 2
                )

    assert unchanged is (mutant is None)


STORM = ["crm", "erp", "bi", "mail", "chat"]
OVERWRITTEN = """
SELECT count(*) FROM attempts a JOIN deliveries d ON d.key = a.delivery
WHERE a.status = 200 AND a.attempt <> d.attempts
"""


@pytest.mark.slow
@pytest.mark.timeout(400)
@pytest.mark.parametrize("seconds", [10, pytest.param(120, marks=pytest.mark.long)])
def test_three_workers_killed_and_frozen_at_random_deliver_everything_once(
    seconds: int, postgres_url: str, tmp_path: Path
) -> None:
    chance = random.Random(7)
    # So slow that there is always something under way.
    slow = answers(200, after_s=0.2)
    route = {"timeout_s": 0.6, "waits_s": [0.1] * 50, "concurrency": 10}
    routes = dict.fromkeys(STORM, route)
    with running_endpoint(**dict.fromkeys(STORM, slow)) as endpoint:
        workers = [
            make_worker(
                tmp_path / f"worker{number}", postgres_url, endpoint,
                routes=routes, environment=worker_role(),
            )
            for number in range(3)
        ]  # fmt: skip
        with contextlib.ExitStack() as stack:
            for worker in workers:
                stack.enter_context(running(worker))
            owed = 0
            deadline = time.monotonic() + seconds
            while time.monotonic() < deadline:
                # Always something under way, and never more than the calm after it can carry.
                if states(postgres_url).get(DUE, 0) < 300:
                    owe(postgres_url, STORM, 15, mark=str(owed))
                    owed += 15 * len(STORM)
                _disturb(chance.choice(workers), chance)
                time.sleep(chance.uniform(0.1, 0.6))
            for worker in workers:
                _revive(worker)

            wait_for(lambda: has_ended(postgres_url), seconds=60, what=f"{states(postgres_url)}")

        assert states(postgres_url) == {DONE: owed}
        effects = Counter(request.key for request in endpoint.requests)
        assert len(effects) == owed, "each reached the endpoint, by its key once"
        lost = sql.query(postgres_url, "SELECT count(*) FROM attempts WHERE error = 'lease_lost'")
        assert lost > [(0,)], "the storm was one"
        assert sql.query(postgres_url, OVERWRITTEN) == [(0,)]
        assert sql.query(postgres_url, "SELECT count(*) FROM attempts WHERE status = 200") == [
            (owed,)
        ]
        ends = sql.query(postgres_url, "SELECT count(*) FROM deliveries WHERE attempts <> token")
        assert ends == [(0,)]


def _disturb(worker: Server, chance: random.Random) -> None:
    assert worker.process is not None
    if worker.process.poll() is not None:
        worker.spawn()
    elif chance.random() < 0.5:
        worker.process.send_signal(chance.choice([signal.SIGSTOP, signal.SIGCONT]))
    else:
        worker.process.send_signal(signal.SIGCONT)
        worker.kill()


def _revive(worker: Server) -> None:
    assert worker.process is not None
    worker.process.send_signal(signal.SIGCONT)
    worker.start()


def _is_dead(server: Server) -> bool:
    return server.process is not None and server.process.poll() is not None


def _keys(endpoint: Endpoint) -> int:
    return len({request.key for request in endpoint.requests})
