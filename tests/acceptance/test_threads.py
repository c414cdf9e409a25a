"""A send, what its provider tells, and the mail that answers it are one timeline."""

import json
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from tests.acceptance.harness import Server, running
from tests.acceptance.sending import running_fakes, sending_server, settle_by_webhooks, submit
from tests.servers import wait_for

ROUTES = {"crm": {"kind": "poll", "events": ["*"]}}
REPORT = """\
From: MAILER-DAEMON@mx.example.net
To: shop@inbox.localhost
Subject: Undelivered
Message-ID: <dsn-1@mx.example.net>
MIME-Version: 1.0
Content-Type: multipart/report; report-type=delivery-status; boundary=b

--b
Content-Type: text/plain

It could not be delivered.
--b
Content-Type: message/delivery-status

Reporting-MTA: dns; mx.example.net

Final-Recipient: rfc822; ann@example.com
Action: failed
Status: 5.1.1

--b
Content-Type: message/rfc822

Message-ID: {own}
From: shop@example.com
To: ann@example.com
Subject: Your order

Thank you.
--b--
"""
REPLY = """\
From: Ann <ann@example.com>
To: shop@inbox.localhost
Subject: Re: Your order
Message-ID: <re-1@example.com>
In-Reply-To: {own}
References: {own}

Where is it?
"""


@pytest.fixture
def fakes() -> Iterator[dict[str, Any]]:
    with running_fakes("postmark") as started:
        yield started


@pytest.fixture
def server(database_url: str, tmp_path: Path, fakes: dict[str, Any]) -> Iterator[Server]:
    made = sending_server(
        tmp_path / "server", database_url, fakes,
        environment={"MAILONCE_ROUTES": json.dumps(ROUTES)},
    )  # fmt: skip
    with running(made) as started:
        inbox = started.api("/v1/inboxes", method="POST", json={"local": "shop"})
        assert inbox.status_code == 201, inbox.text
        yield started


def accepted(server: Server, key: str, **changes: Any) -> dict[str, Any]:
    id_ = submit(server, key, **changes).json()["id"]
    wait_for(
        lambda: server.get(f"/v1/sends/{id_}")["state"] == "accepted", what="the provider's answer"
    )
    send: dict[str, Any] = server.get(f"/v1/sends/{id_}")
    return send


def put(server: Server, mail: str, *, after: int) -> None:
    raw = mail.replace("\n", "\r\n").encode()
    path = "/v1/inboxes/shop@inbox.localhost/messages"
    assert server.api(path, method="POST", content=raw).status_code == 202
    assert server.get(path, after=after, wait=20)["data"], "it was not read"


def shape(timeline: list[dict[str, Any]]) -> list[tuple[str, str]]:
    words = {"send": "state", "event": "type", "delivery": "route_name", "message": "relation"}
    return [(one["kind"], one[words[one["kind"]]]) for one in timeline]


def test_send_events_deliveries_bounce_and_reply_are_one_timeline(
    server: Server, fakes: dict[str, Any]
) -> None:
    sent = accepted(server, "k-1")
    other = accepted(server, "k-2", to="bob@example.com")
    settle_by_webhooks(server, fakes["postmark"], "postmark", now_s=int(time.time()))
    put(server, REPORT.format(own=sent["message_id"]), after=0)
    put(server, REPLY.format(own=sent["message_id"]), after=1)
    put(server, REPLY.replace("re-1", "re-2").format(own="<other@example.com>"), after=2)

    timeline = server.get(f"/v1/sends/{sent['id']}")["timeline"]
    by_provider = server.get(f"/v1/messages/{sent['provider_message_id']}")["recipients"]
    by_own_id = server.get(f"/v1/messages/{sent['message_id'].strip('<>')}")["recipients"]
    alone = server.get(f"/v1/sends/{other['id']}")["timeline"]

    assert shape(timeline) == [
        ("send", "accepted"), ("event", "delivered"), ("delivery", "crm"), ("message", "report"),
        ("event", "bounced"), ("delivery", "crm"), ("message", "reply"),
    ]  # fmt: skip
    assert [one["recipient"] for one in by_provider] == ["ann@example.com"]
    assert by_provider[0]["timeline"] == by_own_id[0]["timeline"] == timeline
    # Anybody can write a bounce: what the provider says stays what it is.
    assert by_provider[0]["status"] == "delivered"
    assert timeline[-1]["from_address"] == "ann@example.com"
    assert shape(alone) == [("send", "accepted"), ("event", "delivered"), ("delivery", "crm")]
    [reply] = server.get("/v1/inboxes/shop@inbox.localhost/messages", after=1, limit=1)["data"]
    assert timeline[-1]["id"] == reply["id"]


def test_a_key_that_sends_sees_no_mail_of_inboxes(server: Server) -> None:
    sent = accepted(server, "k-1")
    put(server, REPLY.format(own=sent["message_id"]), after=0)
    key = server.api("/v1/keys", method="POST", json={"scope": "sender"}).json()["key"]
    headers = {"Authorization": f"Bearer {key}"}

    shown = server.api(f"/v1/sends/{sent['id']}", headers=headers).json()

    assert shape(server.get(f"/v1/sends/{sent['id']}")["timeline"]) == [
        ("send", "accepted"), ("message", "reply"),
    ]  # fmt: skip
    assert shape(shown["timeline"]) == [("send", "accepted")]


def test_a_mail_that_continues_a_conversation_gets_its_own_replies_alone(server: Server) -> None:
    root = "<root-1@example.com>"
    sent = accepted(server, "k-1", headers={"In-Reply-To": root, "References": root})
    continued = REPLY.replace("References: {own}", f"References: {root} {{own}}")
    put(server, continued.format(own=sent["message_id"]), after=0)
    # Another branch of the same conversation.
    branch = REPLY.replace("re-1", "re-2").format(own=root)
    put(server, branch, after=1)

    timeline = server.get(f"/v1/sends/{sent['id']}")["timeline"]

    assert shape(timeline) == [("send", "accepted"), ("message", "reply")]
