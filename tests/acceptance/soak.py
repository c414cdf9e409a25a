"""Kill an app at random instants while senders post to it, then count what took effect."""

import contextlib
import os
import queue
import random
import signal
import socket
import subprocess
import sys
import threading
import time
from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import Self

import httpx

from tests.acceptance.gate_apps import EXAMPLES, SOURCE, App, event
from tests.servers import wait_for

ROOT = Path(__file__).parents[2]
SENDERS = 6
ANSWER_S = 120
# Long enough for some requests to end, short enough for a kill to meet others.
LIFE_S = 0.15
OWED = "SELECT count(*) FROM webhook_outbox WHERE status = 'due'"


@dataclass
class Lives:
    """The app's forks, one after the other, on the app's port."""

    app: App
    _parent: "subprocess.Popen[str] | None" = None

    def __enter__(self) -> Self:
        log = (self.app.folder / "app.log").open("ab")
        self._parent = subprocess.Popen(
            [sys.executable, "-m", "tests.acceptance.prefork", EXAMPLES / self.app.name / "app.py"],
            cwd=self.app.folder,
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=log,
            text=True,
            env={**self.app.variables(), "PYTHONPATH": f"{SOURCE}{os.pathsep}{ROOT}"},
        )
        log.close()
        return self

    def __exit__(self, *_: object) -> None:
        assert self._parent is not None
        assert self._parent.stdin is not None
        self._parent.stdin.close()
        try:
            self._parent.wait(20)
        except subprocess.TimeoutExpired:
            self._parent.kill()
            self._parent.wait()

    @contextlib.contextmanager
    def life(self) -> Iterator[None]:
        """Start one life, wait until it listens, and end it with kill -9."""
        assert self._parent is not None
        assert self._parent.stdin is not None
        assert self._parent.stdout is not None
        self._parent.stdin.write("\n")
        self._parent.stdin.flush()
        pid = int(self._parent.stdout.readline())
        try:
            deadline = time.monotonic() + 20
            while not _listens(self.app.port):
                assert time.monotonic() < deadline, self.app.log[-3000:]
                time.sleep(0.002)
            yield
        finally:
            with contextlib.suppress(ProcessLookupError):
                os.kill(pid, signal.SIGKILL)


@dataclass
class Senders:
    """Threads that post one message after the other, each until it has a final answer."""

    app: App
    answers: dict[str, list[httpx.Response]] = field(default_factory=dict)
    attempts: int = 0
    # Requests that were under way when the app died.
    cut_off: int = 0
    _stop: threading.Event = field(default_factory=threading.Event)
    _threads: list[threading.Thread] = field(default_factory=list)
    _failed: "queue.SimpleQueue[BaseException]" = field(default_factory=queue.SimpleQueue)

    def start(self) -> None:
        for number in range(SENDERS):
            thread = threading.Thread(target=self._send, args=(number,), daemon=True)
            thread.start()
            self._threads.append(thread)

    def finish(self) -> None:
        """Start nothing new; every message begun gets its answer."""
        self._stop.set()
        for thread in self._threads:
            thread.join(ANSWER_S)
        if not self._failed.empty():
            raise self._failed.get()

    def _send(self, sender: int) -> None:
        try:
            number = 0
            while not self._stop.is_set():
                number += 1
                self._settle(f"{sender}-{number}")
        except BaseException as error:
            self._failed.put(error)

    def _settle(self, message: str) -> None:
        """Post until there is an answer, then once more, as a sender whose ack was lost."""
        deadline = time.monotonic() + ANSWER_S
        got: list[httpx.Response] = []
        while len(got) < 2:
            assert time.monotonic() < deadline, f"{message} got no answer in {ANSWER_S} s"
            self.attempts += 1
            try:
                answer = self.app.post(event(message), key=message)
            except httpx.ConnectError:
                time.sleep(0.01)
                continue
            except httpx.TransportError:
                self.cut_off += 1
                continue
            if answer.status_code >= 500 or answer.status_code == httpx.codes.ACCEPTED:
                time.sleep(0.01)
                continue
            got.append(answer)
        self.answers[message] = got


def soak(app: App, *, kills: int, chance: random.Random) -> Senders:
    """Kill the app that often at random instants of its work; give what the senders heard."""
    senders = Senders(app)
    with Lives(app) as lives:
        for number in range(kills):
            with lives.life():
                if number == 0:
                    senders.start()
                time.sleep(chance.uniform(0, LIFE_S))
            # What the dead one had leased would be due in a minute.
            app.execute("UPDATE webhook_outbox SET run_at = created_at WHERE status = 'due'")
        with lives.life():
            senders.finish()
            wait_for(lambda: app.count(OWED) == 0, seconds=ANSWER_S, what="what is owed outside")
    return senders


def _listens(port: int) -> bool:
    with socket.socket() as probe:
        return probe.connect_ex(("127.0.0.1", port)) == 0
