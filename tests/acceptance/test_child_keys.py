"""Child keys: made offline, for one expectation, a time and a number of values."""

import time
from collections.abc import Iterator
from pathlib import Path

import pytest

from mailonce.core.expectations.child_key import make_child_key
from tests.acceptance.expecting import SETTINGS, Agent, agent_of, deliver
from tests.acceptance.harness import ADMIN_KEY, Server, running
from tests.servers import free_port

MINUTE_MS = 60_000


@pytest.fixture
def server(database_url: str, tmp_path: Path) -> Iterator[Server]:
    made = Server(tmp_path / "server", database_url, SETTINGS, smtp_port=free_port())
    with running(made) as started:
        yield started


def child_of(parent: Agent, expectation: str, *, uses: int = 1, life_ms: int = MINUTE_MS) -> Agent:
    expires_ms = int(time.time() * 1000) + life_ms
    key = make_child_key(parent.key, expectation, expires_ms=expires_ms, uses=uses)
    return Agent(parent.server, key)


def test_a_child_key_has_one_expectation_and_a_number_of_values(server: Server) -> None:
    parent = agent_of(server, "operator")
    mine, other = parent.open(resends=5), parent.open()
    deliver(server, mine["address"], "Your verification code is 111222.")
    assert parent.show(mine["id"], wait=25)["state"] == "ready"
    child = child_of(parent, mine["id"], uses=1)

    assert child.show(mine["id"])["state"] == "ready"
    assert child.call("GET", f"/v1/expectations/{other['id']}").status_code == 403
    assert child.call("POST", "/v1/expectations", {"kind": "code"}).status_code == 403
    assert child.call("GET", f"/v1/inboxes/{mine['inbox']}/messages").status_code == 403
    taken = [child.consume(mine["id"], "run-1").json()["artifact"]["value"] for _ in range(3)]
    assert taken == ["111222"] * 3
    # The word is the child's own: another key with the same consume key is somebody else.
    assert parent.consume(mine["id"], "run-1").status_code == 409
    assert child.confirm(mine["id"], "run-1", accepted=False).status_code == 200
    deliver(server, mine["address"], "Your verification code is 333444.")
    assert child.show(mine["id"], wait=25)["state"] == "ready"
    used_up = child.consume(mine["id"], "run-2")
    assert (used_up.status_code, used_up.json()["type"]) == (403, "urn:mailonce:used_up")
    assert child_of(parent, mine["id"], uses=2).consume(mine["id"], "r").status_code == 200


def test_a_child_key_ends_and_ends_with_its_parent(server: Server) -> None:
    made = server.api("/v1/keys", method="POST", json={"name": "p", "scope": "agent"}).json()
    parent = Agent(server, made["key"])
    opened = parent.open()
    path = f"/v1/expectations/{opened['id']}"
    child = child_of(parent, opened["id"])
    assert child.call("GET", path).status_code == 200
    forged = Agent(server, child.key[:-4] + "AAAA")
    strangers = [
        child_of(parent, opened["id"], life_ms=-1),
        child_of(parent, opened["id"], life_ms=365 * 86_400_000),
        child_of(Agent(server, "mok_" + "0" * 48), opened["id"]),
        # A key that a person chose could be found from what it signed.
        child_of(Agent(server, ADMIN_KEY), opened["id"]),
        child_of(agent_of(server, "reader"), opened["id"]),
        forged,
    ]
    assert [one.call("GET", path).status_code for one in strangers] == [401] * 6

    server.api(f"/v1/keys/{made['id']}", method="DELETE")

    assert child.call("GET", path).status_code == 401
