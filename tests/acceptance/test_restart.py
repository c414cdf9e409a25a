"""What a killed worker left is taken up by its successor at once; what a paused one has is not."""

import random
import signal
import time
from pathlib import Path

import pytest

from tests.acceptance.delivering import DONE, has_ended, make_server, owe, states, worker_only
from tests.acceptance.harness import Server, event, running
from tests.endpoint import answers, hangs, in_turn, running_endpoint
from tests.servers import wait_for
from tests.stopwatch import Stopwatch

# The default hold of a lane is ten seconds and the shortest lease thirty.
RESUMED_S = 5
ROUTE = {"concurrency": 4, "timeout_s": 10, "waits_s": [0.1] * 10}


@pytest.mark.slow
def test_after_kill_9_a_restarted_server_resumes_at_once(database_url: str, tmp_path: Path) -> None:
    chance = random.Random(3)
    with running_endpoint(crm=answers(200, after_s=0.8)) as endpoint:
        server = make_server(tmp_path / "server", database_url, endpoint, {"crm": ROUTE})
        with running(server):
            for turn in range(2):
                for number in range(12):
                    assert server.post(event(100 * turn + number)).status_code == 200
                wait_for(lambda: endpoint.running.get("/crm"), what="a request under way")
                time.sleep(chance.uniform(0.0, 0.4))
                server.kill()
                killed_s = time.monotonic()
                server.start()
                with Stopwatch() as watch:
                    wait_for(lambda: endpoint.requests[-1].at_s > killed_s, what="the next one")  # noqa: B023
                assert watch.seconds < RESUMED_S
            wait_for(lambda: has_ended(database_url), what="the last ones")

    assert states(database_url) == {DONE: 24}
    assert len({request.key for request in endpoint.requests}) == 24


@pytest.mark.parametrize("sent", [signal.SIGTERM, signal.SIGINT])
def test_who_stops_it_right_after_the_greeting_sees_it_end_in_order(
    database_url: str, tmp_path: Path, sent: signal.Signals
) -> None:
    server = Server(tmp_path / "server", database_url)
    server.spawn()
    try:
        wait_for(lambda: "listens at" in server.log, what="the greeting")

        code = server.stop(sent)

        assert code == 0, server.log
        assert not (server.folder / "mailonce-data/mailonce.sock").exists()
    finally:
        server.kill()


@pytest.mark.slow
def test_a_paused_worker_keeps_what_it_holds_as_long_as_its_lease_says(
    postgres_url: str, tmp_path: Path
) -> None:
    limits = {"lease_s": 4, "hold_s": 1}
    route = {"crm": {**ROUTE, "timeout_s": 2}}
    with running_endpoint(crm=in_turn(hangs, answers(200))) as endpoint:
        paused, fresh = (
            make_server(
                tmp_path / name, postgres_url, endpoint, route,
                worker=limits, environment=worker_only(),
            )
            for name in ("paused", "fresh")
        )  # fmt: skip
        with running(paused):
            owe(postgres_url, ["crm"], 1, mark="one")
            wait_for(lambda: endpoint.requests, what="the first request")
            assert paused.process is not None
            paused.process.send_signal(signal.SIGSTOP)
            leased_s = endpoint.requests[0].at_s
            with running(fresh):
                wait_for(lambda: len(endpoint.requests) == 2, what="the second worker")
                wait_for(lambda: states(postgres_url) == {DONE: 1}, what="its result")
                paused.process.send_signal(signal.SIGCONT)
                time.sleep(0.5)

    first, second = endpoint.requests
    assert (first.attempt, second.attempt) == (1, 2)
    assert second.at_s - leased_s > 3.5
