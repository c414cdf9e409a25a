"""Deliveries and dead letters about an address, some of whose mail was deleted."""

import getpass
from collections.abc import Iterator
from typing import Any

import pytest

from tests.commands import Shell
from tests.endpoint import answers, running_endpoint
from tests.servers import wait_for

ANN = "ann@example.net"
SETTINGS = """
[routes.good]
url = "{url}/good"
[routes.wrong]
url = "{url}/wrong"
[net]
allow_hosts = ["127.0.0.1"]
"""


@pytest.fixture(scope="module")
def shell(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Shell]:
    """A server that two routes got two mails of, one of which was deleted afterwards."""
    shell = Shell(tmp_path_factory.mktemp("redeliver"), {"MAILONCE_DEV": "true"})
    with running_endpoint(wrong=answers(422)) as endpoint:
        (shell.folder / "mailonce.toml").write_text(SETTINGS.format(url=endpoint.url("")))
        with shell.serving():
            for subject in ("First", "Second"):
                mail = ["--from", "s@a.test", "--subject", subject, "--text", "x"]
                shell.ok("send", ANN, *mail, "--idempotency-key", subject)
            wait_for(lambda: _all_ended(shell), what="each delivery to end")
            shell.ok("inbox", "delete-message", ANN, "1", "--yes")
            yield shell


def _all_ended(shell: Shell) -> bool:
    states = [one["state"] for one in _deliveries(shell)]
    return len(states) == 4 and {*states} == {"delivered", "failed"}


def _deliveries(shell: Shell, *options: str) -> list[Any]:
    rows: list[Any] = shell.ok("delivery", "list", "--recipient", ANN, *options, "--json").json[
        "data"
    ]
    return rows


def test_what_was_deleted_is_left_out_of_a_redelivery_by_address(shell: Shell) -> None:
    counted = shell.ok("redeliver", "--recipient", ANN, "--route", "good", "--dry-run").out
    done = shell.ok("redeliver", "--recipient", ANN, "--route", "good").out
    answer = shell.ok("redeliver", "--recipient", ANN, "--route", "good", "--json").json

    assert "would redeliver 1 delivery; nothing was changed" in counted
    assert "1 left out: its mail was deleted" in counted
    assert "queued 1 of 1 deliveries" in done
    assert "1 left out: its mail was deleted" in done
    assert "1 delivered" in done
    assert (answer["total"], answer["mail_deleted"]) == (1, 1)
    assert len(answer["filter"]["ids"]) == 1


def test_a_redelivery_of_nothing_but_deleted_mail_is_refused(shell: Shell) -> None:
    [gone] = [one["id"] for one in _deliveries(shell, "--route", "good") if one["mail_deleted"]]

    refused = shell.run("redeliver", gone)

    assert refused.code == 1
    assert f"{gone} cannot be sent again: its mail was deleted" in refused.err


def test_a_redelivery_by_address_may_be_of_one_type(shell: Shell) -> None:
    by_address = ["redeliver", "--recipient", ANN, "--route", "good"]

    of_mail = shell.ok(*by_address, "--type", "inbound", "--dry-run")
    of_bounces = shell.run(*by_address, "--type", "bounced", "--dry-run")

    assert "would redeliver 1 delivery" in of_mail.out
    assert of_bounces.code == 1
    assert "there are no such deliveries" in of_bounces.err


def test_a_failed_delivery_of_a_deleted_mail_is_shown_as_one(shell: Shell) -> None:
    shown = " ".join(shell.ok("undelivered", "--recipient", ANN).out.split())
    rows = shell.ok("undelivered", "--recipient", ANN, "--json").json["data"]
    [letter] = [
        one
        for one in shell.ok("dead", "list", "--recipient", ANN, "--json").json["data"]
        if not one["raw_bytes"]
    ]
    of_letter = " ".join(shell.ok("dead", "show", letter["id"]).out.split())

    assert [one["mail_deleted"] for one in rows] == [True, False]
    assert "mail deleted" in shown
    assert "1 cannot be sent again: its mail was deleted; close it" in shown
    assert "it cannot be sent again; close it: `mailonce dead dismiss" in of_letter


def test_nothing_is_advised_that_would_be_refused(shell: Shell) -> None:
    gone, kept = sorted(
        _deliveries(shell, "--route", "good"), key=lambda one: not one["mail_deleted"]
    )
    [failed] = [one for one in _deliveries(shell, "--route", "wrong") if one["mail_deleted"]]
    until = ["--until", kept["made_at"]]

    shown = [shell.ok("delivery", "show", one["id"]).out for one in (gone, failed)]
    of_kept = shell.ok("delivery", "show", kept["id"]).out
    undelivered = " ".join(shell.ok("undelivered", "--route", "wrong", *until).out.split())
    of_all = shell.ok("undelivered", "--route", "wrong").out

    assert "send it again" in of_kept
    assert not any("mailonce redeliver" in one for one in shown), shown
    assert all("it cannot be sent again: its mail was deleted" in one for one in shown), shown
    assert "1 cannot be sent again" in undelivered
    assert "send again what failed" not in undelivered
    assert "send again what failed" in of_all


