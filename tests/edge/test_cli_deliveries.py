"""Routes and deliveries on the command line: the real commands, over a data directory."""

import json
import os
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
import structlog
from typer.testing import CliRunner

from mailonce.edge.cli.exits import exit_code_of
from mailonce.edge.cli.main import app
from mailonce.errors import MailonceError
from mailonce.testing import EventType, Happening, make_simulators
from tests.commands import Done, Shell, post


class Here:
    """Runs commands in this process, which is quicker than one each; a process is tried below."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder

    def run(self, *arguments: str) -> Done:
        done = CliRunner().invoke(app, list(arguments))
        if done.exception is None or isinstance(done.exception, SystemExit):
            return Done(done.exit_code, done.stdout, done.stderr)
        assert isinstance(done.exception, MailonceError), done.exception
        return Done(exit_code_of(done.exception), done.stdout, str(done.exception))

    def ok(self, *arguments: str) -> Done:
        done = self.run(*arguments)
        assert done.code == 0, done.err
        return done


@pytest.fixture
def here(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Here]:
    monkeypatch.chdir(tmp_path)
    for name in [name for name in os.environ if name.startswith("MAILONCE")]:
        monkeypatch.delenv(name)
    yield Here(tmp_path)
    # A command sends the log to the standard error of its own time, which is closed by now.
    structlog.reset_defaults()


def test_a_route_is_added_switched_rotated_and_removed_without_any_server(here: Here) -> None:
    added = here.ok(
        "route", "add", "crm", "https://crm.example.com/hooks", "--event", "bounced",
        "--domain", "@Example.com", "--metadata", "plan=pro", "--mapping", '{"to": "$.recipient"}',
        "--header", "X-Team: crm",
    )  # fmt: skip
    shown = here.ok("route", "show", "crm", "--json").json
    off = here.ok("route", "off", "crm", "--reason", "holiday")
    while_off = here.ok("route", "show", "crm", "--json").json
    rotated = here.ok("route", "rotate", "crm", "--signing", "ed25519", "--json").json
    here.ok("route", "on", "crm")
    listed = here.ok("route", "list")
    here.ok("route", "remove", "crm")

    assert "its secret, shown this once: whsec_" in added.out
    assert "whsec_" not in json.dumps(shown)
    assert (shown["events"], shown["domains"], shown["headers"]) == (
        ["bounced"], ["example.com"], ["X-Team"],
    )  # fmt: skip
    assert (shown["metadata"], shown["mapping"]) == ({"plan": "pro"}, {"to": "$.recipient"})
    assert "is off" in off.out
    assert (while_off["on"], while_off["off_reason"]) == (False, "holiday")
    assert rotated["secret"].startswith("whsk_")
    assert [one["signing"] for one in rotated["secrets"]] == ["ed25519", "hmac"]
    assert rotated["secrets"][0]["public_key"].startswith("whpk_")
    assert rotated["secrets"][1]["until"] is not None
    assert "crm.example.com" in listed.out
    assert here.ok("route", "list", "--json").json["data"] == []


def test_a_route_of_mail_is_added_and_changed(here: Here) -> None:
    here.ok(
        "route", "add", "mail", "https://crm.example.com/mail", "--event", "inbound",
        "--inbox", "ann@in.example.com", "--sender", "@shop.example", "--subject-contains", "Order",
        "--attachments", "--inline-bytes-max", "65536",
    )  # fmt: skip
    added = here.ok("route", "show", "mail", "--json").json
    here.ok("route", "set", "mail", "--sender", "bob@shop.example", "--no-attachments",
            "--inline-bytes-max", "0", "--metadata", "plan=pro")  # fmt: skip
    changed = here.ok("route", "show", "mail", "--json").json

    assert (added["inboxes"], added["senders"]) == (["ann@in.example.com"], ["@shop.example"])
    assert (added["subject_contains"], added["has_attachments"]) == (["Order"], True)
    assert added["inline_bytes_max"] == 65_536
    assert (changed["inboxes"], changed["senders"]) == (added["inboxes"], ["bob@shop.example"])
    assert (changed["has_attachments"], changed["inline_bytes_max"]) == (False, 0)
    assert changed["metadata"] == {"plan": "pro"}


def test_a_route_of_the_file_makes_its_secret_once_and_keeps_one_that_is_given(
    tmp_path_factory: pytest.TempPathFactory,
) -> None:
    shell = Shell(tmp_path_factory.mktemp("secret"))
    secret = "whsec_" + "B" * 43 + "="
    settings = '[routes.{}]\nurl = "https://crm.example.com"\n{}\n'
    file = shell.folder / "mailonce.toml"
    file.write_text(settings.format("made", "") + settings.format("given", f'secret = "{secret}"'))

    with shell.serving():
        log, listed = (shell.folder / "server.log").read_text(), shell.ok("route", "list")
        refused = shell.run("route", "rotate", "given")
        shell.ok("route", "rotate", "made")
        file.write_text(settings.format("made", 'events = ["bounced"]'))
        shell.ok("reload")
        changed = shell.ok("route", "show", "made", "--json").json

    kept = shell.folder / "mailonce-data" / "secret-of-route-made.txt"
    assert str(kept) in log
    assert kept.read_text().startswith("whsec_")
    assert "whsec_" not in log + listed.err
    assert refused.code != 0
    assert "stands in the settings file" in refused.err.replace("\n", " ")
    assert (changed["id"], changed["events"]) == ("rte_made", ["bounced"])
    assert len(changed["secrets"]) == 2, "a change of the file keeps the secrets"


@pytest.mark.parametrize(
    ("arguments", "sentence"),
    [
        (["route", "add", "x"], "where are events posted to?"),
        (["route", "add", "x", "http://localhost:8080/"], "net.allow_hosts"),
        (["route", "add", "x", "https://e.example", "--expression", "a =="], "not JMESPath"),
        (["route", "add", "x", "https://e.example", "--source", "none"], "no source 'none'"),
        (["route", "add", "x", "https://e.example", "--secret", "word"], "whsec_"),
        (["route", "add", "x", "https://e.example", "--mapping", "{"], "not JSON"),
        (["route", "show", "none"], "no route 'none'"),
        (["redeliver", "dlv_00"], "dlv_"),
        (["redeliver", "--route", "none"], "no route 'none'"),
        (["redeliver", "--state", "lost"], "pending, in_progress, delivered, failed"),
        (["reprocess", "--missing"], "--missing needs --route NAME"),
        (["reprocess", "--since", "tomorrow"], "2h, 30m, 3d, 10:00, today, yesterday"),
        (["reprocess", "--until", "24:00"], "is no time; write 2h, 30m, 3d, 10:00"),
        (["delivery", "show", "dlv_" + "0" * 64], "no delivery"),
        (["delivery", "list", "--route", "none"], "no route 'none'"),
        (["dead", "list", "--route", "none"], "no route 'none'"),
        (["dead", "list", "--source", "none"], "no source 'none'"),
        (["dead", "list", "--kind", "none"], "arrival, delivery, mail"),
        (["events", "list", "--source", "none"], "no source 'none'"),
        (["refusals", "--source", "none"], "no source 'none'"),
        (["undelivered", "--route", "none"], "no route 'none'"),
        (["undelivered", "--state", "delivered"], "pending, in_progress, failed"),
    ],
    ids=lambda value: " ".join(value) if isinstance(value, list) else "",
)
def test_what_cannot_be_is_said_in_one_sentence(
    here: Here, arguments: list[str], sentence: str
) -> None:
    here.ok("key", "add")

    done = here.run(*arguments)

    assert done.code != 0
    assert sentence in done.err.replace("\n", " ")
    assert "Traceback" not in done.err


@pytest.mark.slow
def test_deliveries_are_listed_redelivered_and_reprocessed(tmp_path: Path) -> None:
    shell = Shell(tmp_path)
    simulator = make_simulators()["sesmetric"]
    given: dict[str, Any] = simulator.settings()
    with shell.serving() as url:
        shell.ok("source", "add", "main", "--provider", "sesmetric", "--secret", given["secret"])
        shell.ok("route", "add", "feed", "--kind", "poll")
        happenings = [
            Happening(f"e{n}", EventType.BOUNCED, f"m{n}", "ann@example.net", int(time.time()) - 60)
            for n in range(3)
        ]
        post(
            url, "/in/main", *(simulator.post([one], now_s=int(time.time())) for one in happenings)
        )

        owed = shell.ok("undelivered")
        listed = shell.ok(
            "delivery", "list", "--route", "feed", "--state", "pending", "--json"
        ).json
        shown = shell.ok("delivery", "show", listed["data"][0]["id"])
        dry = shell.ok("redeliver", "--route", "feed", "--state", "pending", "--dry-run")
        done = shell.run_on_a_terminal("redeliver", "--state", "pending", "--yes")
        anew = shell.ok("reprocess", "--type", "bounced", "--json").json
        after = shell.ok("undelivered", "--json").json

    assert "feed" in owed.out
    assert len(listed["data"]) == 3
    assert "mailonce.event/1" in shown.out
    assert "would redeliver 3 deliveries" in dry.out
    assert "queued 3 of 3 deliveries for delivery" in done.out
    assert "━" in done.out, "a terminal shows a bar"
    assert (anew["total"], anew["done"], anew["state"]) == (3, 3, "finished")
    assert after["total"] == 6
    assert after["routes"][0]["pending"] == 6
