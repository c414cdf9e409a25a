"""Run the commands of a page in a real bash, as printed but for ports, keys and what is left out.

`mailonce` on its PATH asks this process, which runs the command in a fork of one that has imported
it: a page of ten commands then takes a second, not ten. Its standard output and error are the
caller's own.
"""

import json
import os
import re
import shutil
import signal
import socket
import subprocess
import sys
import threading
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path

import httpx
import pytest

from tests import forking
from tests.documents.blocks import ELLIPSIS, Block
from tests.servers import free_port, wait_for

ADMIN_KEY = "my-first-admin-key"
TIMEOUT_S = 120
# Isolated and without site packages it starts in a hundredth of a second.
COMMAND = """#!{python} -ISs
import json, os, socket, sys
with socket.socket(socket.AF_UNIX) as asking:
    asking.connect({socket!r})
    order = [sys.argv[1:], os.getcwd(), dict(os.environ), os.getpid()]
    asking.sendall(json.dumps(order).encode() + b"\\n")
    sys.exit(int(asking.makefile().readline()))
"""
# `last exp` is the latest id with that prefix that a command has printed; `until_ready` runs a
# command that does not end by itself until it says that it works.
PRELUDE = r"""
exec >>"$TRANSCRIPT" 2>&1
last() { grep -oE "$1_[0-9A-Za-z]+" "$TRANSCRIPT" | tail -1; }
until_ready() {
  local before; before=$(wc -l < "$TRANSCRIPT")
  "$@" & local started=$!
  for _ in $(seq 600); do
    tail -n "+$((before + 1))" "$TRANSCRIPT" | grep -qE 'listens at http|SMTP at|→' && break
    kill -0 $started 2>/dev/null || { echo "it ended: $*"; return 1; }
    sleep 0.05
  done
  mailonce --stop-all
  wait $started || true
}
ready() {
  for _ in $(seq 600); do curl -sf "$SERVER/readyz" >/dev/null && return 0; sleep 0.05; done
  echo "no server at $SERVER"; return 1
}
"""
ENDLESS = re.compile(r"^(mailonce (?:serve|listen)\b[^&#\n]*)", re.MULTILINE)
EXPECTED = re.compile(r'"(\w+)": ("[^"…]*"|true|false|null|-?\d+)')


@dataclass
class Bash:
    """A scratch folder, a server that its commands speak to, and what they printed."""

    folder: Path
    port: int = field(default_factory=free_port)
    smtp_port: int = field(default_factory=free_port)
    environment: dict[str, str] = field(default_factory=dict)
    server: forking.Fork | None = None
    # What the page itself started and does not end by itself.
    endless: list[forking.Fork] = field(default_factory=list)

    @property
    def url(self) -> str:
        return f"http://127.0.0.1:{self.port}"

    def start_server(self, *arguments: str, environment: Mapping[str, str] | None = None) -> None:
        """Start `mailonce serve` in the folder, before the page's own commands."""
        log = self.folder / "server.log"
        log.touch()
        command = ["-m", "mailonce", "serve", *arguments]
        variables = {**self._environment(), **(environment or {})}
        self.server = forking.start(forking.Command(command, str(self.folder), str(log), variables))
        wait_for(self._is_ready, what="the server of the page")
        self.environment |= {"MAILONCE_URL": self.url, "MAILONCE_KEY": ADMIN_KEY}

    def run(self, block: Block, *, may_fail: tuple[str, ...] = (), before: str = "") -> str:
        """Run a block, and see that it prints what it says; give what it printed."""
        script = self._script(block, may_fail)
        transcript = self.folder / "transcript"
        transcript.write_bytes(b"")
        done = subprocess.run(
            ["bash", "-euc", PRELUDE + before + "\n" + script],
            cwd=self.folder,
            env=self._environment()
            | {
                "TRANSCRIPT": str(transcript),
                "SERVER": self.url,
                "SMTP": f"smtp://127.0.0.1:{self.smtp_port}",
            },
            check=False,
            timeout=TIMEOUT_S,
        )
        printed = transcript.read_text()
        assert done.returncode == 0, f"{block.name}, line {block.line}: {printed[-3000:]}"
        self._see_what_is_expected(block, printed)
        return printed

    def interrupt(self) -> None:
        """End what the page started, as Ctrl-C does."""
        for fork in self.endless:
            # The thread that answers its caller waits for it, and nobody else may.
            if fork.returncode is None:
                os.kill(fork.pid, signal.SIGINT)
        for fork in self.endless:
            wait_for(lambda fork=fork: fork.returncode is not None, what="Ctrl-C to end it")
        self.endless.clear()

    def stop(self) -> None:
        self.interrupt()
        if self.server is not None:
            self.server.send_signal(signal.SIGTERM)
            self.server.wait(60)

    def _script(self, block: Block, may_fail: tuple[str, ...]) -> str:
        text = block.text
        if block.language == "console":
            text = "\n".join(commands_of(text)) + "\n"
        text = re.sub(r"\b(localhost|127\.0\.0\.1):8100", f"127.0.0.1:{self.port}", text)
        text = re.sub(r"\b(localhost|127\.0\.0\.1):2525", f"127.0.0.1:{self.smtp_port}", text)
        text = re.sub(r"--smtp-port \d+", f"--smtp-port {self.smtp_port}", text)
        # What the server refuses is a failure, also of a curl that says nothing.
        text = re.sub(r"\bcurl (?=-sw? )", "curl --fail-with-body ", text)
        text = text.replace("https://mailonce.example.com", self.url)
        text = re.sub(rf"\bmok_{ELLIPSIS}", ADMIN_KEY, text)
        text = re.sub(rf"\b([a-z]+)_\w*{ELLIPSIS}", r"$(last \1)", text)
        text = ENDLESS.sub(r"until_ready \1", text)
        text = re.sub(r"^until_ready (.*)(?=&)", r"\1", text, flags=re.MULTILINE)
        lines = []
        for line in text.splitlines():
            is_background = re.search(r"&\s*(#.*)?$", line) is not None
            may = any(line.startswith(one) for one in may_fail)
            lines += [f"{line.partition('  #')[0]} || true" if may else line]
            # A reader waits until the server has said that it listens.
            lines += ["ready"] if is_background else []
        return "\n".join(lines)

    def _see_what_is_expected(self, block: Block, printed: str) -> None:
        """A comment with JSON, and what a console shows, must have been printed."""
        flat = re.sub(r"\s+", "", printed)
        for line in block.text.splitlines():
            if line.startswith("# {"):
                for name, value in EXPECTED.findall(line):
                    pair = re.sub(r"\s+", "", f'"{name}":{value}')
                    assert pair in flat, f"{block.name}: {pair} is not in {printed[-3000:]}"
        if block.language == "console":
            for line in outputs_of(block.text):
                pattern = ".*".join(re.escape(re.sub(r"\s+", "", one)) for one in line.split("…"))
                assert re.search(pattern, flat), f"{block.name}: {line!r} is not in {printed}"

    def _is_ready(self) -> bool:
        assert self.server is not None
        assert self.server.poll() is None, (self.folder / "server.log").read_text()
        try:
            return httpx.get(f"{self.url}/readyz", timeout=20).status_code == 200
        except httpx.TransportError:
            return False

    def _environment(self) -> dict[str, str]:
        kept = {
            name: value
            for name, value in os.environ.items()
            if not name.startswith(("MAILONCE", "PYTEST"))
        }
        return {
            **kept,
            "PATH": f"{self.folder / 'bin'}{os.pathsep}{os.environ['PATH']}",
            "PYTHONPATH": forking.PYTHONPATH,
            "MAILONCE_PORT": str(self.port),
            "MAILONCE_SMTP__PORT": str(self.smtp_port),
            "MAILONCE_ADMIN_KEY": ADMIN_KEY,
            "A": f"Authorization: Bearer {ADMIN_KEY}",
            **self.environment,
        }


