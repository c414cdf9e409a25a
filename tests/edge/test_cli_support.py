"""The command line for those who answer users: what became of a mail, by whatever is at hand."""

import getpass
import itertools
import json
import shlex
import signal
import subprocess
import sys
import time
from collections.abc import Iterator
from contextlib import ExitStack
from pathlib import Path

import httpx
import pytest

from mailonce.testing import EventType, Happening, make_simulators
from tests.commands import Shell, post
from tests.servers import wait_for

ANN = "ann@example.net"


@pytest.fixture(scope="module")
def sent(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Shell]:
    """A server with --dev that has sent one mail, and received it."""
    shell = Shell(tmp_path_factory.mktemp("sent"), {"MAILONCE_DEV": "true"})
    with shell.serving():
        shell.ok(
            "send", ANN, "--from", "shop@example.com", "--subject", "Your receipt",
            "--text", "Thank you.", "--idempotency-key", "order-17",
        )  # fmt: skip
        wait_for(
            lambda: bool(shell.ok("events", "--json").json["data"]), what="the mail to be received"
        )
        wait_for(lambda: _send(shell)["state"] == "accepted", what="the send to be accepted")
        yield shell


def _send(shell: Shell) -> dict[str, str]:
    [send] = shell.ok("sends", "list", "--recipient", ANN, "--json").json["data"]
    assert isinstance(send, dict)
    return send


def test_an_address_with_mail_in_an_inbox_is_shown_with_its_sends(sent: Shell) -> None:
    shown = sent.ok("recipient", ANN).out
    answer = sent.ok("recipient", ANN, "--json").json

    assert f"{ANN} is not suppressed" in shown
    assert "order-17" in shown
    assert f"{ANN}  received" in shown
    assert "no events" not in shown
    assert "by dev: Your receipt" in sent.ok("message", "order-17").out
    assert [message["message_id"][:4] for message in answer["messages"]] == ["msg_"]
    assert [(one["state"], one["key"]) for one in answer["sends"]] == [("accepted", "order-17")]


def test_mail_from_an_address_is_shown_with_its_inbox(sent: Shell) -> None:
    shown = sent.ok("recipient", "Shop@example.com").out
    found = sent.ok("recipient", "shop@example.com", "--json").json["mail_in_inboxes"]
    nobody = sent.ok("recipient", "nobody@example.com").out

    assert "mail from this address in inboxes, newest first" in shown
    assert "Your receipt" in shown
    assert [(one["seq"], one["subject"]) for one in found["data"]] == [(1, "Your receipt")]
    assert found["complete"] is True
    assert "no mail from this address in inboxes" in nobody


def test_an_address_with_its_name_is_the_same_address(
    sent: Shell, subtests: pytest.Subtests
) -> None:
    plain = sent.ok("recipient", "shop@example.com").out

    for written in ("Shop <Shop@example.com>", " shop@example.com "):
        with subtests.test(written):
            shown = sent.ok("recipient", written)
            answer = sent.ok("recipient", written, "--json").json
            listed = sent.ok("inbox", "messages", ANN, "--sender", written, "--json").json

            assert shown.out == plain
            assert answer["address"] == "shop@example.com"
            assert [one["seq"] for one in answer["mail_in_inboxes"]["data"]] == [1]
            assert [one["seq"] for one in listed["data"]] == [1]
    of_domain = sent.ok("inbox", "messages", ANN, "--sender", "@example.com", "--json").json
    assert [one["seq"] for one in of_domain["data"]] == [1]


def test_an_advice_can_be_pasted_whatever_the_address_has_in_it(sent: Shell) -> None:
    address = "o'neil|ls@example.net"
    sent.ok("suppression", "add", address)

    shown = sent.ok("recipient", f"Neil <{address}>").out

    [line] = [one for one in shown.splitlines() if "suppression lift" in one]
    command = line.partition("`mailonce ")[2].partition(" --reason")[0]
    assert shlex.split(command) == ["suppression", "lift", address]


@pytest.mark.parametrize(
    "command",
    ["events", "sends list", "dead list", "delivery list", "undelivered", "tail", "message m-1"],
)
def test_a_filter_that_is_no_address_is_refused(sent: Shell, command: str) -> None:
    refused = sent.run(*command.split(), "--recipient", "ann")

    assert (refused.code, refused.err) == (
        1,
        "mailonce: 'ann' is no email address; write it as name@example.com\n",
    )
    assert sent.run("recipient", "ann").err == refused.err


