"""The demo, on a server of its own and on one that runs already."""

import resource
import subprocess
from pathlib import Path

import pytest

from mailonce.edge.cli import spare_server
from mailonce.errors import UnavailableError
from tests.commands import ADMIN_KEY, Shell


def test_a_small_storm_loses_and_doubles_nothing(tmp_path: Path) -> None:
    done = Shell(tmp_path).run("demo", "--events", "100", "--seed", "7", "--json")

    assert done.code == 0, done.err
    assert done.json["effects"] == 100
    assert done.json["lost"] == done.json["doubled"] == 0
    assert done.json["sent"] == sum(
        done.json[name] for name in ("accepted", "duplicates", "refused")
    )
    assert done.json["refused"] > 0
    assert list(tmp_path.iterdir()) == []


def test_a_terminal_shows_progress_a_table_and_one_message(tmp_path: Path) -> None:
    done = Shell(tmp_path).run_on_a_terminal("demo", "--events", "50")

    assert done.code == 0
    for part in ("storm", "asking", "doubled", "total", "one of the messages", "once"):
        assert part in done.out


def test_a_running_server_is_stormed_and_left_without_the_sources(tmp_path: Path) -> None:
    shell = Shell(tmp_path)
    with shell.serving() as url:
        done = shell.run("demo", "--events", "50", "--json", "--url", url, "--key", ADMIN_KEY)
        sources = shell.ok("source", "list", "--json").json["data"]
        verified = shell.run("verify", "--json")

    assert done.code == 0
    assert done.json["effects"] == 50
    assert sources == []
    assert verified.code == 0
    assert sum(verified.json["set_aside"].values()) > 0


def test_a_server_that_refuses_the_key_is_told_in_one_sentence(tmp_path: Path) -> None:
    shell = Shell(tmp_path)
    with shell.serving() as url:
        done = shell.run("demo", "--url", url, "--key", "wrong")

    assert done.code == 1
    assert done.err.startswith("mailonce: this key is not known")


async def test_a_server_that_only_takes_long_is_not_one_that_failed(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(spare_server, "START_TIMEOUT_S", 0.1)
    log = tmp_path / "log"
    log.touch()
    process = subprocess.Popen(["sleep", "60"])
    try:
        with pytest.raises(UnavailableError, match=r"within 0\.1 s; try again"):
            await spare_server._url_of(process, log)
    finally:
        process.kill()
        process.wait()


@pytest.mark.slow
def test_the_whole_demo_takes_less_than_a_minute_of_a_processor(tmp_path: Path) -> None:
    before_s = _used_by_children_s()

    done = Shell(tmp_path).run_cold("demo", "--json")

    assert _used_by_children_s() - before_s < 60
    assert done.code == 0
    assert done.json["effects"] == 2000
    assert done.json["sent"] > 10_000
    assert done.json["lost"] == done.json["doubled"] == 0


def _used_by_children_s() -> float:
    """Seconds of processor time: on a busy machine they do not grow."""
    used = resource.getrusage(resource.RUSAGE_CHILDREN)
    return used.ru_utime + used.ru_stime
