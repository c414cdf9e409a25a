"""Inboxes from the command line, with a server and without one."""

import os
import re
import signal
import smtplib
import subprocess
import sys
from pathlib import Path

import orjson
import pytest

from mailonce.edge.cli.inbox_messages import write_new
from mailonce.edge.cli.inbox_search import MAILS_MAX
from mailonce.edge.cli.inboxes import pending_words
from tests.acceptance.harness import ADMIN_KEY, Server, running
from tests.commands import Shell
from tests.servers import free_port, wait_for

MAIL = b"From: Shop <shop@example.org>\r\nSubject: \x1b[31mhello\r\n\r\nHi Ann\r\n"
WITH_FILES = b"""\
From: bob@example.net
Subject: two files
Content-Type: multipart/mixed; boundary=b

--b
Content-Disposition: attachment; filename=../receipt.pdf

%PDF-
--b
Content-Disposition: attachment; filename=terms.txt

terms
--b--
"""


@pytest.fixture
def shell(tmp_path: Path) -> Shell:
    (tmp_path / "mail.eml").write_bytes(MAIL)
    return Shell(tmp_path)


def test_an_address_with_much_mail_is_told_that_there_may_be_more(tmp_path: Path) -> None:
    server = Server(tmp_path / "server", f"sqlite:///{tmp_path / 'data.db'}", "")
    with running(server):
        shell = Shell(tmp_path, {"MAILONCE_URL": server.url, "MAILONCE_KEY": ADMIN_KEY})
        inbox = server.api("/v1/inboxes", method="POST", json={}).json()
        path = f"/v1/inboxes/{inbox['id']}/messages"
        for number in range(MAILS_MAX + 1):
            mail = MAIL + b"%d" % number
            server.api(path, method="POST", content=mail)
        wait_for(
            lambda: len(server.api(path).json()["data"]) > MAILS_MAX, what="each mail to be read"
        )

        much = shell.ok("recipient", "shop@example.org").out
        shell.ok("inbox", "delete-message", inbox["address"], "1", "--yes")
        rest = shell.ok("recipient", "shop@example.org", "--json").json["mail_in_inboxes"]
        listed = shell.ok("inbox", "messages", inbox["address"])

    assert "`mailonce inbox messages INBOX --sender shop@example.org`" in much.replace("\n", " ")
    assert "\x1b" not in much, "a sender cannot write to the terminal"
    assert [one["seq"] for one in rest["data"]] == list(range(MAILS_MAX + 1, 1, -1))
    assert {one["inbox"] for one in rest["data"]} == {inbox["address"]}
    assert rest["complete"] is True
    assert "not listed: 1 deleted from this inbox" in listed.out


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


def test_mail_that_came_again_has_the_same_copies_wherever_it_is_shown(shell: Shell) -> None:
    ann = "ann@inbox.localhost"
    with shell.serving():
        shell.ok("inbox", "create", "ann")
        for _ in range(3):
            shell.ok("mail", "mail.eml", "--to", ann)
        shell.ok("inbox", "watch", ann, "--count", "1")
        [listed] = shell.ok("inbox", "messages", ann, "--json").json["data"]
        [event] = shell.ok("events", "--recipient", ann, "--json").json["data"]
        [person] = shell.ok("message", listed["id"], "--json").json["recipients"]
        [found] = shell.ok("recipient", ann, "--json").json["messages"]
        alone = shell.ok("message", "1", "--inbox", ann)
        whole = shell.ok("message", "1", "--inbox", ann, "--json").json

    timelines = person["timeline"] + found["recipients"][0]["timeline"]
    counted = [one["copies"] for one in (listed, event, *timelines, whole)]
    assert counted == [2, 2, 2, 2, 2]
    assert re.search(r"^copies +2$", alone.out, re.MULTILINE)


def test_the_mail_of_an_inbox_is_listed_read_saved_and_deleted_by_its_number(shell: Shell) -> None:
    (shell.folder / "files.eml").write_bytes(WITH_FILES)
    (shell.folder / "terms.txt").write_text("mine")
    ann = "ann@inbox.localhost"
    with shell.serving():
        shell.ok("inbox", "create", "ann")
        for file in ("mail.eml", "files.eml"):
            shell.ok("mail", file, "--to", ann)
        shell.ok("inbox", "watch", ann, "--count", "2")
        listed = shell.ok("inbox", "messages", ann)
        newest = shell.ok("inbox", "messages", ann, "--limit", "1", "--json").json["data"]
        matches = shell.ok("inbox", "messages", ann, "--sender", "@example.org", "--json").json
        shown = shell.ok("message", "2", "--inbox", ann).out
        saved = shell.ok("inbox", "save", ann, "2")
        one = shell.ok("inbox", "save", ann, "2", newest[0]["attachments"][0]["id"][:9])
        nothing = shell.run("inbox", "save", ann, "1")
        wrong = shell.run("inbox", "save", ann, "2", "att_none", "--into", "nowhere")
        nowhere = shell.run("inbox", "save", ann, "2", "--into", "nowhere")
        deleted = shell.ok("inbox", "delete-message", ann, "2")
        gone = shell.run("message", "2", "--inbox", ann)
        left = shell.ok("inbox", "messages", ann, "--json").json["data"]

    ids = [file["id"] for file in newest[0]["attachments"]]
    assert [one["seq"] for one in newest] == [2]
    assert [one["seq"] for one in matches["data"]] == [1]
    assert newest[0]["id"] in listed.out
    assert "\x1b" not in listed.out, "a sender cannot write to the terminal"
    assert all(id_ in shown for id_ in ids)
    assert "terms.txt" in shown
    assert (shell.folder / "terms.txt").read_text() == "mine", "no file is overwritten"
    assert (shell.folder / "terms (2).txt").read_text() == "terms"
    assert "saved receipt.pdf (5 bytes)" in saved.out
    assert "saved receipt (2).pdf" in one.out
    assert not (shell.folder.parent / "receipt.pdf").exists()
    assert [done.code for done in (nothing, wrong, nowhere, gone)] == [1, 1, 2, 1]
    assert all(id_ in wrong.err for id_ in ids)
    assert f"deleted {newest[0]['id']}" in deleted.out
    assert [one["seq"] for one in left] == [1]


