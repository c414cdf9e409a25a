"""Start and stop what is measured, and read the CPU time it took."""

import contextlib
import json
import os
import subprocess
import sys
import tempfile
import time
import urllib.request
from collections.abc import Callable, Iterator, Mapping
from dataclasses import asdict, dataclass
from pathlib import Path
from types import MappingProxyType
from typing import Any

import psutil

from benchmarks.blast import Order, Outcome
from benchmarks.requests import SECRET, public_key
from tests.servers import NOBODY, PostgresServer, free_port, start_postgres, wait_for

ROOT = Path(__file__).parent.parent
# Long enough for a machine that is busy with other things: nothing is measured meanwhile.
START_S = 180
# What `mailonce serve` is told; SendGrid's source is for the arrays.
SETTINGS = f"""
[sources.ses]
provider = "sesmetric"
secret = "{SECRET}"
[sources.sg]
provider = "sendgrid"
public_key = "{public_key()}"
"""


@dataclass(frozen=True, slots=True)
class Server:
    """A receiver under test: one process, one port, one path."""

    name: str
    process: "subprocess.Popen[bytes]"
    port: int
    path: str

    def cpu_s(self) -> float:
        """Tell the CPU time it took so far, user and system."""
        times = psutil.Process(self.process.pid).cpu_times()
        return float(times.user + times.system)

    def stop(self) -> None:
        self.process.terminate()
        try:
            self.process.wait(30)
        except subprocess.TimeoutExpired:
            self.process.kill()
            self.process.wait()


class Blaster:
    """The load generator's process."""

    def __init__(self, module: str = "benchmarks.blast") -> None:
        self._process = subprocess.Popen(
            [sys.executable, "-m", module],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            text=True,
            cwd=ROOT,
            env=_environment(),
        )

    def prepare(self, order: Order) -> None:
        """Have the requests of `order` built."""
        self._write(json.dumps(asdict(order)))
        self._read()

    def begin(self) -> None:
        """Have them sent."""
        self._write("go")

    def finish(self) -> Outcome:
        """Wait for the answers."""
        answer: dict[str, Any] = self._read()
        return Outcome(**answer)

    def run(self) -> Outcome:
        self.begin()
        return self.finish()

    def stop(self) -> None:
        self._process.kill()
        self._process.wait()

    def _write(self, line: str) -> None:
        assert self._process.stdin is not None, "stdin is a pipe"
        self._process.stdin.write(line + "\n")
        self._process.stdin.flush()

    def _read(self) -> dict[str, Any]:
        assert self._process.stdout is not None, "stdout is a pipe"
        line = self._process.stdout.readline()
        if not line:
            raise RuntimeError("the load generator ended; see its error above")
        found: dict[str, Any] = json.loads(line)
        return found


@dataclass(slots=True)
class Postgres:
    """PostgreSQL with default durability, which can be killed and started again."""

    server: PostgresServer

    @classmethod
    def start(cls) -> "Postgres":
        # All variants keep their pools open at the same time.
        return cls(
            start_postgres(shared_buffers="256MB", max_wal_size="2GB", max_connections="200")
        )

    def url(self, database: str) -> str:
        return self.server.url(database)

    def cpu_s(self) -> float:
        """Tell the CPU time of all its processes so far, those that ended included."""
        postmaster = psutil.Process(self.server.process.pid)
        times = postmaster.cpu_times()
        total = times.user + times.system + times.children_user + times.children_system
        for child in postmaster.children():
            with contextlib.suppress(psutil.NoSuchProcess):
                one = child.cpu_times()
                total += one.user + one.system
        return float(total)

    def kill(self) -> None:
        """Kill every process of it at once, as a power cut would end them."""
        postmaster = psutil.Process(self.server.process.pid)
        family = [postmaster, *postmaster.children()]
        for one in family:
            with contextlib.suppress(psutil.NoSuchProcess):
                one.kill()
        self.server.process.wait()
        psutil.wait_procs(family, timeout=10)

    def start_again(self, command: list[str]) -> None:
        """Start it on the same files; it recovers from its log."""
        user = NOBODY if os.geteuid() == 0 else None
        with (self.server.folder / "log").open("ab") as log:
            self.server.process = subprocess.Popen(
                command,
                stdout=log,
                stderr=log,
                user=user,
                group=user,
                cwd="/",
                env={"PATH": os.environ["PATH"], "LC_ALL": "C"},
            )

    def command(self) -> list[str]:
        """Tell how it was started."""
        return list(psutil.Process(self.server.process.pid).cmdline())

    def stop(self) -> None:
        self.server.stop()


