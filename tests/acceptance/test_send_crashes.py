"""`kill -9` at each point of a send's way: the provider never gets one mail twice."""

import contextlib
import signal
import time
from pathlib import Path
from typing import Any

import httpx
import pytest

from tests.acceptance import crashing_sends
from tests.acceptance.harness import Server
from tests.acceptance.sending import running_fakes, sending_server, settle_by_webhooks, submit
from tests.servers import wait_for

# Where it dies, what the send is then, and how many mails the provider has.
POINTS = {
    "submit": ("accepted", 1),
    "lease": ("accepted", 1),
    "mark": ("unknown", 0),
    "answer": ("unknown", 1),
    "record": ("accepted", 1),
}


def die(server: Server, point: str) -> None:
    """Submit a mail to a server that dies at a point of its way."""
    server.launcher = (crashing_sends.__file__, point)
    server.start()
    with contextlib.suppress(httpx.TransportError):
        submit(server, "k-1", sender="postmark")
    assert server.process is not None
    assert server.process.wait(60) == -signal.SIGKILL


def state_after(server: Server, launcher: tuple[str, ...], *words: str) -> dict[str, Any]:
    """Start it again, ask for the same mail again, and wait until it has ended in some way."""
    server.launcher = launcher
    server.start()
    id_ = submit(server, "k-1", sender="postmark").json()["id"]
    wait_for(lambda: server.get(f"/v1/sends/{id_}")["state"] in words, what=f"{words}")
    send: dict[str, Any] = server.get(f"/v1/sends/{id_}")
    return send


@pytest.mark.slow
@pytest.mark.parametrize("point", POINTS)
def test_a_send_survives_a_crash_at_each_point_of_its_way(
    point: str, database_url: str, tmp_path: Path
) -> None:
    state, messages = POINTS[point]
    with running_fakes("postmark") as fakes:
        fake = fakes["postmark"]
        fake.lists_late = True
        server = sending_server(tmp_path / "server", database_url, fakes)
        try:
            die(server, point)
            send = state_after(server, ("-m", "mailonce"), "accepted", "unknown")
            assert (send["state"], len(fake.messages)) == (state, messages)
            settle_by_webhooks(server, fake, "postmark", now_s=int(time.time()))
            settled = server.get(f"/v1/sends/{send['id']}")["state"]

            assert settled == ("accepted" if messages else "unknown")
            assert len(fake.messages) == messages
            assert len(server.get("/v1/sends")["data"]) == 1
        finally:
            server.kill()


@pytest.mark.slow
@pytest.mark.parametrize("mutant", ["mark_after_the_first_byte", "expired_flight_is_pending"])
def test_a_broken_twin_sends_twice(mutant: str, database_url: str, tmp_path: Path) -> None:
    with running_fakes("postmark") as fakes:
        server = sending_server(tmp_path / "server", database_url, fakes)
        try:
            die(server, f"answer+{mutant}")
            server.launcher = (crashing_sends.__file__, f"+{mutant}")
            server.start()

            wait_for(lambda: len(fakes["postmark"].messages) == 2, what="the second mail")
        finally:
            server.kill()
