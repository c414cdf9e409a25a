"""Deliveries over real processes, to endpoints that behave as badly as endpoints do."""

import json
import time
from pathlib import Path
from typing import Any

import pytest

from tests.acceptance import rebinding, sql
from tests.acceptance.delivering import (
    DEAD,
    DONE,
    has_ended,
    make_server,
    owe,
    states,
    worker_only,
)
from tests.acceptance.harness import Server, event, running
from tests.endpoint import (
    Endpoint,
    answers,
    breaks_off,
    drips,
    floods,
    hangs,
    hangs_up,
    in_turn,
    running_endpoint,
)
from tests.servers import wait_for
from tests.stopwatch import Stopwatch

Routes = dict[str, dict[str, Any]]

WAITS_S = [0.1, 0.2]
RUDE = {
    "ok": answers(200),
    "late": in_turn(answers(500), answers(503), answers(200)),
    "gate": in_turn(answers(202, X_Mailonce_Gate="processing"), answers(200)),
    "hangs": hangs,
    "drips": drips,
    "redirects": answers(302, Location="http://169.254.169.254/latest/meta-data/"),
    "floods": floods,
    "breaks": breaks_off,
    "closes": hangs_up,
    "blames": answers(404),
}
# How many requests each gets, and how its delivery ends.
EXPECTED = {
    "ok": (1, None),
    "late": (3, None),
    "gate": (2, None),
    "hangs": (3, "attempts"),
    # Status and headers came: it was taken, whatever becomes of the rest.
    "drips": (1, None),
    "redirects": (3, "attempts"),
    "floods": (1, None),
    "breaks": (1, None),
    "closes": (3, "attempts"),
    "blames": (2, "permanent"),
    # It is tried, and nobody is reached: first nowhere, then our own guard says no.
    "rebinds": (0, "refused"),
}


def test_each_endpoint_gets_exactly_the_attempts_of_its_schedule(
    database_url: str, tmp_path: Path
) -> None:
    with running_endpoint(**RUDE) as endpoint:
        limits = {"waits_s": WAITS_S, "timeout_s": 1.0, "blamed_attempts_max": 2}
        routes: Routes = {name: dict(limits) for name in EXPECTED}
        routes["rebinds"]["url"] = f"http://rebind.example:{endpoint.port}/rebinds"
        server = make_server(
            tmp_path / "server", database_url, endpoint, routes, launcher=(rebinding.__file__,)
        )
        with running(server):
            with Stopwatch() as watch:
                server.post(event(1))
                wait_for(lambda: endpoint.at("/ok"), what="the polite one")

            wait_for(lambda: has_ended(database_url), what="every delivery to end")
            time.sleep(0.5)

        rows = sql.query(database_url, "SELECT route, reason FROM dead_letters")
        letters = {row[0]: row[1] for row in rows}
        shown = {
            name: (len(endpoint.at(f"/{name}")), letters.get(f"rte_{name}")) for name in EXPECTED
        }
        assert shown == EXPECTED
        assert watch.seconds < 3, "the rude ones delay nobody"
        _check_attempts(endpoint, database_url)


def _check_attempts(endpoint: Endpoint, url: str) -> None:
    rows = sql.query(
        url,
        "SELECT d.route, a.attempt, a.status, a.error, length(a.answer) FROM attempts a "
        "JOIN deliveries d ON d.key = a.delivery ORDER BY 1, 2",
    )
    for name, (requests, _) in EXPECTED.items():
        seen = endpoint.at(f"/{name}")
        kept = [row for row in rows if row[0] == f"rte_{name}"]
        assert [row[1] for row in kept] == list(range(1, (requests or 2) + 1)), name
        assert [request.attempt for request in seen] == list(range(1, requests + 1)), name
        assert len({(request.key, request.body) for request in seen}) <= 1, name
        for wait_s, before, after in zip(WAITS_S, seen, seen[1:], strict=False):
            assert after.at_s - before.at_s >= 0.8 * wait_s, name
    # They differ in the route alone.
    bodies = [json.loads(request.body) for request in endpoint.requests]
    assert {body.pop("route_id") for body in bodies} == {
        f"rte_{name}" for name, (requests, _) in EXPECTED.items() if requests
    }
    assert all(body == bodies[0] for body in bodies)
    assert [row[4] for row in rows if row[0] == "rte_floods"] == [4096]
    guarded = [row[3] for row in rows if row[0] == "rte_rebinds"]
    assert "not a public address" in guarded[-1]


HEALTHY = [f"well{number}" for number in range(9)]


