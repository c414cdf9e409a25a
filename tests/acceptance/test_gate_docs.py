"""What docs/gate.md shows, run as printed but for the port."""

import re
import shutil
import subprocess
from pathlib import Path

import pytest

from tests.acceptance.gate_apps import App, running

ROOT = Path(__file__).parents[2]
PAGE = (ROOT / "docs/gate.md").read_text()


def test_the_webhook_that_is_sent_twice_is_answered_twice_and_takes_effect_once(
    tmp_path: Path,
) -> None:
    for tool in ("curl", "openssl"):
        if shutil.which(tool) is None:
            pytest.skip(
                f"{tool} is not installed; `apt-get install {tool}` to run the page's lines"
            )
    block = re.search(r"```sh\n(SECRET=.*?)```", PAGE, re.DOTALL)
    assert block is not None, "the page shows how to send a webhook"
    secret = re.search(r"SECRET=(\S+)", block.group(1))
    assert secret is not None
    environment = {"WEBHOOK_SECRET": f"whsec_{secret.group(1)}"}
    app = App("gate_flask", f"sqlite:///{tmp_path / 'tickets.db'}", tmp_path, environment)
    with running(app):
        script = block.group(1).replace("localhost:8000", f"127.0.0.1:{app.port}")

        done = subprocess.run(
            ["bash", "-euc", script], capture_output=True, text=True, check=True, timeout=60
        )

        assert done.stdout.count("HTTP/1.1 201") == 2
        assert done.stdout.lower().count("idempotent-replayed: true") == 1
        assert app.tickets("m-1") == 1


def test_every_example_is_named_and_every_named_file_is_there() -> None:
    linked = set(re.findall(r"\]\(\.\./(examples/[^)]+)\)", PAGE))

    assert linked == {str(path.relative_to(ROOT)) for path in ROOT.glob("examples/gate_*/app.py")}
