"""`mailonce listen`, as somebody at a terminal uses it."""

import os
import shlex
import shutil
import signal
import subprocess
import sys
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any

import httpx
import orjson
import pytest
from standardwebhooks import Webhook

from mailonce.edge.cli import forward
from mailonce.edge.cli.board import Board, Lines
from mailonce.edge.cli.forward import ForwardedEvent, Forwarder, forwarded_event_of
from tests.commands import ADMIN_KEY, SOURCE, Shell
from tests.servers import free_port, wait_for

AS_ADMIN = {"Authorization": f"Bearer {ADMIN_KEY}"}
NOON_S = 1_790_000_000.0
SECRET = "whsec_" + "c2VjcmV0" * 5


@dataclass
class Receiver:
    """An application on a local port that keeps what it was sent."""

    port: int = 0
    heard: list[tuple[dict[str, str], bytes]] = field(default_factory=list)
    # What it answers; the last one for ever.
    answers: list[int] = field(default_factory=lambda: [200])

    def keys(self) -> list[str]:
        return [headers["x-idempotency-key"] for headers, _ in self.heard]


@contextmanager
def receiving() -> Iterator[Receiver]:
    receiver = Receiver()

    class Handler(BaseHTTPRequestHandler):
        def do_POST(self) -> None:
            body = self.rfile.read(int(self.headers["content-length"]))
            headers = {name.lower(): value for name, value in self.headers.items()}
            receiver.heard.append(({**headers, "path": self.path}, body))
            answers = receiver.answers
            self.send_response(answers.pop(0) if len(answers) > 1 else answers[0])
            self.send_header("content-length", "0")
            self.end_headers()

        def log_message(self, *_: object) -> None:
            """Say nothing."""

    server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
    receiver.port = server.server_address[1]
    thread = threading.Thread(target=server.serve_forever, daemon=True)
    thread.start()
    try:
        yield receiver
    finally:
        server.shutdown()
        server.server_close()


class Terminal:
    """A real terminal, driven through tmux on a socket of its own."""

    def __init__(self, folder: Path, *, columns: int = 110, lines: int = 30) -> None:
        self._tmux = ["tmux", "-S", str(folder / "tmux.sock"), "-f", "/dev/null"]
        self._size = ["-x", str(columns), "-y", str(lines)]

    def start(self, command: str, folder: Path, env: dict[str, str]) -> None:
        subprocess.run(
            [*self._tmux, "new-session", "-d", *self._size, "-c", str(folder), command],
            check=True,
            env={**os.environ, **env},
        )

    def shown(self) -> str:
        done = subprocess.run(
            [*self._tmux, "capture-pane", "-p"], capture_output=True, text=True, check=False
        )
        return done.stdout

    def press(self, *keys: str) -> None:
        subprocess.run([*self._tmux, "send-keys", *keys], check=True)

    def is_over(self) -> bool:
        done = subprocess.run([*self._tmux, "has-session"], capture_output=True, check=False)
        return done.returncode != 0

    def end(self) -> None:
        subprocess.run([*self._tmux, "kill-server"], capture_output=True, check=False)


def post(url: str, number: int, type_: str = "Delivery") -> None:
    body = {
        "RecordType": type_,
        "MessageID": f"m-{number}",
        "Recipient": f"ann{number}@example.net",
        "DeliveredAt": time.strftime("%Y-%m-%dT%H:%M:%SZ", time.gmtime()),
    }
    answer = httpx.post(f"{url}/in/hooks", json=body, auth=("hook", "word"), timeout=60)
    assert answer.json()["status"] == "accepted", answer.text


def routes(url: str) -> list[str]:
    routes = httpx.get(f"{url}/v1/routes", headers=AS_ADMIN, timeout=60).json()["data"]
    return [one["name"] for one in routes]


def add_source(shell: Shell) -> None:
    (shell.folder / "mailonce.toml").write_text(
        '[sources.hooks]\nprovider = "postmark"\nbasic = "hook:word"\n'
    )


@pytest.mark.slow
def test_at_a_terminal_an_event_appears_and_r_redelivers_it(tmp_path: Path) -> None:
    if shutil.which("tmux") is None:
        pytest.skip("tmux is not installed, so there is no terminal to press keys at")
    shell, terminal = Shell(tmp_path), Terminal(tmp_path)
    add_source(shell)
    with shell.serving() as url, receiving() as receiver:
        options = ("--path", "/hooks", "--secret", SECRET)
        command = shlex.join(
            (sys.executable, "-m", "mailonce", "listen", str(receiver.port), *options)
        )
        try:
            terminal.start(command, tmp_path, {"PYTHONPATH": str(SOURCE)})
            wait_for(lambda: "waiting for events" in terminal.shown(), what="the board")
            post(url, 1)
            post(url, 2)
            wait_for(lambda: "ann2@example.net" in terminal.shown(), what="the events")
            wait_for(lambda: len(receiver.heard) == 2, what="both at the receiver")

            terminal.press("Up")
            wait_for(lambda: "> " in _line(terminal, "ann1"), what="the first to be selected")
            terminal.press("r")
            wait_for(lambda: len(receiver.heard) == 3, what="the redelivery")
            wait_for(lambda: _line(terminal, "ann1").split()[-1] == "2", what="its attempts")
            assert len(routes(url)) == 1
            terminal.press("q")
            wait_for(terminal.is_over, what="its end")
        finally:
            terminal.end()
        assert routes(url) == []

    first, second, again = receiver.heard
    assert again[1] == first[1] != second[1]
    assert receiver.keys() == [receiver.keys()[0], receiver.keys()[1], receiver.keys()[0]]
    assert first[0]["path"] == "/hooks"
    assert "x-mailonce-redelivery" not in first[0]
    assert again[0]["x-mailonce-redelivery"] == "1"
    assert again[0]["x-mailonce-attempt"] == "2"
    for headers, body in receiver.heard:
        assert Webhook(SECRET).verify(body, headers)["type"] == "delivered"


