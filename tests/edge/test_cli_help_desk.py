"""What a help desk reads: removed routes, endpoints that are down, and what can be done then."""

import re
import smtplib
import subprocess
import sys
from collections.abc import Iterator
from typing import Any

import httpx
import pytest

from tests.commands import ADMIN_KEY, Shell
from tests.servers import free_port, wait_for

ANN = "ann@example.net"
MAIL = b"""\
From: Shop <shop@example.org>
Message-ID: <order-17@shop.example>
Subject: Your order

Thank you.
"""
SETTINGS = """
[sources.pm]
provider = "postmark"
basic = "u:p"
[routes.down]
url = "http://127.0.0.1:{port}/"
events = ["bounced"]
[net]
allow_hosts = ["127.0.0.1"]
[worker]
breaker_failures = 1
breaker_wait_s = 60
"""


@pytest.fixture(scope="module")
def desk(tmp_path_factory: pytest.TempPathFactory) -> Iterator[tuple[Shell, str]]:
    """A server whose only endpoint is down, so that two bounces wait for it, and its URL."""
    shell = Shell(tmp_path_factory.mktemp("desk"))
    settings = SETTINGS.format(port=free_port())
    (shell.folder / "mailonce.toml").write_text(settings)
    with shell.serving() as url:
        for number in (1, 2):
            _bounce(url, number)
        wait_for(
            lambda: [one["endpoint_down"] for one in _deliveries(shell)] == [True, True],
            what="the endpoint to be taken as down",
        )
        yield shell, url


@pytest.fixture(scope="module")
def shell(desk: tuple[Shell, str]) -> Shell:
    return desk[0]


def _bounce(url: str, number: int) -> None:
    bounce = {
        "RecordType": "Bounce", "Type": "HardBounce", "TypeCode": 1, "ID": number, "Email": ANN,
        "MessageID": f"m-{number}", "BouncedAt": f"2026-01-01T01:00:0{number}Z",
    }  # fmt: skip
    assert httpx.post(f"{url}/in/pm", json=bounce, auth=("u", "p")).status_code == 200


def _deliveries(shell: Shell) -> list[dict[str, Any]]:
    rows: list[dict[str, Any]] = shell.ok("delivery", "list", "--json").json["data"]
    return rows


def test_one_that_waits_for_an_endpoint_is_not_promised_the_attempt_of_another(
    shell: Shell,
) -> None:
    first, second = _deliveries(shell)
    listed = shell.ok("undelivered").out
    message = shell.ok("message", "m-1").out
    refused = shell.run("redeliver", "--recipient", ANN).err
    of_type = shell.ok("redeliver", "--type", "bounced", "--dry-run").out
    by_route = shell.ok("redeliver", "--route", "down", "--dry-run").out

    assert listed.count("Z or later") == 2, listed
    assert "one delivery of its route is tried at a time" in listed
    for one in (first, second):
        shown = shell.ok("delivery", "show", one["id"]).out
        assert "Z or later" in shown
        assert "which may be another" in shown
    assert "endpoint down, next attempt 20" in message
    assert "Z or later" in message
    for words in (refused, of_type, by_route):
        assert "sends none of them before that" in words
        assert "sends them now" not in words


def test_mail_of_an_inbox_is_found_by_its_message_id_in_every_inbox(shell: Shell) -> None:
    (shell.folder / "mail.eml").write_bytes(MAIL)
    people = ["ann@inbox.localhost", "bob@inbox.localhost"]
    for person in people:
        shell.ok("inbox", "create", person.partition("@")[0])
        put = shell.ok("mail", "mail.eml", "--to", person, "--json").json["id"]
        shell.ok("inbox", "watch", person, "--count", "1")

    shown = [
        shell.ok("message", one).out for one in ("<order-17@shop.example>", "order-17@shop.example")
    ]
    answer = shell.ok("message", "order-17@shop.example", "--json").json
    to_ann = shell.ok("message", "order-17@shop.example", "--recipient", people[0]).out
    [mail] = [one for one in answer["mails"] if one["address"] == people[0]]
    by_our_id = shell.ok("message", mail["id"]).out

    assert shown[0] == shown[1]
    assert all(f"{person}  received" in shown[0] for person in people)
    assert sorted(one["address"] for one in answer["mails"]) == people
    assert people[1] not in to_ann
    assert people[1] in shell.ok("message", put).out, "as `mailonce mail` named it"
    for out in (to_ann, by_our_id):
        assert f"read it: `mailonce message 1 --inbox {people[0]}`" in out


