"""/readyz tries what the door does, and says no where the door must say "later"."""

import resource
from pathlib import Path

from tests.acceptance.harness import HTTP, Server, event, running
from tests.servers import wait_for


def test_a_full_disk_is_not_ready(tmp_path: Path) -> None:
    server = Server(tmp_path / "server", f"sqlite:///{tmp_path / 'mailonce.db'}")
    with running(server):
        assert server.post(event(1)).status_code == 200
        # No file may grow beyond what the largest has: the kernel refuses the write as for a disk.
        before = resource.prlimit(server.pid, resource.RLIMIT_FSIZE)
        resource.prlimit(server.pid, resource.RLIMIT_FSIZE, (4096, before[1]))

        assert server.post(event(2)).status_code == 503
        wait_for(lambda: _readyz(server) == 503, what="/readyz to notice")
        assert HTTP.get(f"{server.url}/healthz").status_code == 200

        resource.prlimit(server.pid, resource.RLIMIT_FSIZE, before)
        wait_for(lambda: _readyz(server) == 200, what="/readyz to recover")
        assert server.post(event(2)).json()["status"] == "accepted"


def _readyz(server: Server) -> int:
    return HTTP.get(f"{server.url}/readyz", timeout=10).status_code
