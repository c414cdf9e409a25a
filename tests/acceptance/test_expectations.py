"""Expectations over HTTP: opened, filled over SMTP, waited for, consumed once, explained."""

from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest

from tests.acceptance.expecting import SETTINGS, agent_of, deliver
from tests.acceptance.harness import Server, running
from tests.servers import free_port


@pytest.fixture
def server(database_url: str, tmp_path: Path) -> Iterator[Server]:
    made = Server(tmp_path / "server", database_url, SETTINGS, smtp_port=free_port())
    with running(made) as started:
        yield started


def test_a_code_is_expected_waited_for_and_consumed(server: Server) -> None:
    agent = agent_of(server)
    opened = agent.open(senders=["no-reply@shop.example"])
    with ThreadPoolExecutor(1) as pool:
        waiting = pool.submit(agent.show, opened["id"], 25)
        deliver(server, opened["address"], "Your verification code is 734 120.")
        ready = waiting.result()

    assert (ready["state"], ready["artifact"]["sender"]) == ("ready", "no-reply@shop.example")
    assert "734120" not in str(ready)
    consumed = agent.consume(opened["id"], "run-1").json()
    assert consumed["artifact"]["value"] == "734120"
    other = agent.consume(opened["id"], "run-2")
    assert (other.status_code, "retry_at" in other.json()) == (409, True)
    confirmed = agent.confirm(opened["id"], "run-1", accepted=True)
    assert (confirmed.status_code, confirmed.json()["state"]) == (200, "consumed")
    explained = server.get(f"/v1/expectations/{opened['id']}/explain")
    assert explained["judged"][0]["outcome"] == "matched"
    assert [one["state"] for one in server.get("/v1/consumptions")["data"]] == ["accepted"]
