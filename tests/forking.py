"""Load mailonce once and run it in forks: it is there in a fifth of the time, all else is real.

`python -m tests.forking` reads one question per line and answers each with one line:
what to start is answered with a process id, a process id with its exit code, or null.
"""

import atexit
import functools
import gc
import importlib
import itertools
import json
import math
import os
import runpy
import signal
import subprocess
import sys
import threading
import time
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import Any

import typer
import typer.main

import mailonce

# The server runs the code that the tests import, wherever that lies, and can import the tests.
PYTHONPATH = os.pathsep.join(
    [str(Path(mailonce.__file__).parents[1]), str(Path(__file__).parents[1])]
)
# What servers and commands import, sooner or later.
SERVER = (
    "mailonce.edge.cli.main",
    "mailonce.edge.cli.serve",
    "mailonce.edge.cli.demo",
    "mailonce.edge.cli.verify",
    "uvloop",
    "alembic.config",
)
PARENTS = 2


@dataclass(frozen=True)
class Command:
    """What follows `python` on the command line, and where it runs."""

    arguments: Sequence[str]
    folder: str
    log: str
    environment: Mapping[str, str]
    # Where standard error goes, if not to the log as well.
    errors: str | None = None


@dataclass
class Parent:
    """A process that has imported the server, and whose forks are servers."""

    process: "subprocess.Popen[str]"
    _lock: threading.Lock = field(default_factory=threading.Lock)

    def ask(self, question: Any) -> Any:
        assert self.process.stdin is not None
        assert self.process.stdout is not None
        with self._lock:
            print(json.dumps(question), file=self.process.stdin, flush=True)
            answer = self.process.stdout.readline()
        assert answer, "no server can be forked; standard error says why"
        return json.loads(answer)

    def stop(self) -> None:
        """It ends when nobody can ask any more, and takes its forks along."""
        self.process.communicate()


@dataclass
class Fork:
    """A started server, with the part of `Popen` that tests use."""

    parent: Parent
    pid: int
    returncode: int | None = None

    def poll(self) -> int | None:
        # The parent leaves its dead unburied until somebody asks, so a pid is never another's.
        if self.returncode is None:
            self.returncode = self.parent.ask(self.pid)
        return self.returncode

    def send_signal(self, sent: signal.Signals) -> None:
        if self.poll() is None:
            os.kill(self.pid, sent)

    def wait(self, timeout: float = math.inf) -> int:
        deadline = time.monotonic() + timeout
        while (code := self.poll()) is None:
            if time.monotonic() > deadline:
                raise subprocess.TimeoutExpired(f"pid {self.pid}", timeout)
            time.sleep(0.005)
        return code


def start(command: Command) -> Fork:
    """Run `python ARGUMENTS` in a fork."""
    parent = next(_parents())
    return Fork(parent, parent.ask(asdict(command)))


@functools.cache
def _parents() -> Iterator[Parent]:
    """Give them in turn: two doors, or a server and its next life, differ in their hash seeds."""
    return itertools.cycle([_start_parent() for _ in range(PARENTS)])


def _start_parent() -> Parent:
    parent = Parent(
        subprocess.Popen(
            [sys.executable, "-m", "tests.forking"],
            env={**os.environ, "PYTHONPATH": PYTHONPATH},
            # An interrupt is for the tests; what they started ends with them.
            start_new_session=True,
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            text=True,
        )
    )
    atexit.register(parent.stop)
    return parent


def _answer_questions() -> Command:
    """Answer until the end. Return in a fork alone, with what it is to run."""
    children: set[int] = set()
    for line in sys.stdin:
        order = json.loads(line)
        if isinstance(order, int):
            ended, status = os.waitpid(order, os.WNOHANG)
            children.discard(ended)
            print(json.dumps(os.waitstatus_to_exitcode(status) if ended else None), flush=True)
            continue
        child = os.fork()
        if child == 0:
            return Command(**order)
        children.add(child)
        print(child, flush=True)
    for child in children:
        os.kill(child, signal.SIGKILL)
    sys.exit()


def _run(command: Command) -> None:
    """Become what `python ARGUMENTS` would be."""
    nothing = os.open(os.devnull, os.O_RDONLY)
    log, errors = (
        os.open(path, os.O_WRONLY | os.O_APPEND | os.O_CREAT)
        for path in (command.log, command.errors or command.log)
    )
    for opened, number in ((nothing, 0), (log, 1), (errors, 2)):
        os.dup2(opened, number)
        os.close(opened)
    os.chdir(command.folder)
    os.environ.clear()
    os.environ.update(command.environment)
    first, *rest = command.arguments
    try:
        if first == "-m":
            sys.path[0] = command.folder
            sys.argv = rest
            runpy.run_module(rest[0], run_name="__main__", alter_sys=True)
        else:
            sys.path[0] = str(Path(first).parent)
            sys.argv = [first, *rest]
            runpy.run_path(first, run_name="__main__")
    except SystemExit as end:
        if not isinstance(end.code, int | None):
            raise
        _end(end.code or 0)
    else:
        _end(0)


def _end(code: int) -> None:
    """End as Python does, but without taking apart all that the parent has imported.

    Each page that is touched on the way would be copied first, which takes longer than the start.
    """
    threading._shutdown()  # type: ignore[attr-defined]
    atexit._run_exitfuncs()
    sys.stdout.flush()
    sys.stderr.flush()
    os._exit(code)


def _build_commands() -> None:
    """Put the commands together once: Typer does it for each call, all eighty of them."""
    main = importlib.import_module("mailonce.edge.cli.main")
    build = typer.main.get_command
    built = build(main.app)
    typer.main.get_command = lambda typer_instance: (
        built if typer_instance is main.app else build(typer_instance)
    )


if __name__ == "__main__":
    for name in SERVER:
        importlib.import_module(name)
    _build_commands()
    assert threading.active_count() == 1, "a fork has one thread; the others would be missing"
    gc.freeze()
    _run(_answer_questions())