@pytest.mark.parametrize(
    ("name", "saved"),
    [
        ("a.pdf", ["a.pdf", "a (2).pdf"]),
        ("../../.bashrc", ["bashrc", "bashrc (2)"]),
        ("...", ["attachment", "attachment (2)"]),
        ("文" * 200 + ".pdf", ["文" * 78 + ".pdf", "文" * 78 + " (2).pdf"]),
        ("x." + "y" * 300, ["x." + "y" * 238, "x." + "y" * 238 + " (2)"]),
    ],
)
def test_an_attachment_is_saved_whatever_its_sender_calls_it(
    tmp_path: Path, name: str, saved: list[str]
) -> None:
    folder = tmp_path / "in" / "here"
    folder.mkdir(parents=True)

    files = [write_new(folder, name, b"content") for _ in range(2)]

    assert [file.name for file in files] == saved
    assert {file.parent for file in files} == {folder}
    assert all(file.read_bytes() == b"content" for file in files)


def test_what_was_refused_to_an_inbox_and_to_nobody_is_shown(tmp_path: Path) -> None:
    server = Server(
        tmp_path / "server", f"sqlite:///{tmp_path / 'data.db'}", "", smtp_port=free_port()
    )
    with running(server):
        shell = Shell(tmp_path, {"MAILONCE_URL": server.url, "MAILONCE_KEY": ADMIN_KEY})
        body = {"local": "ann", "bytes_max": 300}
        address = server.api("/v1/inboxes", method="POST", json=body).json()["address"]
        before = shell.ok("inbox", "messages", address).out
        with smtplib.SMTP("127.0.0.1", server.smtp_port, timeout=60) as smtp:
            smtp.helo()
            for to in (address, address, "anm@inbox.localhost"):
                smtp.mail("shop@example.org")
                if smtp.rcpt(to)[0] == 250:
                    smtp.data(b"Subject: large\r\n\r\n" + b"x" * 400)
                smtp.rset()

        shown, listed = (shell.ok("inbox", act, address).out for act in ("show", "messages"))
        as_json = [shell.ok("inbox", one, address, "--json").json for one in ("show", "messages")]
        domain = shell.ok("domain", "show", "inbox.localhost").out
        domains = shell.ok("domain", "list", "--json").json["data"]
        unknown = shell.run("domain", "show", "example.org").err

    assert "no mail in this inbox; put some in" in before
    assert "no mail in this inbox: 2 refused" in listed
    for words in (shown, listed):
        assert re.search(r"20\S+Z +2 +552 .*ann@inbox.localhost", words), words
        assert "mail over SMTP is listened for since 20" in words
    for one in as_json:
        assert [(row["code"], row["times"]) for row in one["refused"]] == [(552, 2)]
        assert one["listening_since"] is not None
    assert re.search(r" 1 +550 .*anm@inbox.localhost", domain), domain
    assert [one["domain"] for one in domains] == ["inbox.localhost"]
    assert "see `mailonce domain list`" in unknown


def test_without_a_server_an_inbox_can_be_made_and_listed(shell: Shell) -> None:
    shell.ok("inbox", "create", "ann")
    wrong = shell.run("message", "msg_1", "--raw")
    missing = shell.run("mail", "nothing.eml", "--to", "ann@inbox.localhost")

    assert "ann@inbox.localhost" in shell.ok("inbox", "list").out
    assert (wrong.code, "--inbox" in wrong.err) == (2, True)
    assert (missing.code, "cannot be read" in missing.err) == (2, True)


def test_mail_that_was_not_read_yet_is_counted_with_the_reason() -> None:
    one = {"mails": 1, "oldest_at": "2026-11-19T08:00:00.000Z", "last_error": None}

    assert pending_words(one) == (
        "1 mail arrived and was not read yet, the oldest at 2026-11-19T08:00:00Z"
    )
    assert pending_words({**one, "mails": 1200, "last_error": "[red]500"}) == (
        "1,200 mails arrived and were not read yet, the oldest at 2026-11-19T08:00:00Z; "
        r"last error: \[red]500"
    )


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
