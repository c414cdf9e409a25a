"""The command line for those who answer users: what became of a mail, by whatever is at hand."""

from collections.abc import Iterator

import pytest

from tests.commands import Shell
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
    assert [message["message_id"][:4] for message in answer["messages"]] == ["msg_"]
    assert [(one["state"], one["key"]) for one in answer["sends"]] == [("accepted", "order-17")]


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


def test_a_message_is_named_by_its_send(sent: Shell) -> None:
    send = _send(sent)
    own_id = send["provider_message_id"]

    by_send = sent.ok("message", send["id"], "--json").json

    assert by_send == sent.ok("message", own_id, "--json").json
    assert sent.ok("message", send["id"][:20], "--json").json == by_send


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
    sent.ok("suppression", "lift", bob)
    sent.ok("sends", "resend", "order-2", "--reason", "bob called")
    shown = sent.ok("sends", "show", "order-2").out

    assert refused.code == 1
    assert "its address is suppressed (manual); lift the suppression first" in refused.err
    assert "sent again" in shown
    assert "by local: bob called" in shown
    assert "by dev" in shown
    assert "dev/default" not in shown