@pytest.mark.parametrize("number", [200, pytest.param(1_112, marks=pytest.mark.long)])
def test_nine_healthy_endpoints_get_everything_before_a_dead_one_fails_once(
    postgres_url: str, tmp_path: Path, number: int
) -> None:
    with running_endpoint(dead=hangs) as endpoint:
        # It may have every slot of the worker for a minute, if it is given them.
        dead = {"timeout_s": 60, "concurrency": 40}
        routes: Routes = {**{name: {} for name in HEALTHY}, "dead": dead}
        server = make_server(
            tmp_path / "server", postgres_url, endpoint, routes,
            environment=worker_only(), worker={"concurrency": 40, "drain_s": 0.1, "lease_s": 120},
        )  # fmt: skip
        with running(server):
            owe(postgres_url, ["dead"], number, mark="dead")
            wait_for(
                lambda: endpoint.running.get("/dead", 0) >= 40, what="the dead one to have it all"
            )

            owe(postgres_url, HEALTHY, number, mark="well")
            wait_for(
                lambda: all(states(postgres_url, name) == {DONE: number} for name in HEALTHY),
                seconds=240,
                what="the healthy ones to have everything",
            )
            ended = sql.query(
                postgres_url,
                "SELECT count(*) FROM attempts a JOIN deliveries d ON d.key = a.delivery "
                "WHERE d.route = 'rte_dead'",
            )

    assert ended == [(0,)]
    assert len(endpoint.at("/dead")) == 40


def test_a_process_without_the_door_tells_its_health_and_nothing_else(
    postgres_url: str, tmp_path: Path
) -> None:
    server = Server(tmp_path / "server", postgres_url, environment=worker_only())
    with running(server):
        codes = {
            path: server.api(path).status_code
            for path in ("/healthz", "/readyz", "/metrics", "/v1/events", "/docs")
        }

        taken = server.post(event(1)).status_code

    assert codes == {
        "/healthz": 200, "/readyz": 200, "/metrics": 200, "/v1/events": 404, "/docs": 404,
    }  # fmt: skip
    assert taken == 503, "a proxy that leads webhooks here is wrong; they must come again"
    assert "health at" in server.log
    assert "API at" not in server.log


def test_a_door_leaves_deliveries_to_workers_and_wakes_them(
    postgres_url: str, tmp_path: Path
) -> None:
    with running_endpoint() as endpoint:
        routes: Routes = {"crm": {}}
        door = make_server(
            tmp_path / "door", postgres_url, endpoint, routes, environment=worker_only("door")
        )
        worker = make_server(
            tmp_path / "worker", postgres_url, endpoint, routes, environment=worker_only()
        )
        with running(door):
            door.post(event(1))
            time.sleep(1.5)
            alone = len(endpoint.requests)
            with running(worker):
                wait_for(lambda: len(endpoint.requests) == 1, what="the worker to find it")
                waits = []
                for number in range(2, 7):
                    with Stopwatch() as watch:
                        door.post(event(number))
                        wait_for(lambda n=number: len(endpoint.requests) == n, what="a wake-up")
                    waits.append(watch.seconds)

    assert alone == 0
    # A look each second would need half a second on average.
    assert sorted(waits)[2] < 0.3


def test_undelivered_work_survives_a_stop_and_a_start(database_url: str, tmp_path: Path) -> None:
    with running_endpoint(crm=answers(503)) as endpoint:
        server = make_server(
            tmp_path / "server", database_url, endpoint, {"crm": {"waits_s": [0.5] * 20}}
        )
        with running(server):
            for number in range(6):
                server.post(event(number))
            wait_for(lambda: len(endpoint.requests) >= 3, what="some attempts")
            code = server.stop()
            leased = sql.query(database_url, "SELECT count(*) FROM deliveries WHERE state = 1")
            endpoint.behaviours["/crm"] = answers(200)
            server.start()

            wait_for(lambda: states(database_url) == {DONE: 6}, what="all to be delivered")

    assert (code, leased) == (0, [(0,)])
    assert DEAD not in states(database_url)


def test_a_door_without_a_worker_knows_which_endpoints_are_down(
    postgres_url: str, tmp_path: Path
) -> None:
    routes = {"down": {"waits_s": [0.1] * 50}}
    with running_endpoint(down=answers(500)) as endpoint:
        door = make_server(
            tmp_path / "door", postgres_url, endpoint, routes, environment=worker_only("door")
        )
        worker = make_server(
            tmp_path / "worker", postgres_url, endpoint, routes, environment=worker_only(),
            worker={"breaker_failures": 2, "breaker_wait_s": 0.5, "hold_s": 3},
        )  # fmt: skip

        def is_down() -> bool:
            [route] = door.get("/v1/routes")["data"]
            assert route["endpoint_down"] == (route["next_attempt_at"] is not None)
            return bool(route["endpoint_down"])

        with running(door), running(worker):
            assert not is_down()
            for number in range(5):
                door.post(event(number))

            wait_for(is_down, what="the door to know")
            undelivered = door.get("/v1/undelivered")["routes"]
            found = {one["check"] for one in door.get("/v1/checkup")["data"]}
            worker.kill()
            wait_for(lambda: not is_down(), what="the word of a killed worker to expire")
            worker.start()
            wait_for(is_down, what="the next worker to say it")
            endpoint.behaviours["/down"] = answers(200)
            wait_for(lambda: not is_down(), what="the door to know that it is up")

        assert [one["endpoint_down"] for one in undelivered] == [True]
        assert "route down" in found
