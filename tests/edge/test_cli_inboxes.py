"""Inboxes from the command line, with a server and without one."""

import os
import signal
import subprocess
import sys
from pathlib import Path

import orjson
import pytest

from tests.acceptance.harness import ADMIN_KEY, Server, running
from tests.commands import Shell
from tests.servers import wait_for

MAIL = b"From: Shop <shop@example.org>\r\nSubject: \x1b[31mhello\r\n\r\nHi Ann\r\n"


@pytest.fixture
def shell(tmp_path: Path) -> Shell:
    (tmp_path / "mail.eml").write_bytes(MAIL)
    return Shell(tmp_path)


def test_an_inbox_is_made_filled_read_and_deleted_by_commands(shell: Shell) -> None:
    with shell.serving():
        made = shell.ok("inbox", "create", "ann", "--metadata", "run=7", "--json").json
        first = shell.ok("mail", "mail.eml", "--to", "ann+tag@inbox.localhost")
        copy = shell.ok("mail", "mail.eml", "--to", "ann+tag@inbox.localhost", "--json").json
        seen = shell.ok("inbox", "watch", "ann@inbox.localhost", "--count", "1")
        [line] = shell.ok("inbox", "watch", made["id"], "--count", "1", "--json").out.splitlines()
        message = orjson.loads(line)
        path = (message["id"], "--inbox", "ann@inbox.localhost")
        shown = shell.ok("message", *path)
        raw = shell.ok("message", *path, "--raw")
        listed = shell.ok("inbox", "list")
        rotated = shell.ok("inbox", "rotate", made["id"], "--grace-s", "0", "--json").json
        kept = shell.run_on_a_terminal("inbox", "delete", made["id"], types="n\n")
        still = shell.run("inbox", "show", made["id"])
        deleted = shell.run_on_a_terminal("inbox", "delete", made["id"], "--yes")
        gone = shell.run("inbox", "show", made["id"])

    assert made["metadata"] == {"run": 7}
    assert "in the inbox" in first.out
    assert copy["new"] is False
    assert "shop@example.org" in seen.out
    assert "\x1b" not in seen.out, "a sender cannot write to the terminal"
    assert "Hi Ann" in shown.out
    assert raw.out.encode() == MAIL.replace(b"\r\n", b"\n")
    assert "ann@inbox.localhost" in listed.out
    assert rotated["address"] != "ann@inbox.localhost"
    assert f"Delete inbox {rotated['address']} and the 1 mail in it?" in kept.out
    assert (kept.code, still.code) == (1, 0)
    assert f"deleted {made['id']}: 1 mail, " in deleted.out
    assert (gone.code, "there is no inbox" in gone.err) == (1, True)


def test_without_a_server_an_inbox_can_be_made_and_listed(shell: Shell) -> None:
    shell.ok("inbox", "create", "ann")
    wrong = shell.run("message", "msg_1", "--raw")
    missing = shell.run("mail", "nothing.eml", "--to", "ann@inbox.localhost")

    assert "ann@inbox.localhost" in shell.ok("inbox", "list").out
    assert (wrong.code, "--inbox" in wrong.err) == (2, True)
    assert (missing.code, "cannot be read" in missing.err) == (2, True)


def test_watching_goes_on_after_a_restart_and_shows_each_mail_once(tmp_path: Path) -> None:
    server = Server(tmp_path / "server", f"sqlite:///{tmp_path / 'data.db'}", "")
    out = tmp_path / "watched"
    with running(server):
        inbox = server.api("/v1/inboxes", method="POST", json={}).json()["id"]
        environment = {**os.environ, "MAILONCE_URL": server.url, "MAILONCE_KEY": ADMIN_KEY}
        command = [sys.executable, "-m", "mailonce", "inbox", "watch", inbox, "--json"]
        with out.open("wb") as file, subprocess.Popen(
            command, stdout=file, stderr=subprocess.DEVNULL, env=environment, cwd=tmp_path
        ) as watching:  # fmt: skip
            try:
                for number in range(3):
                    put = server.api(
                        f"/v1/inboxes/{inbox}/messages",
                        method="POST",
                        content=f"Subject: n{number}\r\n\r\n".encode(),
                    )
                    assert put.status_code == 202
                    wait_for(
                        lambda number=number: out.read_text().count("\n") == number + 1,
                        what=f"mail {number}: {out.read_text()}",
                    )
                    server.kill()
                    server.start()
            finally:
                watching.send_signal(signal.SIGTERM)

    lines = [orjson.loads(line) for line in out.read_text().splitlines()]
    assert [one["subject"] for one in lines] == ["n0", "n1", "n2"]
