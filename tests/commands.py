"""Run the real command as a user does: a process of its own, in a folder of its own."""

import asyncio
import os
import pty
import re
import signal
import subprocess
import sys
import tempfile
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import orjson

import mailonce
from mailonce.testing import Post, PostResponse, post_all
from tests import forking
from tests.servers import wait_for

SOURCE = Path(mailonce.__file__).parents[1]
ADMIN_KEY = "an-admin-key-for-tests"


@dataclass(frozen=True)
class Done:
    """How a command ended."""

    code: int
    out: str
    err: str

    @property
    def json(self) -> Any:
        return orjson.loads(self.out)


@dataclass
class Shell:
    """A folder to run commands in, with the data directory below it."""

    folder: Path
    env: dict[str, str] = field(default_factory=dict)

    @property
    def data_dir(self) -> Path:
        return self.folder / "mailonce-data"

    def run(self, *arguments: str, env: Mapping[str, str] | None = None) -> Done:
        """Run `mailonce ARGUMENTS` to its end, in a fork of a process that has imported it."""
        with tempfile.TemporaryDirectory() as aside:
            out, err = Path(aside, "out"), Path(aside, "err")
            process = forking.start(
                forking.Command(
                    ["-m", "mailonce", *arguments],
                    str(self.folder),
                    str(out),
                    self._env(env or {}),
                    errors=str(err),
                )
            )
            try:
                code = process.wait(250)
            finally:
                process.send_signal(signal.SIGKILL)
            return Done(code, out.read_text(), err.read_text())

    def run_cold(self, *arguments: str) -> Done:
        """Run it in a new interpreter, as a user does."""
        done = subprocess.run(
            [sys.executable, "-m", "mailonce", *arguments],
            cwd=self.folder,
            env=self._env({}),
            capture_output=True,
            text=True,
            timeout=250,
            check=False,
        )
        return Done(done.returncode, done.stdout, done.stderr)

    def ok(self, *arguments: str) -> Done:
        done = self.run(*arguments)
        assert done.code == 0, done.err or done.out
        return done

    def run_on_a_terminal(self, *arguments: str, columns: int = 120, types: str = "") -> Done:
        """Run it where somebody could be asked; `types` is what is typed then."""
        ours, theirs = pty.openpty()
        os.write(ours, types.encode())
        with subprocess.Popen(
            [sys.executable, "-m", "mailonce", *arguments],
            cwd=self.folder,
            env=self._env({"TERM": "xterm-256color", "COLUMNS": str(columns)}),
            stdin=theirs,
            stdout=theirs,
            stderr=theirs,
        ) as process:
            os.close(theirs)
            shown = b""
            # Reading fails once the other side of a terminal is closed.
            while part := _read(ours):
                shown += part
            code = process.wait(120)
        os.close(ours)
        return Done(code, shown.decode(), "")

    @contextmanager
    def serving(self, *, smtp_port: int = 0, admin_key: str | None = ADMIN_KEY) -> Iterator[str]:
        """Run a server in this folder; give its URL."""
        log = self.folder / "server.log"
        log.write_bytes(b"")
        process = forking.start(
            forking.Command(
                ["-m", "mailonce", "serve", "--port", "0", "--smtp-port", str(smtp_port)],
                str(self.folder),
                str(log),
                self._env({} if admin_key is None else {"MAILONCE_ADMIN_KEY": admin_key}),
            )
        )
        try:
            wait_for(lambda: "listens at" in log.read_text(), what="the server to start")
            socket = self.data_dir / "mailonce.sock"
            wait_for(socket.exists, what="the socket")
            match = re.search(r"listens at (\S+)", log.read_text())
            assert match is not None
            yield match.group(1)
        finally:
            process.send_signal(signal.SIGTERM)
            assert process.wait(60) == 0, log.read_text()

    @property
    def environment(self) -> dict[str, str]:
        """What a command that a test starts by itself is given."""
        return self._env({})

    def _env(self, more: Mapping[str, str]) -> dict[str, str]:
        kept = {k: v for k, v in os.environ.items() if not k.startswith("MAILONCE")}
        # The command runs the code that the tests import, wherever that lies.
        return {**kept, "PYTHONPATH": str(SOURCE), **self.env, **more}


def post(url: str, path: str, *posts: Post) -> list[PostResponse]:
    """Send posts to a source, and give the answers in their order."""
    answers: dict[int, PostResponse] = {}
    requests = [(path, one) for one in posts]
    asyncio.run(post_all(url, requests, answers.__setitem__, connections=4))
    return [answers[number] for number in range(len(posts))]


def _read(handle: int) -> bytes:
    try:
        return os.read(handle, 65_536)
    except OSError:
        return b""