def test_mail_to_an_address_without_an_inbox_is_shown_as_refused(desk: tuple[Shell, str]) -> None:
    shell, _ = desk
    log = (shell.folder / "server.log").read_text()
    smtp = re.search(r"SMTP at (\S+):(\d+)", log)
    assert smtp is not None, log
    with smtplib.SMTP(smtp[1], int(smtp[2]), timeout=60) as client:
        client.helo()
        client.mail("shop@example.org")
        assert client.rcpt("nina@inbox.localhost")[0] == 550

    shown = shell.ok("recipient", "Nina@inbox.localhost").out
    answer = shell.ok("recipient", "nina@inbox.localhost", "--json").json

    assert "refused within a day, since no inbox has the address" in shown
    assert [(one["code"], one["times"]) for one in answer["refused"]] == [(550, 1)]
    assert "refused within" not in shell.ok("recipient", "nora@inbox.localhost").out


def test_an_agent_is_explained_what_came_without_what_it_may_not_see(
    desk: tuple[Shell, str],
) -> None:
    shell, url = desk
    key = shell.ok("key", "add", "--name", "agent", "--scope", "agent", "--json").json["key"]
    opened = httpx.post(
        f"{url}/v1/expectations",
        json={"kind": "code", "senders": ["@bank.example"]},
        headers={"Authorization": f"Bearer {key}"},
    ).json()
    (shell.folder / "mail.eml").write_bytes(MAIL)
    shell.ok("mail", "mail.eml", "--to", opened["address"])
    shell.ok("inbox", "watch", opened["address"], "--count", "1")

    def explain(*options: str) -> str:
        return shell.ok("expectation", "explain", opened["id"], *options).out

    wait_for(lambda: "unmatched" in explain(), what="the mail to be judged")
    to_agent, to_operator = explain("--url", url, "--key", key), explain()

    assert "other_sender" in to_agent
    assert "example.org" not in to_agent
    assert "deleted" not in to_agent
    assert "it came from shop@example.org" in to_operator
    shell.ok("inbox", "delete-message", opened["address"], "1", "--yes")
    assert "its mail was deleted" in explain()
    assert "read the code" not in explain()


def test_nobody_is_told_to_read_a_mail_that_was_deleted(shell: Shell) -> None:
    (shell.folder / "cat.eml").write_bytes(MAIL.replace(b"order-17", b"order-18"))
    cat = "cat@inbox.localhost"
    shell.ok("inbox", "create", "cat")
    shell.ok("mail", "cat.eml", "--to", cat)
    shell.ok("inbox", "watch", cat, "--count", "1")
    [mail] = shell.ok("inbox", "messages", cat, "--json").json["data"]
    shell.ok("inbox", "delete-message", cat, "1", "--yes")

    shown = shell.ok("message", mail["id"]).out
    listed = shell.ok("inbox", "messages", cat).out
    of_cat = shell.ok("recipient", cat).out
    read = [shell.run("message", one, "--inbox", cat) for one in ("1", mail["id"], "2", "msg_0")]

    assert "no mail in this inbox: 1 deleted" in listed
    assert "its mail was deleted" in of_cat
    assert [one.code for one in read] == [1] * 4
    assert "message '1' of this inbox was deleted" in read[0].err
    assert f"message '{mail['id']}' of this inbox was deleted" in read[1].err
    assert "there is no message '2' in this inbox" in read[2].err
    assert "there is no message 'msg_0' in this inbox" in read[3].err
    assert f"{cat}  received" in shown
    assert "its mail was deleted" in shown
    assert "read it" not in shown
    assert shell.run("message", "order-18@shop.example").code == 1


def test_what_is_left_of_a_removed_route_has_its_name_and_no_useless_advice(shell: Shell) -> None:
    route = _deliveries(shell)[0]["route"]
    shell.ok("route", "remove", "down")
    wait_for(
        lambda: {one["state"] for one in _deliveries(shell)} == {"failed"}, what="both to fail"
    )
    one = _deliveries(shell)[0]["id"]
    listed = shell.ok("undelivered").out

    for command in (
        ["undelivered"], ["dead", "list"], ["delivery", "list"], ["delivery", "show", one],
        ["message", "m-1"], ["recipient", ANN],
    ):  # fmt: skip
        assert "down (removed)" in shell.ok(*command).out, command
    assert "route None" not in listed
    assert f"`mailonce dead dismiss --route {route} --reason …`" in listed
    assert "mailonce redeliver" not in shell.ok("delivery", "show", one).out
    assert "its route down was removed" in shell.ok("delivery", "show", one).out
    assert [
        row["object"] for row in shell.ok("audit", "--object", route, "--json").json["data"]
    ] == [f"down ({route})"]
    unknown = shell.run("dead", "dismiss", "--route", "None", "--yes")
    assert (unknown.code, "there is no route 'None'" in unknown.err) == (1, True)
    shell.ok("dead", "dismiss", "--route", "down", "--reason", "moved", "--yes")
    assert "nothing waits" in shell.ok("undelivered").out