def test_what_was_deleted_is_left_out_of_a_redelivery_by_a_filter(shell: Shell) -> None:
    counted = shell.ok("redeliver", "--route", "good", "--dry-run").out
    done = shell.ok("redeliver", "--route", "good", "--yes").out
    answer = shell.ok("redeliver", "--route", "good", "--dry-run", "--json").json

    assert "would redeliver 1 delivery; nothing was changed" in counted
    assert "1 left out: its mail was deleted" in counted
    assert "1 left out: its mail was deleted" in done
    assert (answer["total"], answer["mail_deleted"]) == (1, 1)


def test_an_id_that_cannot_be_redelivered_names_the_command_that_is_meant(
    shell: Shell, subtests: pytest.Subtests
) -> None:
    zeros = "0" * 32
    expected = {
        f"redeliver dead_{zeros}": f"`mailonce dead retry dead_{zeros}`",
        f"redeliver evt_{zeros}": f"`mailonce delivery list --event evt_{zeros}`",
        "redeliver nonsense": "see `mailonce delivery list`",
        f"redeliver dlv_{zeros}{zeros}": "see `mailonce delivery list`",
        f"reprocess dlv_{zeros}{zeros}": "see `mailonce events`",
        f"reprocess evt_{zeros}": "see `mailonce events`",
        f"dead show evt_{zeros}": "see `mailonce dead list`",
        "events show nonsense": "see `mailonce events`",
    }

    for command, words in expected.items():
        with subtests.test(command):
            refused = shell.run(*command.split())

            assert refused.code == 1
            assert words in refused.err


def _open_letters(shell: Shell) -> list[Any]:
    rows: list[Any] = shell.ok("dead", "list", "--recipient", ANN, "--json").json["data"]
    return [one for one in rows if one["raw_bytes"]]


def test_a_dead_letter_is_chosen_by_its_message_and_counted_first(shell: Shell) -> None:
    events = shell.ok("events", "--recipient", ANN, "--json").json["data"]
    message = events[0]["message_id"]

    counted = shell.ok("dead", "retry", "--message-id", message, "--dry-run").out
    as_json = shell.ok("dead", "retry", "--message-id", message, "--dry-run", "--json").json
    other = shell.ok("dead", "retry", "--message-id", "none", "--dry-run").out

    assert "would retry 1 dead letter; nothing was changed" in counted
    assert as_json == {"dry_run": True, "total": 1}
    assert "would retry 0 dead letters; nothing was changed" in other
    assert len(_open_letters(shell)) == 1


def test_a_retried_letter_says_who_retried_it(shell: Shell) -> None:
    [letter] = _open_letters(shell)
    shell.run("dead", "retry", letter["id"])

    shown = " ".join(shell.ok("dead", "show", letter["id"]).out.split())
    listed = shell.ok("dead", "list", "--resolved").out

    assert f"retried by local:{getpass.getuser()}" in shown
    assert "who retried one: `mailonce dead show ID`" in listed
    wait_for(lambda: bool(_open_letters(shell)), what="the retry to fail")


@pytest.mark.parametrize(
    ("command", "time"),
    [
        ("dead list", "failed"), ("dead retry", "failed"), ("dead dismiss", "failed"),
        ("undelivered", "received"), ("redeliver", "received"), ("reprocess", "received"),
        ("delivery list", "received"), ("stats", "received"),
    ],
)  # fmt: skip
def test_help_says_which_time_a_filter_is_about(shell: Shell, command: str, time: str) -> None:
    shown = " ".join(shell.ok(*command.split(), "--help").out.replace("│", " ").split())

    day_or_time = "on this day" if command == "stats" else "at this time"
    assert f"{time} {day_or_time} or" in shown


def test_an_id_of_another_kind_names_the_command_for_it(
    shell: Shell, subtests: pytest.Subtests
) -> None:
    [event, *_] = shell.ok("events", "--json").json["data"]
    commands = {
        event["id"]: "events show",
        _deliveries(shell)[0]["id"]: "delivery show",
        _deliveries(shell)[0]["id"][:16]: "delivery show",
        _open_letters(shell)[0]["id"]: "dead show",
        "exp_" + "0" * 32: "expectation show",
    }

    for id_, command in commands.items():
        with subtests.test(id_):
            refused = shell.run("message", id_)

            assert refused.code == 1
            assert f"`mailonce {command} {id_}`" in refused.err


def test_mail_of_an_inbox_is_listed_with_its_copies(shell: Shell) -> None:
    new = ["--from", "s@a.test", "--subject", "New", "--text", "x", "--idempotency-key", "new"]
    shell.ok("send", "bob@example.net", *new)
    wait_for(
        lambda: shell.run("inbox", "show", "bob@example.net").code == 0, what="the inbox of bob"
    )
    mail = shell.folder / "mail.eml"
    mail.write_text(
        "From: s@a.test\nTo: bob@example.net\nSubject: Twice\nMessage-ID: <m@a.test>\n\nx\n"
    )
    for _ in range(2):
        shell.ok("mail", str(mail), "--to", "bob@example.net")
    wait_for(
        lambda: any(
            one["copies"] for one in shell.ok("inbox", "messages", "bob@example.net", "--json")
            .json["data"]
        ),
        what="the copy to be counted",
    )  # fmt: skip

    shown = shell.ok("inbox", "messages", "bob@example.net").out

    assert "copies" in shown.splitlines()[0]
