"""The README's first five minutes, run as printed but for the ports, in one data folder."""

import json
import shutil
import subprocess
from pathlib import Path
from typing import Any

import pytest

from tests.acceptance.harness import Server, running
from tests.documents.blocks import find_block
from tests.servers import free_port

KEY = {"MAILONCE_ADMIN_KEY": "my-first-admin-key"}


def test_a_webhook_an_inbox_and_a_send_one_after_the_other(tmp_path: Path) -> None:
    """As a reader does: what a block left behind is there when the next one runs."""
    if shutil.which("curl") is None:
        pytest.skip("curl is not installed; `apt-get install curl` to run the README's lines")
    database = f"sqlite:///{tmp_path / 'data.db'}"
    with running(Server(tmp_path / "server", database, "", KEY, smtp_port=free_port())) as server:
        made, first, again, message, suppression = answers(server, "A first webhook")
        inbox, read = answers(server, "A first inbox")
    dev = {**KEY, "MAILONCE_DEV": "true"}
    with running(Server(tmp_path / "server", database, "", dev, smtp_port=free_port())) as server:
        send, same, sent = answers(server, "Sending, once")

    assert made["name"] == "hooks"
    assert (first["status"], again["status"]) == ("accepted", "duplicate")
    assert message["recipients"][0]["status"] == "hard"
    assert suppression["suppressed"] is True
    assert inbox["address"] == "ann@inbox.localhost"
    assert [mail["subject"] for mail in read["data"]] == ["Your code is 123456"]
    assert send["id"] == same["id"]
    assert [mail["subject"] for mail in sent["data"]] == ["Your receipt"]


def answers(server: Server, heading: str) -> list[Any]:
    """Run the commands under a heading; give what the server answered, a line each."""
    script = find_block(f"README.md | {heading} | 1").text
    script = script.replace("localhost:8100", f"127.0.0.1:{server.port}")
    script = script.replace("localhost:2525", f"127.0.0.1:{server.smtp_port}")
    done = subprocess.run(
        ["bash", "-euc", f"A='Authorization: Bearer my-first-admin-key'\n{script}"],
        capture_output=True,
        text=True,
        check=True,
    )
    return [json.loads(line) for line in done.stdout.splitlines()]
