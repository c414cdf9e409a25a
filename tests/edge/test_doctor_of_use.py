"""`mailonce doctor` of an installation in use: whether it runs, and what it was sent."""

import sqlite3
from contextlib import closing
from pathlib import Path

import httpx
import pytest

from tests.commands import Shell
from tests.servers import wait_for


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
    folder = str(shell.data_dir.absolute())
    assert f"no server runs in {folder!r}; only settings and database were checked" in words
    assert "→ start one with `mailonce serve`" in words
    assert stopped.code == 0, (
        "before a start, and beside a restored backup, that is as it should be"
    )


def test_a_source_that_takes_again_what_it_refused_is_told_from_one_that_does_not(
    shell: Shell,
) -> None:
    shell.ok("source", "add", "main", "--provider", "postmark", "--basic", "hook:word")
    with shell.serving() as url:
        httpx.post(f"{url}/in/main", auth=("hook", "old"), json={})
        wait_for(lambda: "main" in shell.ok("refusals").out, what="the refusal to be stored")
    refusing = " ".join(shell.ok("doctor").out.split())
    with closing(sqlite3.connect(shell.data_dir / "mailonce.db")) as database:
        # What the alarms count in the minute after it.
        database.execute("INSERT INTO pulses SELECT source, minute + 1, 7, 0 FROM refusals")
        database.commit()
    mended = " ".join(shell.ok("doctor").out.split())

    assert "wrong password (1); last at " in refusing
    assert "Z, nothing accepted in later minutes" in refusing
    assert "Z, 7 accepted in later minutes" in mended
    assert "→ if it was not corrected since: compare user and password" in mended


def test_where_a_variable_gives_a_setting_the_advice_and_a_reload_name_it(shell: Shell) -> None:
    (shell.folder / "mailonce.toml").write_text(
        '[sources.pm]\nprovider = "postmark"\nbasic = "hook:word"\n'
        '[sources.plain]\nprovider = "postmark"\nbasic = "hook:word"\n'
    )
    variable = "MAILONCE_SOURCES__PM__BASIC"
    shell.env[variable] = "hook:other"
    with shell.serving() as url:
        # A command has the variables of another shell.
        del shell.env[variable]
        for source, password in {"pm": "word", "plain": "wrong"}.items():
            httpx.post(f"{url}/in/{source}", auth=("hook", password), json={})
        wait_for(lambda: len(shell.ok("refusals", "--json").json["data"]) == 2, what="the refusals")
        refused = shell.ok("refusals", "--json").json["data"]
        advised = {one["source_name"]: one["advice"].partition(". ")[0] for one in refused}
        checked = " ".join(shell.run("doctor").out.split())
        reloaded = " ".join(shell.ok("reload").out.split())
        log = (shell.folder / "server.log").read_text()

    by_variable = f"the variable {variable}, which wins over mailonce.toml, then restart the server"
    assert advised["pm"].endswith(by_variable)
    assert by_variable in checked
    assert advised["plain"].endswith(
        "`basic` in [sources.plain] of mailonce.toml, then `mailonce reload`"
    )
    assert (
        f"{variable}: a variable of the server, which wins over another value in the file; "
        "change it and restart the server"
    ) in reloaded
    assert "not read again, as variables are read at a start only: " in reloaded
    assert f"over_file=('{variable}',)" in log
