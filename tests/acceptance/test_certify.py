"""`mailonce route test`: our own example of a receiver does all right; a trusting one does not."""

import os
import subprocess
import sys
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any

import pytest

from tests.acceptance.gate_apps import SECRET, App
from tests.acceptance.harness import ADMIN_KEY, SETTINGS, Server, running
from tests.forking import PYTHONPATH

# The example opens tickets for emails, so the route sends what it understands.
TICKET = {"message": "$.id", "sender": "$.source", "subject": "$.reason"}


class Trusting(BaseHTTPRequestHandler):
    """Takes whatever comes."""

    def do_POST(self) -> None:
        self.rfile.read(int(self.headers["content-length"]))
        self.send_response(200)
        self.send_header("content-length", "0")
        self.end_headers()

    def log_message(self, *_: object) -> None:
        """Say nothing."""


@contextmanager
def trusting() -> Iterator[str]:
    server = ThreadingHTTPServer(("127.0.0.1", 0), Trusting)
    thread = threading.Thread(target=server.serve_forever, daemon=True)
    thread.start()
    try:
        yield f"http://127.0.0.1:{server.server_address[1]}/"
    finally:
        server.shutdown()
        server.server_close()


def command(server: Server, *arguments: str) -> "subprocess.CompletedProcess[str]":
    return subprocess.run(
        [sys.executable, "-m", "mailonce", *arguments, "--url", server.url, "--key", ADMIN_KEY],
        capture_output=True,
        text=True,
        timeout=60,
        check=False,
        env={**os.environ, "PYTHONPATH": PYTHONPATH},
    )


@pytest.mark.slow
def test_the_gates_example_is_an_a_and_a_receiver_that_checks_nothing_is_an_f(
    tmp_path: Path,
) -> None:
    app = App("gate_fastapi", f"sqlite:///{tmp_path / 'tickets.db'}", tmp_path)
    settings = SETTINGS + '\n[net]\nallow_hosts = ["127.0.0.1"]\n'
    database = f"sqlite:///{tmp_path / 'data.db'}"
    with running(Server(tmp_path / "server", database, settings)) as server, trusting() as url:
        app.start()
        try:
            _make_route(server, name="tickets", url=app.url, secret=SECRET, mapping=TICKET)
            _make_route(server, name="trusting", url=url)
            best = server.api("/v1/routes/tickets/test", method="POST").json()
            worst = command(server, "route", "test", "trusting")
        finally:
            app.kill()

        assert best["grade"] == "A", best
        assert {one["check"]: one["grade"] for one in best["data"]} == dict.fromkeys(
            ("good", "duplicate", "changed", "unsigned", "forged", "stale", "slow", "speed"), "A"
        )
        assert all(one["advice"] for one in best["data"])
        assert worst.returncode == 1
        assert worst.stdout.rstrip().endswith("trusting: F")
        assert "check webhook-signature before anything else" in worst.stdout
        assert server.api("/v1/routes/nobody/test", method="POST").status_code == 404
        assert server.get("/v1/events")["data"] == [], "a probe is no event of ours"


def _make_route(server: Server, **fields: Any) -> None:
    made = server.api("/v1/routes", method="POST", json=fields)
    assert made.status_code == 201, made.text
