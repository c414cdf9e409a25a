"""Hostile mails against our own server: each is taken or refused, read, and used as is safe."""

from collections.abc import Iterator
from pathlib import Path

import pytest

from mailonce import Client
from mailonce.client import ExpectationRecord
from mailonce.client.calls import ExpectationFields
from mailonce.testing import hostile_mails
from tests.acceptance.harness import ADMIN_KEY, Server, running
from tests.acceptance.mailing import wait_for_mails
from tests.servers import free_port, wait_for


@pytest.fixture(scope="module")
def server(tmp_path_factory: pytest.TempPathFactory, sqlite_template: Path) -> Iterator[Server]:
    folder = tmp_path_factory.mktemp("hostile")
    database = folder / "data.db"
    database.write_bytes(sqlite_template.read_bytes())
    with running(
        Server(folder / "server", f"sqlite:///{database}", "", smtp_port=free_port())
    ) as started:
        yield started


def test_every_one_is_taken_or_refused_and_read(server: Server) -> None:
    inbox = Client(server.url, ADMIN_KEY).make_inbox()

    replies = {
        mail.name: mail.send("127.0.0.1", server.smtp_port, inbox.address)
        for mail in hostile_mails()
    }

    refused = {name for name, reports in replies.items() if not reports[0].is_accepted}
    codes = {code for reports in replies.values() for report in reports for code in report.codes}
    assert codes <= {250, 552, 554, 550, 500}
    assert len(refused) <= 3, refused
    # Copies are one message.
    distinct = {raw for mail in hostile_mails() for raw in mail.raw(inbox.address)}
    messages = wait_for_mails(server, inbox.id, len(distinct) - len(refused))
    assert [message["seq"] for message in messages] == list(range(1, len(messages) + 1))


def test_our_own_server_does_what_is_safe_with_each(
    server: Server, subtests: pytest.Subtests
) -> None:
    made = server.api("/v1/keys", method="POST", json={"name": "agent", "scope": "agent"}).json()
    operator, agent = Client(server.url, ADMIN_KEY), Client(server.url, made["key"])
    opened = {}
    for mail in hostile_mails():
        fields: ExpectationFields = {"senders": ["login@shop.example"], "resends": 5}
        if mail.kind == "link":
            fields["link_hosts"] = ["shop.example"]
        opened[mail.name] = operator.open_expectation(None, mail.kind, **fields)
        mail.send("127.0.0.1", server.smtp_port, opened[mail.name].json["address"])
    for mail in hostile_mails():
        with subtests.test(mail.name):
            wait_until_judged(server, opened[mail.name])
            record = agent.find_expectation(opened[mail.name])

            is_ready = record.state == "ready"
            value = agent.consume(record).value if is_ready else None

            stops = {"ambiguous", "quarantined", "exhausted"}
            assert mail.fault(value, stopped=record.state in stops) is None
            assert not any(word in str(record.json) for word in ("Ignore", "instructions", "tool"))


def wait_until_judged(server: Server, opened: ExpectationRecord) -> None:
    """Wait until all mail of an expectation's inbox was read and judged."""
    inbox = opened.json["inbox"]

    def is_judged() -> bool:
        explained = server.get(f"/v1/expectations/{opened.id}/explain")
        read = server.get(f"/v1/inboxes/{inbox}/messages")["data"]
        return not explained["reading"] and len(explained["judged"]) >= len(read)

    wait_for(is_judged, what="all mail to be judged")
