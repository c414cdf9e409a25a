"""A key that is revoked while its requests wait sees nothing of what comes after."""

import json
from collections.abc import Iterator
from http.client import HTTPConnection
from pathlib import Path
from typing import Any

import pytest

from tests.acceptance.expecting import SETTINGS, agent_of, deliver
from tests.acceptance.harness import SETTINGS as SOURCES
from tests.acceptance.harness import Server, event, running
from tests.servers import free_port

WAIT_S = 25


@pytest.fixture
def server(sqlite_template: Path, tmp_path: Path) -> Iterator[Server]:
    url = f"sqlite:///{tmp_path / 'data.db'}"
    (tmp_path / "data.db").write_bytes(sqlite_template.read_bytes())
    settings = SOURCES + SETTINGS
    with running(Server(tmp_path, url, settings=settings, smtp_port=free_port())) as started:
        yield started


def test_what_comes_after_a_key_was_revoked_is_not_shown_to_who_waits(server: Server) -> None:
    made = server.api("/v1/keys", method="POST", json={"scope": "operator"}).json()
    inbox = server.api("/v1/inboxes", method="POST", json={"local": "ann"}).json()
    server.api("/v1/routes", method="POST", json={"name": "feed", "kind": "poll"})
    wanted = agent_of(server, "operator").open(inbox={"local": "bob"})
    several = {"inboxes": [{"inbox": inbox["id"]}], "wait": WAIT_S}
    waits: list[tuple[str, str, Any]] = [
        ("GET", f"/v1/inboxes/{inbox['id']}/messages?wait={WAIT_S}", None),
        ("POST", "/v1/inboxes/messages", several),
        ("GET", f"/v1/routes/feed/events?wait={WAIT_S}", None),
        ("GET", f"/v1/expectations/{wanted['id']}?wait={WAIT_S}", None),
    ]
    waiting = [_ask(server, made["key"], *one) for one in waits]

    assert server.api(f"/v1/keys/{made['id']}", method="DELETE").status_code == 204
    deliver(server, inbox["address"], "Your code is 184402.")
    deliver(server, wanted["address"], "Your code is 582913.")
    assert server.post(event(1)).status_code == 200

    answers = [one.getresponse() for one in waiting]
    shown = {
        path: (answer.status, answer.read()[:200])
        for (_, path, _), answer in zip(waits, answers, strict=True)
        if answer.status != 401
    }
    for one in waiting:
        one.close()
    assert shown == {}


def _ask(server: Server, key: str, method: str, path: str, body: Any) -> HTTPConnection:
    """Send a request, and leave its answer for later."""
    connection = HTTPConnection("127.0.0.1", server.port, timeout=60)
    headers = {"Authorization": f"Bearer {key}", "Content-Type": "application/json"}
    connection.request(method, path, None if body is None else json.dumps(body), headers)
    return connection
