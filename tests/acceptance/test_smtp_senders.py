"""swaks and Postfix, as Debian has them, deliver to a real server over TLS, on both databases."""

import shutil
import subprocess
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from tests.acceptance.harness import Server, running
from tests.acceptance.postfix import Postfix, running_postfix, why_not
from tests.edge.smtp.rig import write_certificate
from tests.servers import free_port, wait_for

SWAKS = shutil.which("swaks")
NO_POSTFIX = why_not()
MAIL = b"Subject: %s\r\nMessage-ID: <%s@sender.test>\r\n\r\n.one\r\n..two\r\nthree\r\n"

needs_swaks = pytest.mark.skipif(
    SWAKS is None, reason="swaks is not installed; tests/acceptance/install_senders.sh does it"
)
needs_postfix = pytest.mark.skipif(NO_POSTFIX is not None, reason=str(NO_POSTFIX))


@pytest.fixture
def server(database_url: str, tmp_path: Path) -> Iterator[Server]:
    certificate = write_certificate(tmp_path)
    tls_port = free_port()
    settings = f"""
[inboxes]
domains = ["in.test"]
[smtp]
hostname = "mx.test"
certificate = "{certificate}"
tls_port = {tls_port}
[smtp.users]
ann = "pass word"
"""
    made = Server(tmp_path / "server", database_url, settings, smtp_port=free_port())
    made.tls_port = tls_port  # type: ignore[attr-defined]
    with running(made):
        yield made


def make_inbox(server: Server, local: str) -> dict[str, Any]:
    answer = server.api("/v1/inboxes", method="POST", json={"local": local})
    assert answer.status_code == 201, answer.text
    inbox: dict[str, Any] = answer.json()
    return inbox


def wait_for_messages(server: Server, inbox: dict[str, Any], count: int) -> list[dict[str, Any]]:
    def read() -> list[dict[str, Any]]:
        rows: list[dict[str, Any]] = server.get(f"/v1/inboxes/{inbox['id']}/messages")["data"]
        return rows

    wait_for(lambda: len(read()) >= count, what=f"{count} messages in {inbox['address']}")
    return read()


def raw_of(server: Server, inbox: dict[str, Any], message: dict[str, Any]) -> bytes:
    answer = server.api(f"/v1/inboxes/{inbox['id']}/messages/{message['id']}/raw")
    assert answer.status_code == 200, answer.text
    return answer.content


def swaks(port: int, *arguments: str, mail: bytes) -> "subprocess.CompletedProcess[bytes]":
    assert SWAKS is not None
    fixed = ["--server", "127.0.0.1", "--port", str(port), "--ehlo", "sender.test"]
    return subprocess.run(
        [SWAKS, *fixed, "--from", "a@sender.test", "--data", "-", "--suppress-data", *arguments],
        input=mail,
        capture_output=True,
        timeout=60,
        check=False,
    )


@needs_swaks
def test_swaks_delivers_over_tls_and_is_told_what_is_wrong(server: Server) -> None:
    inbox = make_inbox(server, "box")
    tls_port: int = server.tls_port  # type: ignore[attr-defined]
    to = ("--to", inbox["address"])
    login = ("--auth", "PLAIN", "--auth-user", "ann", "--auth-password")

    runs = {
        "starttls": swaks(server.smtp_port, "--tls", *to, mail=MAIL % (b"1", b"1")),
        "tls": swaks(tls_port, "--tls-on-connect", *to, mail=MAIL % (b"2", b"2")),
        "pipeline": swaks(server.smtp_port, "--pipeline", *to, mail=MAIL % (b"3", b"3")),
        "login": swaks(
            server.smtp_port, "--tls", *login, "pass word", *to, mail=MAIL % (b"4", b"4")
        ),
        "again": swaks(server.smtp_port, "--tls", *to, mail=MAIL % (b"1", b"1")),
    }
    assert {name: done.returncode for name, done in runs.items()} == dict.fromkeys(runs, 0), [
        done.stdout for done in runs.values()
    ]
    wrong = swaks(server.smtp_port, "--tls", *login, "wrong", *to, mail=MAIL % (b"5", b"5"))
    unknown = swaks(server.smtp_port, "--tls", "--to", "none@in.test", mail=MAIL % (b"6", b"6"))

    assert (wrong.returncode, unknown.returncode) == (28, 24)
    assert b"535 5.7.8" in wrong.stdout
    assert b"550 5.1.1" in unknown.stdout
    rows = wait_for_messages(server, inbox, 4)
    assert [row["subject"] for row in rows] == ["1", "2", "3", "4"]
    assert [row["envelope"]["tls"] for row in rows] == ["TLSv1.3", "TLSv1.3", None, "TLSv1.3"]
    assert [row["envelope"]["user"] for row in rows] == [None, None, None, "ann"]
    # swaks ends what it is given with a line end of its own.
    assert raw_of(server, inbox, rows[0]) == MAIL % (b"1", b"1") + b"\r\n"


@needs_postfix
def test_postfix_delivers_retries_and_bounces(server: Server) -> None:
    sender, inbox = make_inbox(server, "sender"), make_inbox(server, "box")
    with running_postfix(server.smtp_port) as postfix:
        server.stop()
        postfix.send(sender["address"], [inbox["address"], "none@in.test"], MAIL % (b"x", b"x"))
        wait_for(lambda: "status=deferred" in postfix.log, what="Postfix to find nobody there")

        server.start()

        wait_for(lambda: "status=sent" in postfix.log, what=f"the mail: {postfix.log[-3000:]}")
        _wait_until_empty(postfix)
        assert "TLSv1.3" in postfix.log
        rows = wait_for_messages(server, inbox, 1)
        assert [row["subject"] for row in rows] == ["x"]
        assert raw_of(server, inbox, rows[0]).endswith(b"\r\n\r\n.one\r\n..two\r\nthree\r\n")
        bounce = wait_for_messages(server, sender, 1)[0]
        assert bounce["envelope"]["mail_from"] == ""
        assert b"550 5.1.1" in raw_of(server, sender, bounce)


def _wait_until_empty(postfix: Postfix) -> None:
    wait_for(postfix.is_empty, what=f"an empty queue: {postfix.log[-3000:]}")