@pytest.mark.parametrize(
    "written",
    [
        "cat@example.net,",
        "mailto:cat@example.net",
        "Cat cat@example.net",
        "ann@example.net, cat@example.net",
        "ann@example.net;cat@example.net",
        "ann@example.net cat@example.net",
        "'cat@example.net'",
    ],
)
def test_more_than_one_address_is_no_address(sent: Shell, written: str) -> None:
    """Nothing would be found, which reads as if nobody were suppressed."""
    sent.ok("suppression", "add", "cat@example.net")

    for command in (
        ("recipient", written),
        ("suppression", "show", written),
        ("suppression", "add", written),
        ("suppression", "lift", written),
        ("dead", "retry", "--recipient", written, "--dry-run"),
        ("events", "list", "--recipient", written),
    ):
        refused = sent.run(*command)
        assert (refused.code, refused.out) == (1, "")
        assert "is not one email address; write it as name@example.com" in refused.err

    for right in ("<cat@example.net>", '"Cat, The" <CAT@example.net>', " cat@example.net. "):
        assert "is suppressed" in sent.ok("recipient", right).out


@pytest.mark.parametrize(
    "address",
    ["o'brien@example.net", "a..b@docomo.example", '"a b"@example.net', "x@[127.0.0.1]", "b@local"],
)
def test_what_a_provider_may_report_is_one_address(sent: Shell, address: str) -> None:
    sent.ok("suppression", "add", address)

    assert f"{address} is suppressed" in sent.ok("suppression", "show", address).out


def test_a_lift_that_is_refused_claims_nothing(tmp_path: Path) -> None:
    shell, dora = Shell(tmp_path), "dora@example.net"
    with shell.serving() as url:
        shell.ok("suppression", "add", dora)
        shell.ok("suppression", "lift", dora)
        key = shell.ok("key", "add", "--scope", "reader", "--json").json["key"]

        refused = shell.run("suppression", "lift", dora, "--url", url, "--key", key)

    assert (refused.code, refused.out) == (1, "")
    assert "needs an operator key" in refused.err


def test_a_sender_that_is_no_address_is_refused(sent: Shell) -> None:
    refused = sent.run("inbox", "messages", ANN, "--sender", "example.com")

    assert refused.code == 1
    assert "write name@example.com, or @example.com for all of it" in refused.err


def test_mail_without_a_report_has_no_unknown_outcome(sent: Shell) -> None:
    [inbound] = sent.ok("events", "--recipient", ANN, "--json").json["data"]
    own_id = str(_send(sent)["provider_message_id"])

    assert f"{ANN}  no report yet" in sent.ok("message", own_id).out
    assert f"{ANN}  received" in sent.ok("message", inbound["message_id"]).out


def test_a_message_of_the_mail_door_is_found_by_its_source(sent: Shell) -> None:
    [inbound] = sent.ok("events", "--recipient", ANN, "--json").json["data"]

    shown = sent.ok("message", inbound["message_id"], "--source", inbound["source"], "--json").json

    assert [one["recipient"] for one in shown["recipients"]] == [ANN]


@pytest.mark.parametrize("act", ["show", "cancel", "resolve"])
def test_a_send_is_named_by_its_key(sent: Shell, act: str) -> None:
    more = ["sent"] if act == "resolve" else []

    by_key = sent.run("sends", act, "order-17", *more)
    by_id = sent.run("sends", act, str(_send(sent)["id"]), *more)
    by_nothing = sent.run("sends", act, "order-18", *more)

    assert (by_key.code, by_key.out, by_key.err) == (by_id.code, by_id.out, by_id.err)
    assert by_nothing.code == 1
    assert "no send has the id or the key 'order-18'; see `mailonce sends list`" in by_nothing.err


def test_nobody_is_asked_about_a_send_that_cannot_be_cancelled(sent: Shell) -> None:
    ended = sent.run_on_a_terminal("sends", "cancel", "order-17", types="n\n")
    unknown = sent.run_on_a_terminal("sends", "cancel", "snd_" + "0" * 32, types="n\n")

    assert (ended.code, unknown.code) == (1, 1)
    assert "?" not in ended.out + unknown.out, ended.out


def test_a_message_is_named_by_its_send(sent: Shell) -> None:
    send = _send(sent)
    own_id = send["provider_message_id"]

    by_send = sent.ok("message", send["id"], "--json").json

    assert by_send == sent.ok("message", own_id, "--json").json
    assert sent.ok("message", send["id"][:20], "--json").json == by_send
    assert sent.ok("message", "order-17", "--json").json == by_send


