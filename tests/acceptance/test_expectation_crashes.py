"""`kill -9` at each point of an expectation's way: nothing twice, nothing lost, nothing hidden."""

import contextlib
import signal
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import httpx
import pytest

from tests.acceptance import crashing_expectations
from tests.acceptance.expecting import Agent, agent_of, deliver
from tests.acceptance.harness import ADMIN_KEY, Server, running
from tests.endpoint import Endpoint, running_endpoint
from tests.servers import free_port, wait_for

SETTINGS = """
[inboxes]
domains = ["in.test"]
[net]
allow_hosts = ["{host}"]
[expectations]
resend_wait_s = 0
"""


@pytest.fixture
def endpoint() -> Iterator[Endpoint]:
    with running_endpoint() as made:
        yield made


@pytest.fixture
def server(database_url: str, tmp_path: Path, endpoint: Endpoint) -> Iterator[Server]:
    settings = SETTINGS.format(host=endpoint.host)
    environment = {"MAILONCE_MASTER_KEY": "one for all lives"}
    made = Server(tmp_path / "server", database_url, settings, environment, smtp_port=free_port())
    with running(made) as started:
        yield started


def rearm(server: Server, point: str) -> None:
    """Start it again, to die at a point, or at none."""
    server.kill()
    server.launcher = (crashing_expectations.__file__, point)
    server.start()


def die(server: Server, ask: Any) -> None:
    """Ask what the server dies of."""
    with contextlib.suppress(httpx.TransportError, OSError):
        ask()
    assert server.process is not None
    assert server.process.wait(60) == -signal.SIGKILL


@pytest.mark.slow
def test_a_code_survives_a_crash_at_each_point_of_its_way(server: Server) -> None:
    agent = agent_of(server)
    key = {"Idempotency-Key": "signup-1"}

    def open_it() -> httpx.Response:
        return agent.call("POST", "/v1/expectations", {"kind": "code"}, headers=key)

    rearm(server, "open")
    die(server, open_it)
    rearm(server, "match")
    opened = open_it()
    assert (opened.status_code, opened.headers["idempotent-replayed"]) == (201, "true")
    id_, address = opened.json()["id"], opened.json()["address"]
    assert len(server.get("/v1/expectations")["data"]) == 1
    die(server, lambda: deliver(server, address, "Your verification code is 734120."))
    rearm(server, "consume")
    assert agent.show(id_, wait=25)["state"] == "ready"
    assert agent.show(id_)["mails"] == 1
    die(server, lambda: agent.consume(id_, "run-1"))
    rearm(server, "confirm")
    other = agent.consume(id_, "run-2")
    assert (other.status_code, other.json()["type"]) == (409, "urn:mailonce:consumed")
    again = agent.consume(id_, "run-1").json()
    assert (again["artifact"]["value"], again["token"]) == ("734120", 1)
    die(server, lambda: agent.confirm(id_, "run-1", accepted=True))
    rearm(server, "none")
    assert agent.confirm(id_, "run-1", accepted=True).status_code == 200
    assert agent.confirm(id_, "run-1", accepted=False).status_code == 409
    [consumption] = server.get("/v1/consumptions")["data"]
    assert (consumption["state"], consumption["token"]) == ("accepted", 1)


@pytest.mark.slow
@pytest.mark.parametrize(
    ("point", "requests"),
    [("request", 0), pytest.param("answer", 1, marks=pytest.mark.long)],
)
def test_a_link_is_requested_at_most_once(
    server: Server, endpoint: Endpoint, point: str, requests: int
) -> None:
    operator = Agent(server, ADMIN_KEY)
    opened = operator.open(kind="link", link_hosts=[endpoint.url("")])
    deliver(server, opened["address"], f"Confirm your address: {endpoint.url('/verify/abc')}")
    assert operator.show(opened["id"], wait=25)["state"] == "ready"
    rearm(server, point)
    assert operator.consume(opened["id"], "run-1").status_code == 200

    def redeem() -> httpx.Response:
        path = f"/v1/expectations/{opened['id']}/redeem"
        return operator.call("POST", path, {"consume_key": "run-1"})

    die(server, redeem)
    rearm(server, "none")
    wait_for(lambda: redeem().status_code == 200, what="a redemption that is not under way")

    outcomes = [redeem().json() for _ in range(2)]
    assert {one["state"] for one in outcomes} == {"unknown"}
    assert len(endpoint.requests) == requests
    [consumption] = server.get("/v1/consumptions")["data"]
    assert consumption["redemption"]["state"] == "unknown"