def start_seed001(database_url: str) -> Server:
    port = free_port()
    url = database_url.replace("postgresql://", "postgresql+asyncpg://")
    variables = {"DATABASE_URL": url, "WEBHOOK_SECRET": SECRET}
    process = start_python(["-m", "benchmarks.seed001", str(port)], variables)
    return _ready(Server("seed 001", process, port, "/webhooks/sesmetric"), "/docs")


def start_bare(database_url: str) -> Server:
    port = free_port()
    process = start_python(["-m", "benchmarks.bare", str(port)], {"DATABASE_URL": database_url})
    return _ready(Server("bare INSERT", process, port, "/"), None)


def start_gate(
    name: str, database_url: str, variables: Mapping[str, str], packages: Path | None
) -> Server:
    """Start one of `benchmarks.gate_peers`, with the packages that it alone needs."""
    port = free_port()
    path = os.pathsep.join([_environment()["PYTHONPATH"], *([str(packages)] if packages else [])])
    process = start_python(
        ["-m", "benchmarks.gate_peers", name, str(port)],
        {"DATABASE_URL": database_url, "PYTHONPATH": path, **variables},
    )
    return _ready(Server(name, process, port, "/hooks"), "/docs")


def start_mailonce(
    name: str,
    folder: Path,
    database_url: str = "",
    *,
    off: bool = False,
    profile: str = "",
    more: str = "",
    role: str = "all",
    admin_key: str = "",
    root: Path = ROOT,
    prepare: Callable[[Path], None] | None = None,
) -> Server:
    """Start `mailonce serve` on a data directory of its own; no URL means SQLite in it.

    `prepare` is given the settings' file before the start. `root` is the checkout to run; one with
    an environment of its own runs in that.
    """
    port = free_port()
    data = folder / name.replace(" ", "-")
    data.mkdir()
    config = data / "mailonce.toml"
    # Processes that share a database share what seals its secrets.
    shared = f'database = "{database_url}"\nmaster_key = "shared by all of a benchmark"\n'
    if admin_key:
        shared += f'admin_key = "{admin_key}"\n'
    config.write_text(f'data_dir = "{data}"\n{shared}{SETTINGS}{more}')
    if prepare is not None:
        prepare(config)
    command = ["-m", "mailonce"]
    if off or profile:
        command = ["-m", "benchmarks.launch", *(["--off"] if off else [])]
        command += ["--profile", profile] if profile else []
    command += ["serve", "--config", str(config), "--port", str(port), "--role", role]
    return _ready(Server(name, start_python(command, root=root), port, "/in/ses"), "/readyz")


@contextlib.contextmanager
def folder() -> Iterator[Path]:
    with tempfile.TemporaryDirectory(prefix="mailonce-bench-") as name:
        yield Path(name)


def fsync_us(where: Path, tries: int = 200) -> float:
    """Time a write of 8 kB with fsync, in microseconds: the median of `tries`."""
    block, taken = bytes(8192), []
    with (where / "fsync").open("wb", buffering=0) as file:
        for _ in range(tries):
            started = time.perf_counter()
            file.write(block)
            os.fdatasync(file.fileno())
            taken.append(time.perf_counter() - started)
    return sorted(taken)[tries // 2] * 1e6


def start_python(
    arguments: list[str],
    variables: Mapping[str, str] = MappingProxyType({}),
    *,
    root: Path = ROOT,
) -> "subprocess.Popen[bytes]":
    """Start a module of ours as a process."""
    own = root / ".venv/bin/python"
    return subprocess.Popen(
        [str(own) if root != ROOT and own.exists() else sys.executable, *arguments],
        cwd=root,
        env={**_environment(root), **variables},
        stderr=None if os.environ.get("BENCH_LOG") else subprocess.DEVNULL,
    )


def _environment(root: Path = ROOT) -> dict[str, str]:
    kept = {name: value for name, value in os.environ.items() if not name.startswith("MAILONCE_")}
    return kept | {"PYTHONPATH": os.pathsep.join([str(root / "src"), str(root)])}


def _ready(server: Server, path: str | None) -> Server:
    def answers() -> bool:
        if server.process.poll() is not None:
            raise RuntimeError(f"{server.name} ended; set BENCH_LOG=1 to see why")
        try:
            if path is None:
                request = urllib.request.Request(f"http://127.0.0.1:{server.port}/", data=b"{}")
            else:
                request = urllib.request.Request(f"http://127.0.0.1:{server.port}{path}")
            with urllib.request.urlopen(request, timeout=2) as answer:
                return int(answer.status) == 200
        except OSError:
            return False

    try:
        wait_for(answers, seconds=START_S, what=f"{server.name} to start")
    except BaseException:
        server.process.kill()
        raise
    return server