def test_an_error_names_the_command_that_helps(sent: Shell) -> None:
    refused = {
        "mailonce events": sent.run("message", "m-0"),
        "mailonce source list": sent.run("source", "show", "none"),
        "mailonce inbox list": sent.run("inbox", "show", "none@example.net"),
        "mailonce dead list": sent.run("dead", "show", "dead_" + "0" * 32),
    }

    for command, done in refused.items():
        assert done.code == 1, done.err
        assert f"see `{command}`" in done.err
        assert "/v1/" not in done.err


def test_a_second_lift_says_who_made_the_first(sent: Shell) -> None:
    dan = "dan@example.net"
    sent.ok("suppression", "add", dan)
    sent.ok("suppression", "lift", dan, "--reason", "dan called")

    again = sent.ok("suppression", "lift", dan, "--reason", "once more")
    lifts = sent.ok("suppression", "show", dan, "--json").json["lifts"]

    who = f"lifted already by local:{getpass.getuser()}, at 20"
    assert who in " ".join(again.out.split())
    assert [one["reason"] for one in lifts] == ["once more", "dan called"]


def test_an_inbox_with_a_typo_in_its_name_leads_to_what_its_domain_refused(sent: Shell) -> None:
    domain = sent.ok("domain", "list", "--json").json["data"][0]["domain"]

    missing = sent.run("inbox", "show", f"tpyo@{domain}")

    assert missing.code == 1
    assert f"`mailonce domain show {domain}`" in " ".join(missing.err.split())


def test_the_lift_of_an_address_says_what_was_lifted(sent: Shell) -> None:
    eve = "eve@example.net"
    sent.ok("suppression", "add", eve, "--reason", "eve asked")
    sent.ok("suppression", "lift", eve, "--reason", "eve called")

    shown = " ".join(sent.ok("recipient", eve).out.split())

    assert ": eve called (was manual for all mail: eve asked)" in shown


def test_a_suppressed_send_is_not_sent_again_before_the_lift(sent: Shell) -> None:
    bob = "bob@example.net"
    sent.ok("suppression", "add", bob)
    sent.ok(
        "send",
        bob,
        "--from",
        "s@a.test",
        "--subject",
        "S",
        "--text",
        "x",
        "--idempotency-key",
        "order-2",
    )

    refused = sent.run("sends", "resend", "order-2")
    unknown = sent.run("route", "lift", "crm")
    sent.ok("suppression", "remove", bob)
    sent.ok("sends", "resend", "order-2", "--reason", "bob called")
    shown = sent.ok("sends", "show", "order-2").out

    assert unknown.code == 2, "only suppressions are lifted"
    assert refused.code == 1
    assert "its address is suppressed (manual); lift the suppression first" in refused.err
    assert "sent again" in shown
    why = "it was suppressed (suppressed: manual); bob called"
    assert f"by local:{getpass.getuser()}: {why}" in " ".join(shown.split())
    assert "by dev" in shown
    assert "dev/default" not in shown


def test_a_send_that_did_not_leave_waits_for_no_report(sent: Shell) -> None:
    cat = "cat@example.net"
    sent.ok("suppression", "add", cat, "--reason", "said [/bold] so")
    mail = ["--from", "s@a.test", "--subject", "S", "--text", "x", "--idempotency-key", "order-3"]
    send = sent.ok("send", cat, *mail, "--json").json

    assert f"{cat}  send suppressed" in sent.ok("message", send["id"]).out
    for command in (["message"], ["sends", "show"]):
        shown = sent.ok(*command, "order-3").out
        assert "suppressed: manual (sender dev)" in shown
        assert "by dev" not in shown
    assert "outcome" not in sent.ok("sends", "show", "order-3").out, "a table without a row"
    shown = sent.ok("recipient", cat).out
    assert "said [/bold] so" in shown
    assert "suppressed: manual" in shown