@pytest.mark.slow
def test_without_a_terminal_it_prints_lines_and_leaves_nothing_behind(
    tmp_path: Path,
) -> None:
    shell = Shell(tmp_path)
    add_source(shell)
    refused = shell.run("listen", "3000")
    assert refused.code == 3
    assert "no mailonce server runs here" in refused.err

    with shell.serving() as url, receiving() as receiver:
        receiver.answers = [503, 200]
        out = tmp_path / "out"
        command = [sys.executable, "-m", "mailonce", "listen", str(receiver.port), "--json"]
        where: dict[str, Any] = {
            "cwd": tmp_path,
            "env": {**os.environ, "PYTHONPATH": str(SOURCE)},
            "stdin": subprocess.DEVNULL,
        }
        with out.open("wb") as writing:
            process = subprocess.Popen(command, stdout=writing, stderr=subprocess.STDOUT, **where)
        while not out.read_text():
            assert process.poll() is None
        left = routes(url)
        assert len(left) == 1, "what is announced holds"
        post(url, 1)
        wait_for(lambda: out.read_text().count("\n") == 3, what="two attempts")
        process.send_signal(signal.SIGKILL)
        process.wait(60)
        assert len(routes(url)) == 1, "whoever is killed cannot tidy up"
        post(url, 2)
        with out.open("ab") as writing:
            process = subprocess.Popen(command, stdout=writing, stderr=subprocess.STDOUT, **where)
        wait_for(lambda: _other(routes(url), left), what="the next one, in its place")
        process.send_signal(signal.SIGTERM)
        assert process.wait(60) == 0
        assert routes(url) == []
        letters = httpx.get(f"{url}/v1/dead-letters", headers=AS_ADMIN, timeout=60).json()
        assert letters["data"] == [], "what a passing visitor was owed is nobody's loss"

    first, *lines, second = [orjson.loads(line) for line in out.read_text().splitlines()]
    assert first["secret"].startswith("whsec_")
    assert second == first, "the application need not be told of another secret"
    assert (tmp_path / "mailonce-data/listen-secret.txt").stat().st_mode & 0o077 == 0
    assert [(one["status"], one["attempts"]) for one in lines] == [(503, 1), (200, 2)]
    assert lines[0]["recipient"] == "ann1@example.net"
    assert len(set(receiver.keys())) == 1


def test_the_selection_stays_with_its_event_while_others_come() -> None:
    board = Board()
    for number in range(3):
        board.add(_event(number))
    assert board.chosen is board.rows[2], "the newest, unless somebody chose"

    board.move(-1)
    chosen = board.chosen
    board.add(_event(3))

    assert chosen is board.chosen is board.rows[1]
    board.move(+99)
    assert board.chosen is board.rows[3]
    board.move(-99)
    assert board.chosen is board.rows[0]


def _event(number: int) -> ForwardedEvent:
    return ForwardedEvent(
        key=str(number),
        cursor=number,
        body=b"{}",
        route="",
        type="sent",
        recipient="",
        at="12:00:00",
    )


def _other(now: list[str], before: list[str]) -> bool:
    return len(now) == 1 and now != before


def _line(terminal: Terminal, word: str) -> str:
    return next((line for line in terminal.shown().splitlines() if word in line), "")


async def test_each_attempt_is_shown_with_its_own_time(
    capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(forward, "WAITS_S", (0, 0))
    event, times = _event(1), [NOON_S, NOON_S + 61, NOON_S + 122, NOON_S + 183]
    now_s = iter(times).__next__
    with receiving() as receiver:
        receiver.answers = [500, 503, 200]
        async with httpx.AsyncClient(trust_env=False) as http:
            url = f"http://127.0.0.1:{receiver.port}"
            forwarder = Forwarder(http, url, SECRET, Lines(json=False).change, now_s=now_s)
            await forwarder.forward(event)
            await forwarder.redeliver(event)

    lines = [line.split() for line in capsys.readouterr().out.splitlines()]
    assert [line[0] for line in lines] == [
        time.strftime("%H:%M:%S", time.localtime(one)) for one in times
    ]
    assert [line[-1] for line in lines] == ["1", "2", "3", "4"]


async def test_an_application_that_does_not_run_is_to_be_started() -> None:
    event = forwarded_event_of({"key": "k-1", "cursor": "1", "event": {}})
    async with httpx.AsyncClient(trust_env=False) as http:
        forwarder = Forwarder(http, f"http://127.0.0.1:{free_port()}", SECRET, lambda _: None)
        await forwarder.redeliver(event)

    assert event.answer == "not reached; start your application"
