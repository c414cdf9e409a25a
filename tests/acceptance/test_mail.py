"""Mail over SMTP and hooks, with a real server: one mail, one message, one delivery."""

import itertools
import random
import time
from base64 import b64encode
from collections import Counter
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from tests.acceptance import sql
from tests.acceptance.delivering import make_server
from tests.acceptance.gate_apps import SECRET, App
from tests.acceptance.gate_apps import running as app_running
from tests.acceptance.harness import HTTP, SETTINGS, Server, running
from tests.acceptance.mail_senders import (
    Senders,
    bodies,
    make_inbox,
    make_mail,
    messages,
    readable_seq,
    send,
    send_unheard,
)
from tests.endpoint import Endpoint, running_endpoint
from tests.servers import free_port, wait_for


def last_seq(server: Server, inbox: dict[str, Any]) -> int:
    """Read from the database the last number that an inbox gave."""
    query = f"SELECT seq FROM inboxes WHERE id = '{inbox['id']}'"
    return int(sql.query(server.database, query)[0][0])


@pytest.fixture
def endpoint() -> Iterator[Endpoint]:
    with running_endpoint() as made:
        yield made


@pytest.mark.slow
@pytest.mark.timeout(300)
@pytest.mark.parametrize("kills", [8, pytest.param(20, marks=pytest.mark.long)])
def test_every_mail_that_was_accepted_is_one_message_after_kill_9(
    database_url: str, tmp_path: Path, endpoint: Endpoint, kills: int
) -> None:
    routes = {"mail": {"events": ["inbound"], "waits_s": [0.1] * 20}}
    # A worker that dies with the same lease again and again gives it up; here that is no fault of
    # the mail or of its delivery.
    server = make_server(
        tmp_path / "server",
        database_url,
        endpoint,
        routes,
        smtp_port=free_port(),
        worker={"lost_leases_max": 100},
    )
    chance = random.Random(7)
    numbers = itertools.count()
    with running(server):
        inboxes = [make_inbox(server) for _ in range(3)]
        senders = Senders(server, [one["address"] for one in inboxes], numbers).start(6)
        for _ in range(kills):
            time.sleep(chance.uniform(0.2, 0.5))
            server.kill()
            server.start()
        wait_for(lambda: len(senders.accepted) > 3 * kills, what="some mail between the crashes")
        senders.stop()

        def is_all_read() -> bool:
            return all(readable_seq(server, one) == last_seq(server, one) for one in inboxes)

        wait_for(is_all_read, what="all mail to be read")
        wait_for(
            lambda: not server.get("/v1/undelivered", limit=1)["data"], what="all to be delivered"
        )

        subjects: Counter[str] = Counter()
        for inbox in inboxes:
            rows = messages(server, inbox["id"])
            assert [row["seq"] for row in rows] == list(range(1, last_seq(server, inbox) + 1))
            subjects.update(row["subject"] for row in rows)
        assert {f"order {number}" for number, _ in senders.accepted} <= set(subjects)
        assert set(subjects.values()) == {1}
        delivered: dict[str, set[str]] = {}
        for request, body in zip(endpoint.requests, bodies(endpoint.requests), strict=True):
            key = request.headers["x-idempotency-key"]
            delivered.setdefault(body["message"]["subject"], set()).add(key)
        assert delivered.keys() == subjects.keys()
        assert all(len(keys) == 1 for keys in delivered.values())


def test_a_mail_sent_again_after_a_lost_answer_is_one_message(
    database_url: str, tmp_path: Path
) -> None:
    server = Server(tmp_path / "server", database_url, smtp_port=free_port())
    with running(server):
        inbox = make_inbox(server)
        raw = make_mail(1, to=inbox["address"])

        send_unheard(server, raw, inbox["address"])
        send(server, raw, inbox["address"])
        send(server, raw, inbox["address"])

        wait_for(lambda: len(messages(server, inbox["id"])) == 1, what="the message")
        assert len(messages(server, inbox["id"])) == 1
        assert last_seq(server, inbox) == 1


