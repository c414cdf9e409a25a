"""Each line of defence around an artifact, taken away, is missed by the checks that hold it."""

import smtplib
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

from tests.acceptance import agent_tools, mutants
from tests.acceptance.expecting import Agent, agent_of, deliver
from tests.acceptance.harness import HTTP, Server, running
from tests.acceptance.test_seed_003 import CODE, INBOXES, SHARED, mail, mail_source, webhook
from tests.servers import free_port

LAUNCHER = str(Path(mutants.__file__))
CANARY = "Zqxcanary"


@contextmanager
def twin(name: str, database_url: str, folder: Path) -> Iterator[tuple[Server, Agent]]:
    settings = f"{INBOXES}\n{mail_source()}"
    launcher = ("-m", "mailonce") if name == "ours" else (LAUNCHER, name)
    server = Server(
        folder / name, database_url, settings, SHARED, launcher=launcher, smtp_port=free_port()
    )
    with running(server):
        yield server, agent_of(server)


def sees_one_delivery(server: Server, agent: Agent) -> bool:
    address = agent.open()["address"]
    post = webhook(mail("734120", "one@shop"), address, now_s=int(time.time()))
    url = f"{server.url}/in/hooks"
    statuses = [
        HTTP.post(url, content=post.body, headers=dict(post.headers)).json()["status"]
        for _ in range(2)
    ]
    return statuses == ["accepted", "duplicate"]


def sees_one_message(server: Server, agent: Agent) -> bool:
    opened = agent.open()
    for trace in (b"", b"Received: from a by b\r\n"):
        with smtplib.SMTP("127.0.0.1", server.smtp_port, timeout=60) as smtp:
            raw = trace + mail("734120", "two@shop")
            smtp.sendmail("a@shop.example", [opened["address"]], raw)
    # Mail is read in its order, so what is ready has seen those before.
    deliver(server, opened["address"], CODE.format("555666"), sender="no-reply@shop.example")
    agent.show(opened["id"], wait=25)
    explained = server.get(f"/v1/expectations/{opened['id']}/explain")
    wanted = 3
    while max((one["seq"] for one in explained["judged"]), default=0) < wanted:
        explained = server.get(f"/v1/expectations/{opened['id']}/explain")
    return len(explained["judged"]) == 2


def hands_out_a_resent_code_once(server: Server, agent: Agent) -> bool:
    first = agent.open()
    deliver(server, first["address"], CODE.format("734120"))
    agent.show(first["id"], wait=25)
    taken = agent.consume(first["id"], "run-1").status_code
    path = f"/v1/inboxes/{first['inbox']}/expectations"
    second = agent.call("POST", path, {"kind": "code"}).json()
    deliver(server, first["address"], CODE.format("734120"), subject="Again")
    agent.show(second["id"], wait=25)
    return (taken, agent.consume(second["id"], "run-2").status_code) == (200, 409)


def hands_out_to_one(server: Server, agent: Agent) -> bool:
    opened = agent.open()
    deliver(server, opened["address"], CODE.format("734120"))
    agent.show(opened["id"], wait=25)
    codes = [agent.consume(opened["id"], f"run-{n}").status_code for n in range(2)]
    return codes == [200, 409]


def tells_an_agent_nothing(server: Server, agent: Agent) -> bool:
    opened = agent.open()
    sender = f'"{CANARY}" <{CANARY}@shop.example>'
    deliver(server, opened["address"], CANARY, subject=CANARY, sender=sender)
    path = f"/v1/expectations/{opened['id']}/explain"
    while not server.get(path)["judged"]:
        agent.show(opened["id"], wait=0.2)
    told = [agent.call("GET", path), agent.consume(opened["id"], "run-1")]
    return all(CANARY.lower() not in one.text.lower() for one in told)


def tells_its_tools_nothing(server: Server, agent: Agent) -> bool:
    """The same over MCP: what a model reads of each tool that it has."""
    opened = agent.open()
    sender = f'"{CANARY}" <{CANARY}@shop.example>'
    deliver(server, opened["address"], CANARY, subject=CANARY, sender=sender)
    path = f"/v1/expectations/{opened['id']}/explain"
    while not (judged := server.get(path)["judged"]):
        agent.show(opened["id"], wait=0.2)
    answers = agent_tools.walk(agent, opened["id"], opened["inbox"], judged[0]["message"])
    return all(CANARY.lower() not in one.text.lower() for one in answers)


Check = Callable[[Server, Agent], bool]
CHECKS: dict[str, tuple[Check, ...]] = {
    "delivery_without_a_key": (sees_one_delivery,),
    "message_without_a_key": (sees_one_message,),
    "artifact_without_a_key": (hands_out_a_resent_code_once,),
    "consumption_without_a_holder": (hands_out_to_one,),
    "subject_in_an_error": (tells_an_agent_nothing, tells_its_tools_nothing),
    "display_name_in_explain": (tells_an_agent_nothing, tells_its_tools_nothing),
}


def test_ours_passes_every_check(database_url: str, tmp_path: Path) -> None:
    checks = dict.fromkeys(check for several in CHECKS.values() for check in several)
    with twin("ours", database_url, tmp_path) as (server, agent):
        assert [check.__name__ for check in checks if not check(server, agent)] == []


@pytest.mark.slow
@pytest.mark.parametrize("name", CHECKS)
def test_a_broken_twin_fails_its_check(name: str, tmp_path: Path, sqlite_template: Path) -> None:
    path = tmp_path / "data.db"
    path.write_bytes(sqlite_template.read_bytes())
    with twin(name, f"sqlite:///{path}", tmp_path) as (server, agent):
        assert [check.__name__ for check in CHECKS[name] if check(server, agent)] == []
