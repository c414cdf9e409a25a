"""A provider of somebody else's, installed as a package, without touching our tree."""

import hmac
import subprocess
import sys
from hashlib import sha256
from pathlib import Path

import pytest

from tests.acceptance.harness import Server, running

EXAMPLE = Path(__file__).parents[2] / "examples" / "acme-provider"


@pytest.mark.slow
def test_an_installed_package_adds_a_provider(tmp_path: Path) -> None:
    site = tmp_path / "site"
    pip = [sys.executable, "-m", "pip", "install", "--quiet", "--disable-pip-version-check"]
    subprocess.run([*pip, "--no-deps", "--target", site, _copy(tmp_path)], check=True)
    settings = '[sources.acme]\nprovider = "acme"\nsecret = "tnt"\n'
    root = Path(__file__).parents[2]
    server = Server(
        tmp_path / "server",
        f"sqlite:///{tmp_path / 'data.db'}",
        settings,
        environment={"PYTHONPATH": f"{site}:{root}"},
        is_cold=True,
    )
    body = (
        b'{"id": "e1", "what": "returned", "mail": "m1", "to": "Ann@example.net", "at": 1794000000}'
    )
    headers = {"X-Acme-Signature": hmac.new(b"tnt", body, sha256).hexdigest()}

    with running(server):
        answers = [server.post(body, source="acme", headers=headers) for _ in range(2)]
        forged = server.post(body, source="acme", headers={"X-Acme-Signature": "00"})
        rows = server.all_events()

        assert [answer.json()["status"] for answer in answers] == ["accepted", "duplicate"]
        assert forged.status_code == 401
        assert [(one["provider"], one["type"], one["bounce"]) for one in rows] == [
            ("acme", "bounced", "hard")
        ]
        assert server.get("/v1/suppressions/ann@example.net")["suppressed"] is True
        listed = server.get("/v1/providers")["data"]
        assert "acme" in {one["name"] for one in listed}


def _copy(tmp_path: Path) -> Path:
    """Build from a copy: setuptools leaves its folders beside what it builds."""
    import shutil

    copy = tmp_path / "package"
    shutil.copytree(EXAMPLE, copy)
    return copy
