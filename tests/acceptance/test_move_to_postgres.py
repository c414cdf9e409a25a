"""A move from SQLite to PostgreSQL, as docs/postgresql.md says it."""

import os
import subprocess
import sys
from pathlib import Path
from typing import Any

from tests.acceptance.endpoint import serving
from tests.acceptance.harness import ADMIN_KEY, SETTINGS, Server, event, running
from tests.commands import Shell
from tests.documents.blocks import find_block
from tests.servers import wait_for

MASTER = {"MAILONCE_MASTER_KEY": "0123456789abcdef0123456789abcdef"}
SECRET = "whsec_MfKQ9r8GKYqrTwjUPD8ILPZIo2LaLaSw"


def test_what_is_moved_is_there_and_a_copy_has_the_same_key(
    postgres_url: str, tmp_path: Path
) -> None:
    with serving() as endpoint:
        settings = (
            f'public_url = "https://hooks.example.com"\n{SETTINGS}\n[net]\n'
            f'allow_hosts = ["127.0.0.1"]\n[routes.crm]\nurl = "{endpoint.url}"\n'
            f'secret = "{SECRET}"\n[senders.out]\nprovider = "smtp"\nhost = "127.0.0.1"\nport = 1\n'
            'tls = "none"\n'
        )
        old = Server(tmp_path / "old", f"sqlite:///{tmp_path / 'old.db'}", settings, MASTER)
        new = Server(tmp_path / "new", postgres_url, settings, MASTER)
        with running(old), running(new):
            assert old.post(event(1)).json()["status"] == "accepted"
            old.post(event(2, "bounce", bounce_type="hard"))
            suppress(old, "+ann/b@example.net", stream="news")
            suppress(old, "bob@example.net")
            wait_for(lambda: not old.get("/v1/undelivered")["data"], what="all to be delivered")

            for _ in range(2):
                move_suppressions(old, new)
            copy = new.post(event(1))
            wait_for(lambda: len(endpoint.requests) == 3, what="the copy")

            assert suppressed(new) == suppressed(old)
            assert len(suppressed(new)) >= 2
            assert copy.json()["status"] == "accepted", "the new server does not know it"
    keys = [one.headers["x-idempotency-key"] for one in endpoint.requests]
    assert keys[2] in keys[:2], "an endpoint that keeps keys does its work once"
    assert len(set(keys)) == 2


def test_a_database_that_is_no_longer_used_is_told_at_the_start_and_by_doctor(
    empty_postgres_url: str, tmp_path: Path
) -> None:
    shell = Shell(tmp_path)
    shell.ok("source", "add", "main", "--provider", "mailgun", "--secret", "s")
    before = shell.run("doctor").out
    shell.env["MAILONCE_DATABASE"] = empty_postgres_url

    checked = " ".join(shell.run("doctor").out.split())
    with shell.serving():
        asked = " ".join(shell.run("doctor").out.split())
        log = (shell.folder / "server.log").read_text()

    said = "but `database` is postgresql://"
    assert said not in before
    for words in (checked, asked, log):
        assert "holds 'mailonce-data/mailonce.db'" in words
        assert said in words
        assert "see docs/postgresql.md, Move from SQLite" in words
    assert "other_database_in_folder" in log


def suppress(server: Server, address: str, **body: Any) -> None:
    path = f"/v1/suppressions/{address.replace('+', '%2B').replace('/', '%2F')}"
    assert server.api(path, method="PUT", json=body).status_code == 200


def suppressed(server: Server) -> list[tuple[str, list[str | None]]]:
    return [
        (one["address"], sorted({cause["stream"] for cause in one["causes"]}, key=str))
        for one in server.get("/v1/suppressions?suppressed=true")["data"]
    ]


def move_suppressions(old: Server, new: Server) -> None:
    block = find_block("postgresql.md | Move from SQLite | 1")
    places = {"OLD": old.url, "OLD_KEY": ADMIN_KEY, "NEW": new.url, "NEW_KEY": ADMIN_KEY}
    done = subprocess.run(
        [sys.executable, "-c", block.text],
        env={**os.environ, **places},
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 0, done.stderr
