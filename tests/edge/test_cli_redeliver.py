"""Deliveries about an address, some of which cannot be sent again: their mail was deleted."""

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
    shown = " ".join(shell.ok("undelivered", "--route", "wrong").out.split())
    rows = shell.ok("undelivered", "--route", "wrong", "--json").json["data"]
    [letter] = [
        one for one in shell.ok("dead", "list", "--json").json["data"] if not one["raw_bytes"]
    ]
    of_letter = " ".join(shell.ok("dead", "show", letter["id"]).out.split())

    assert [one["mail_deleted"] for one in rows] == [True, False]
    assert "mail deleted" in shown
    assert "1 cannot be sent again: its mail was deleted; close it" in shown
    assert "it cannot be sent again; or `mailonce dead dismiss" in of_letter