def test_one_mail_by_smtp_and_by_a_hook_is_one_message_and_one_delivery(
    database_url: str, tmp_path: Path, endpoint: Endpoint
) -> None:
    routes = {"mail": {"events": ["inbound"]}}
    server = make_server(tmp_path / "server", database_url, endpoint, routes, smtp_port=free_port())
    with running(server):
        inbox = make_inbox(server)
        raw = make_mail(1, to=inbox["address"])
        hook = {
            "RecordType": "Inbound",
            "MessageID": "73e6d360-66eb-11e1-8e72-a8904824019b",
            "OriginalRecipient": inbox["address"],
            "From": "shop@example.org",
            "FromFull": {"Email": "shop@example.org", "Name": "The Shop", "MailboxHash": ""},
            "Subject": "order 1",
            "RawEmail": (b"Received: from x by y\r\n" + raw).decode(),
        }

        send(server, raw, inbox["address"])
        answers = [
            HTTP.post(f"{server.url}/in/hooks", json=hook, auth=("hook", "word"), timeout=60)
            for _ in range(2)
        ]
        wait_for(
            lambda: readable_seq(server, inbox) == 2,
            what="both mails to be read",
        )
        wait_for(lambda: endpoint.requests, what="the delivery")

        assert [one.json()["status"] for one in answers] == ["accepted", "duplicate"]
        [message] = messages(server, inbox["id"])
        [event] = server.get("/v1/events", type="inbound")["data"]
        [delivery] = server.get("/v1/deliveries")["data"]
        assert event["message_id"] == event["identity"] == message["id"]
        assert delivery["event"] == event["id"]
        assert len(endpoint.requests) == 1


def test_a_receiver_behind_the_gate_opens_one_ticket_for_a_mail_that_came_three_times(
    database_url: str, tmp_path: Path
) -> None:
    app = App("gate_fastapi", f"sqlite:///{tmp_path / 'tickets.db'}", tmp_path)
    settings = f"""{SETTINGS}
[net]
allow_hosts = ["127.0.0.1"]
[routes.tickets]
url = "{app.url}"
events = ["inbound"]
secret = "{SECRET}"
waits_s = [0.1, 0.1, 0.1]
[routes.tickets.mapping]
message = "$.message.id"
sender = "$.message.from.address"
subject = "$.message.subject"
"""
    server = Server(tmp_path / "server", database_url, settings=settings, smtp_port=free_port())
    with app_running(app), running(server):
        inbox = make_inbox(server)
        raw = make_mail(1, to=inbox["address"])

        for before in (b"", b"Received: from one\r\n", b"Received: from two\r\nX-Id: 2\r\n"):
            send(server, before + raw, inbox["address"])
        wait_for(
            lambda: readable_seq(server, inbox) == 3,
            what="all three to be read",
        )
        wait_for(lambda: not server.get("/v1/undelivered", limit=1)["data"], what="the delivery")
        answer = server.api("/v1/redeliveries", method="POST", json={"route": "tickets"})

        assert answer.status_code == 202, answer.text
        wait_for(
            lambda: server.get("/v1/deliveries")["data"][0]["attempts"] >= 2,
            what="the redelivery",
        )
        assert app.count("SELECT count(*) FROM tickets") == 1


def test_an_attachment_that_arrives_is_linked_and_the_raw_mail_can_be_read(
    database_url: str, tmp_path: Path
) -> None:
    server = Server(tmp_path / "server", database_url, smtp_port=free_port())
    with running(server):
        inbox = make_inbox(server)
        content = b64encode(b"hello\0world").decode()
        raw = (
            f"From: a@example.org\r\nTo: {inbox['address']}\r\nSubject: file\r\n"
            "MIME-Version: 1.0\r\nContent-Type: multipart/mixed; boundary=b\r\n\r\n"
            "--b\r\nContent-Type: application/octet-stream\r\n"
            'Content-Disposition: attachment; filename="../x.bin"\r\n'
            f"Content-Transfer-Encoding: base64\r\n\r\n{content}\r\n--b--\r\n"
        ).encode()

        send(server, raw, inbox["address"])
        wait_for(lambda: messages(server, inbox["id"]), what="the message")

        [message] = messages(server, inbox["id"])
        [attachment] = message["attachments"]
        path = f"/v1/inboxes/{inbox['id']}/messages/{message['id']}"
        kept = server.api(f"{path}/raw")
        file = server.api(f"{path}/attachments/{attachment['id']}")
        assert kept.content.endswith(raw)
        assert (file.status_code, file.content) == (200, b"hello\0world")
        assert "/" not in attachment["name"]
