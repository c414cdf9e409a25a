"""A consumer that cannot take webhooks polls, over a restart and while others write."""

import threading
import time
from concurrent.futures import ThreadPoolExecutor
from typing import Any

import httpx

from tests.acceptance.harness import Server, event
from tests.stopwatch import Stopwatch


def make_route(server: Server, name: str = "feed", **fields: Any) -> str:
    made = server.api("/v1/routes", method="POST", json={"name": name, "kind": "poll", **fields})
    assert made.status_code == 201, made.text
    return str(made.json()["id"])


def poll(server: Server, route: str = "feed", **params: Any) -> Any:
    return server.get(f"/v1/routes/{route}/events", **params)


def acknowledge(server: Server, cursor: int, route: str = "feed") -> httpx.Response:
    return server.api(
        f"/v1/routes/{route}/acknowledgements", method="POST", json={"cursor": cursor}
    )


def test_a_consumer_polls_over_a_crash_waits_and_is_let_go_at_the_end(server: Server) -> None:
    make_route(server, events=["delivered"])
    for number in (1, 2, 3):
        server.post(event(number))
    server.post(event(4, "open"))
    _check_what_a_crash_leaves(server)
    _check_wrong_questions(server)
    _check_redelivery(server)
    _check_waiting(server)


def _check_what_a_crash_leaves(server: Server) -> None:
    first = poll(server, limit=2)
    assert acknowledge(server, first["data"][0]["cursor"]).json() == {"acknowledged": 1, "last": 3}
    server.kill()
    server.start()
    again = poll(server)

    assert [one["event"]["message_id"] for one in first["data"]] == ["m1", "m2"]
    assert [one["event"]["message_id"] for one in again["data"]] == ["m2", "m3"]
    assert again["data"][0] == first["data"][1], "same number, same key, same event"
    assert again["cursor"] == 3
    assert again["data"][0]["event"]["schema"] == "mailonce.event/1"


def _check_redelivery(server: Server) -> None:
    (first,) = poll(server, after=0, limit=1)["data"]
    redelivery = server.api("/v1/redeliveries", method="POST", json={"ids": [first["id"]]})
    assert redelivery.status_code < 300, redelivery.text
    page = poll(server, wait=20, after=3)

    (again,) = page["data"]
    assert again == {**first, "cursor": 4, "redelivery": 1}


def _check_waiting(server: Server) -> None:
    post = threading.Timer(0.4, lambda: server.post(event(5)))
    post.start()
    with Stopwatch() as watch:
        found = poll(server, wait=20, after=4)
    post.join()
    nothing = poll(server, wait=0.2, after=found["cursor"])

    assert [one["event"]["message_id"] for one in found["data"]] == ["m5"]
    assert watch.wall_s > 0.3
    assert watch.seconds < 15
    assert nothing == {"data": [], "cursor": found["cursor"]}
    with ThreadPoolExecutor(1) as pool:
        waiting = pool.submit(poll, server, wait=25, after=found["cursor"])
        time.sleep(0.5)
        with Stopwatch() as watch:
            assert server.stop() == 0
        assert watch.seconds < 15
        assert waiting.result()["data"] == []


def _check_wrong_questions(server: Server) -> None:
    hook = {"name": "hook", "url": "https://example.com/hooks"}
    assert server.api("/v1/routes", method="POST", json=hook).status_code == 201

    wrong = [
        ("feed", {"after": "x"}, "`after`"),
        ("feed", {"after": "9"}, "last number given"),
        ("feed", {"wait": "26"}, "`wait`"),
        ("feed", {"wait": "nan"}, "`wait`"),
        ("feed", {"limit": "0"}, "`limit`"),
        ("hook", {}, "kind webhook"),
    ]
    for route, params, word in wrong:
        answer = server.api(f"/v1/routes/{route}/events", params=params)
        assert answer.status_code == 400, answer.text
        assert word in answer.json()["detail"]
    assert server.api("/v1/routes/nobody/events").status_code == 404
    assert acknowledge(server, 7).status_code == 400
    assert acknowledge(server, -1).status_code == 400
    make_route(server, "idle")
    assert server.api("/v1/routes/idle/off", method="POST").status_code == 200
    assert "switched off" in server.api("/v1/routes/idle/events").json()["detail"]