def test_a_webhook_that_was_posted_to_no_source_is_listed_with_its_path(
    desk: tuple[Shell, str],
) -> None:
    shell, url = desk
    assert httpx.post(f"{url}/pm", json={}, auth=("u", "p")).status_code == 404
    assert httpx.post(f"{url}/in/pn", json={}, auth=("u", "p")).status_code == 404

    def rows() -> list[dict[str, Any]]:
        listed: list[dict[str, Any]] = shell.ok("refusals", "--json").json["data"]
        return listed

    wait_for(lambda: len(rows()) == 2, what="both to be counted")
    shown = shell.ok("refusals").out

    assert {(row["path"], row["reason"]) for row in rows()} == {
        ("/pm", "no source has this path"),
        ("/in/pn", "no source has this name"),
    }
    assert "/in/pn" in shown
    assert "webhooks are posted to /in/NAME" in shown


def test_changes_are_found_by_an_address_as_it_stands_in_a_mail(shell: Shell) -> None:
    shell.ok("suppression", "lift", ANN, "--reason", "she asked")

    found = shell.ok("audit", "--object", f"Ann <{ANN}>", "--json").json["data"]

    assert [one["object"] for one in found] == [f"{ANN}: she asked"]


def test_mail_is_listed_behind_a_number_before_it_is_limited(shell: Shell) -> None:
    dan = "dan@inbox.localhost"
    shell.ok("inbox", "create", "dan")
    for number in (1, 2, 3):
        (shell.folder / "mail.eml").write_bytes(MAIL.replace(b"17", b"%d" % number))
        shell.ok("mail", "mail.eml", "--to", dan)
    shell.ok("inbox", "watch", dan, "--count", "3")

    def seqs(*options: str) -> list[int]:
        rows = shell.ok("inbox", "messages", dan, "--json", *options).json["data"]
        return [row["seq"] for row in rows]

    assert seqs("--after", "1") == [2, 3]
    assert seqs("--after", "1", "--limit", "1") == [3]
    assert seqs("--after", "1", "--sender", "shop@example.org", "--limit", "5") == [2, 3]
    assert "no mail with --after 3" in shell.ok("inbox", "messages", dan, "--after", "3").out


def test_mail_that_is_adopted_after_others_came_is_followed(desk: tuple[Shell, str]) -> None:
    shell, url = desk
    mail = {
        "From": "x@y.example", "FromFull": {"Email": "x@y.example"}, "MessageID": "hook-1",
        "To": "eve@inbox.localhost", "ToFull": [{"Email": "eve@inbox.localhost"}],
        "OriginalRecipient": "eve@inbox.localhost", "Subject": "For Eve", "TextBody": "Hi",
        "Headers": [], "Attachments": [],
    }  # fmt: skip
    assert httpx.post(f"{url}/in/pm", json=mail, auth=("u", "p")).status_code == 200
    [lost] = shell.ok("inbox", "unmatched", "--json").json["data"]
    _bounce(url, 3)
    shell.ok("inbox", "create", "eve")
    log = shell.folder / "tail.log"
    command = [sys.executable, "-m", "mailonce", "tail", "--count", "2"]
    with (
        log.open("wb") as errors,
        subprocess.Popen(
            command, cwd=shell.folder, stdout=subprocess.PIPE, stderr=errors, text=True,
            env=shell.environment,
        ) as following,
    ):  # fmt: skip
        try:
            wait_for(lambda: "waiting for new events" in log.read_text(), what="it to follow")
            _bounce(url, 4)
            adopted = httpx.post(
                f"{url}/v1/unmatched/{lost['id']}/adopt",
                json={"inbox": "eve@inbox.localhost"},
                headers={"Authorization": f"Bearer {ADMIN_KEY}"},
            )
            assert adopted.status_code == 200, adopted.text
            out, _ = following.communicate(timeout=120)
        finally:
            following.kill()

    lines = out.splitlines()
    assert sorted(line.split()[1] for line in lines) == ["bounced", "inbound"]
    assert any("eve@inbox.localhost" in line for line in lines)
