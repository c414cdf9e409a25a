"""The README's first five minutes, run as printed but for the port."""

import json
import re
import shutil
import subprocess
from pathlib import Path

import pytest

from tests.acceptance.harness import Server, running
from tests.servers import free_port

README = Path(__file__).parents[2] / "README.md"


def test_the_five_curl_lines_work_as_printed(tmp_path: Path) -> None:
    if shutil.which("curl") is None:
        pytest.skip("curl is not installed; `apt-get install curl` to run the README's lines")
    block = re.search(r"```sh\n(A=.*?)```", README.read_text(), re.DOTALL)
    assert block is not None, "the README shows a first webhook"
    lines = block.group(1)
    environment = {"MAILONCE_ADMIN_KEY": "my-first-admin-key"}
    with running(
        Server(tmp_path / "server", f"sqlite:///{tmp_path / 'data.db'}", "", environment)
    ) as server:
        script = lines.replace("localhost:8100", f"127.0.0.1:{server.port}")

        done = subprocess.run(
            ["bash", "-euc", script.replace("curl", "echo; curl")],
            capture_output=True,
            text=True,
            check=True,
        )

    made, first, again, message, suppression = (
        json.loads(line) for line in done.stdout.split("\n") if line.strip()
    )
    assert lines.count("curl") == 5
    assert made["name"] == "hooks"
    assert (first["status"], again["status"]) == ("accepted", "duplicate")
    assert message["recipients"][0]["status"] == "hard"
    assert suppression["suppressed"] is True


def test_the_three_lines_of_an_inbox_work_as_printed(tmp_path: Path) -> None:
    if shutil.which("curl") is None:
        pytest.skip("curl is not installed; `apt-get install curl` to run the README's lines")
    block = re.search(r"## A first inbox.*?```sh\n(.*?)```", README.read_text(), re.DOTALL)
    assert block is not None, "the README shows a first inbox"
    lines = block.group(1)
    server = Server(
        tmp_path / "server",
        f"sqlite:///{tmp_path / 'data.db'}",
        "",
        {"MAILONCE_ADMIN_KEY": "my-first-admin-key"},
        smtp_port=free_port(),
    )
    with running(server):
        script = lines.replace("localhost:8100", f"127.0.0.1:{server.port}").replace(
            "smtp://localhost:2525", f"smtp://127.0.0.1:{server.smtp_port}"
        )

        done = subprocess.run(
            ["bash", "-euc", "A='Authorization: Bearer my-first-admin-key'\n" + script],
            capture_output=True,
            text=True,
            check=True,
        )

    made, read = done.stdout.split("}{", 1)
    assert lines.count("curl") == 3
    assert json.loads(made + "}")["address"] == "ann@inbox.localhost"
    [message] = json.loads("{" + read)["data"]
    assert message["subject"] == "Your code is 123456"
