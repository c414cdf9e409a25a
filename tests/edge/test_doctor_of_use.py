"""`mailonce doctor` of an installation in use: whether it runs, and what it was sent."""

from pathlib import Path

import pytest

from tests.commands import Shell


@pytest.fixture
def shell(tmp_path: Path) -> Shell:
    return Shell(tmp_path)


def test_a_server_that_does_not_run_is_said(shell: Shell) -> None:
    with shell.serving():
        running = shell.ok("doctor").out
    stopped = shell.run("doctor")

    assert "no server runs" not in running
    assert "warn  server" in stopped.out
    words = " ".join(stopped.out.split())
    assert "no server runs in this folder; only settings and database were checked" in words
    assert "→ start one with `mailonce serve`" in words
    assert stopped.code == 0, (
        "before a start, and beside a restored backup, that is as it should be"
    )
