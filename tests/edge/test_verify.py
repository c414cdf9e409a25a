"""`mailonce verify`, beside a server and after it; the rest is in tests/pipeline/test_replay.py."""

import asyncio
import sqlite3
import time
from collections.abc import Iterator
from pathlib import Path

import pytest

from mailonce.testing import make_load, make_simulators, post_all
from tests.commands import Shell

SOURCE = {"sesmetric": "--secret", "mailgun": "--secret", "postmark": "--basic"}


@pytest.fixture
def shell(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Shell]:
    """A folder in which a server has taken a storm, and still runs."""
    # A folder with the name of its test is too deep for a socket, once a namesake has run.
    shell = Shell(tmp_path_factory.mktemp("verify"))
    simulators = make_simulators(SOURCE)
    with shell.serving() as url:
        for name, option in SOURCE.items():
            secret = simulators[name].settings()[option.removeprefix("--")]
            shell.ok("source", "add", name, "--provider", name, option, secret)
        storm = make_load(simulators, events=60, seed=2, now_s=int(time.time()))
        requests = ((f"/in/{shot.provider}", shot.post) for shot in storm.shots)
        asyncio.run(post_all(url, requests, lambda _number, _response: None, connections=8))
        yield shell


def test_an_honest_database_is_proven_beside_its_server(shell: Shell) -> None:
    done = shell.run("verify", "--json", "--seed", "4")

    assert done.code == 0, done.err
    assert done.json["seed"] == 4
    assert done.json["compared"]["facts"] == 60
    assert done.json["set_aside"] == {}
    assert done.json["differences"] == []


def test_a_terminal_shows_progress(shell: Shell) -> None:
    done = shell.run_on_a_terminal("verify")

    assert done.code == 0
    assert "replay" in done.out
    assert "every effect came out the same" in done.out


def test_what_was_tampered_with_is_shown_and_fails(shell: Shell) -> None:
    with sqlite3.connect(shell.data_dir / "mailonce.db") as tampering:
        tampering.execute("UPDATE facts SET count = 9 WHERE message_id = 'mailgun-00000'")
        tampering.execute("UPDATE counts SET count = count + 1 WHERE type = 'delivered'")
        tampering.execute("DELETE FROM suppressions")
    tampering.close()

    done = shell.run("verify")

    assert done.code == 1
    assert "mailgun-00000" in done.out
    assert "9x at" in done.out
    for what in ("fact", "count", "suppression"):
        assert f"\n{what} " in done.out


def test_without_a_database_there_is_one_sentence(tmp_path: Path) -> None:
    done = Shell(tmp_path).run("verify")

    assert done.code == 2
    assert "there is no database" in done.err
