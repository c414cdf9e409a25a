"""/readyz tries what the door does, and says no where the door must say "later"."""

import resource
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import psutil
import pytest

from tests.acceptance.harness import ADMIN_KEY, HTTP, Server, event, running
from tests.commands import Shell
from tests.servers import start_postgres, wait_for


def test_a_full_disk_is_not_ready(tmp_path: Path) -> None:
    server = Server(tmp_path / "server", f"sqlite:///{tmp_path / 'mailonce.db'}")
    with running(server):
        assert server.post(event(1)).status_code == 200
        # No file may grow beyond what the largest has: the kernel refuses the write as for a disk.
        before = resource.prlimit(server.pid, resource.RLIMIT_FSIZE)
        resource.prlimit(server.pid, resource.RLIMIT_FSIZE, (4096, before[1]))

        assert server.post(event(2)).status_code == 503
        wait_for(lambda: _readyz(server) == 503, what="/readyz to notice")
        done = Shell(tmp_path).run("doctor", "--url", server.url, "--key", ADMIN_KEY, "--json")
        assert done.code == 1
        [ready] = [one for one in done.json["data"] if one["check"] == "readiness"]
        refused = HTTP.get(f"{server.url}/readyz", timeout=60).json()["detail"]
        assert (ready["level"], ready["detail"].endswith(refused)) == ("fail", True), ready
        assert HTTP.get(f"{server.url}/healthz").status_code == 200

        resource.prlimit(server.pid, resource.RLIMIT_FSIZE, before)
        wait_for(lambda: _readyz(server) == 200, what="/readyz to recover")
        assert server.post(event(2)).json()["status"] == "accepted"

    outage, end = (
        next(line for line in server.log.splitlines() if name in line)
        for name in ("batch_failed", "database_available")
    )
    assert "the disk refuses to write (SQLITE_IOERR_WRITE)" in outage
    assert "where=record" in end


def _readyz(server: Server) -> int:
    return HTTP.get(f"{server.url}/readyz", timeout=60).status_code


@pytest.mark.long
def test_a_database_that_froze_keeps_nobody_from_stopping(tmp_path: Path) -> None:
    postgres = start_postgres()
    server = Server(tmp_path / "server", postgres.url())
    frozen = psutil.Process(postgres.process.pid)
    try:
        server.start()
        assert server.post(event(1)).status_code == 200
        for process in (frozen, *frozen.children()):
            process.suspend()
        wait_for(lambda: _readyz(server) == 503, what="/readyz to notice")
        callers = ThreadPoolExecutor(60)
        waiting = [callers.submit(server.post, event(number)) for number in range(2, 62)]
        wait_for(lambda: any(one.running() for one in waiting), what="callers to wait")

        # Its deadlines are: one for the batch, one to connect, and those of the worker.
        assert server.stop(seconds=50) == 0
    finally:
        for process in (frozen, *frozen.children()):
            process.resume()
        postgres.stop()