@contextmanager
def open_bash(folder: Path) -> Iterator[Bash]:
    """Give a scratch folder with the command `mailonce`; end whatever was started there."""
    if shutil.which("curl") is None:
        pytest.skip("curl is not installed; `apt-get install curl` to run the pages' lines")
    (folder / "bin").mkdir(parents=True)
    bash = Bash(folder)
    # A path of a socket has to be short.
    address = f"\0mailonce-docs-{os.getpid()}-{id(bash)}"
    command = folder / "bin/mailonce"
    command.write_text(COMMAND.format(python=sys.executable, socket=address))
    command.chmod(0o755)
    with socket.socket(socket.AF_UNIX) as listening:
        listening.bind(address)
        listening.listen()
        threading.Thread(target=_answer, args=(listening, bash), daemon=True).start()
        try:
            yield bash
        finally:
            bash.stop()
            listening.shutdown(socket.SHUT_RDWR)


def commands_of(console: str) -> list[str]:
    """Give the lines of a console that were typed."""
    lines, goes_on = [], False
    for line in console.splitlines():
        if goes_on or line.startswith("$ "):
            lines.append(line.removeprefix("$ "))
        goes_on = (goes_on or line.startswith("$ ")) and line.endswith("\\")
    return lines


def outputs_of(console: str) -> list[str]:
    """Give the lines of a console that were printed."""
    typed = set(commands_of(console))
    lines = [line for line in console.splitlines() if line and line != ELLIPSIS]
    return [line for line in lines if line.removeprefix("$ ") not in typed]


def _answer(listening: socket.socket, bash: Bash) -> None:
    while True:
        try:
            asking, _ = listening.accept()
        except OSError:
            return
        threading.Thread(target=_run_one, args=(asking, bash), daemon=True).start()


def _run_one(asking: socket.socket, bash: Bash) -> None:
    with asking:
        arguments, folder, environment, pid = json.loads(asking.makefile().readline())
        if arguments == ["--stop-all"]:
            bash.interrupt()
            asking.sendall(b"0\n")
            return
        out, err = f"/proc/{pid}/fd/1", f"/proc/{pid}/fd/2"
        command = forking.Command(["-m", "mailonce", *arguments], folder, out, environment, err)
        fork = forking.start(command)
        if arguments[0] in {"serve", "listen"}:
            bash.endless.append(fork)
        asking.sendall(f"{fork.wait(TIMEOUT_S)}\n".encode())