def test_events_are_followed_over_a_restart_of_the_server(tmp_path: Path) -> None:
    shell = Shell(tmp_path, {"MAILONCE_DEV": "true"})
    out, err = tmp_path / "out", tmp_path / "err"
    numbers = itertools.count()

    def shows_more_than(lines: int) -> bool:
        """Let one more mail come: the command may still be starting."""
        sender = ["--from", "s@a.test", "--subject", "S", "--text", "x"]
        shell.ok("send", ANN, *sender, "--idempotency-key", f"k-{next(numbers)}")
        return len(out.read_text().splitlines()) > lines

    with ExitStack() as stack:
        with shell.serving():
            following = stack.enter_context(
                subprocess.Popen(
                    [sys.executable, "-m", "mailonce", "tail", "--json"],
                    cwd=tmp_path,
                    stdout=stack.enter_context(out.open("w")),
                    stderr=stack.enter_context(err.open("w")),
                    env=shell.environment,
                )
            )
            stack.callback(following.kill)
            wait_for(lambda: shows_more_than(0), what="an event to be shown")
        wait_for(lambda: "waiting for it" in err.read_text(), what="the server to be missed")
        with shell.serving():
            wait_for(lambda: "answers again" in err.read_text(), what="the server to be back")
            before = len(out.read_text().splitlines())
            wait_for(lambda: shows_more_than(before), what="an event after the restart")
            # It would miss this server, too.
            following.kill()
            following.wait()

    assert f"no mailonce server answers at {shell.data_dir / 'mailonce.sock'}" in err.read_text()
    assert err.read_text().count("waiting for it") == 1
    ids = [json.loads(line)["id"] for line in out.read_text().splitlines()]
    assert len(ids) == len({*ids}), "each event is shown once"


def test_of_many_events_that_come_at_once_each_is_followed(tmp_path: Path) -> None:
    simulator = make_simulators(["sendgrid"], seed="1")["sendgrid"]
    shell, out, now_s = Shell(tmp_path), tmp_path / "out", int(time.time())
    numbers = itertools.count()

    def deliver(url: str, many: int) -> None:
        happenings = [
            Happening(f"e-{number}", EventType.DELIVERED, f"m-{number}", ANN, now_s)
            for number in itertools.islice(numbers, many)
        ]
        post(url, "/in/main", simulator.post(happenings, now_s=int(time.time())))

    def shown() -> list[str]:
        return [json.loads(line)["id"] for line in out.read_text().splitlines()]

    def shows_one_more(url: str) -> bool:
        """Let one more thing happen: the command may still be starting."""
        deliver(url, 1)
        return bool(out.read_text())

    with shell.serving() as url, out.open("w") as file:
        public_key = simulator.settings()["public_key"]
        shell.ok("source", "add", "main", "--provider", "sendgrid", "--public-key", public_key)
        command = [sys.executable, "-m", "mailonce", "tail", "--json"]
        following = subprocess.Popen(command, cwd=tmp_path, stdout=file, env=shell.environment)
        try:
            wait_for(lambda: shows_one_more(url), what="an event to be shown")
            following.send_signal(signal.SIGSTOP)
            first = shown()[0]
            for _ in range(2):
                deliver(url, 600)
            listed = shell.ok("events", "--limit", "5000", "--json").json["data"]
            ids = sorted(one["id"] for one in listed if one["id"] >= first)
            following.send_signal(signal.SIGCONT)

            wait_for(lambda: out.read_text().count("\n") >= len(ids), what="all events to be shown")
        finally:
            following.kill()
            following.wait()

    assert len(ids) > 1200
    assert shown() == ids


def test_a_refused_webhook_says_whether_it_is_sent_again(tmp_path: Path) -> None:
    shell = Shell(tmp_path)
    with shell.serving() as url:
        for name, provider in (("pm", "postmark"), ("mj", "mailjet")):
            shell.ok("source", "add", name, "--provider", provider, "--basic", "hook:password")
            answer = httpx.post(f"{url}/in/{name}", json={}, auth=("hook", "wrong"))
            assert answer.status_code == 401

        rows: dict[str, bool] = {}

        def are_counted() -> bool:
            data = shell.ok("refusals", "--json").json["data"]
            rows.update({one["source_name"]: one["retried"] for one in data})
            return len(rows) == 2

        wait_for(are_counted, what="the refusals to be counted")
        shown = " ".join(shell.ok("refusals").out.split())

    assert rows == {"pm": False, "mj": True}
    assert "Postmark does not send a refused webhook again" in shown
    assert shown.count("its provider sends it again by itself, for a while") == 1


def test_events_without_a_message_are_shown_with_their_address(tmp_path: Path) -> None:
    shell = Shell(tmp_path)
    with shell.serving() as url:
        shell.ok("source", "add", "pm", "--provider", "postmark", "--basic", "hook:password")
        complaint = {"RecordType": "SpamComplaint", "ID": 61, "Email": "kim@example.net"}
        answer = httpx.post(f"{url}/in/pm", json=complaint, auth=("hook", "password"))
        assert answer.json()["new"] == 1

        shown = shell.ok("recipient", "kim@example.net").out
        known = shell.ok("recipient", "kim@example.net", "--json").json

    [event] = known["events_without_message"]
    assert "no events" not in shown
    assert "events without a message, newest first" in shown
    assert event["id"] in shown
