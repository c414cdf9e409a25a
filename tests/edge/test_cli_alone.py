"""Commands in a folder without a server: they take the database as it stands, not the file."""

import asyncio
import sqlite3
from collections.abc import Iterator

import asyncpg
import pytest

from tests.commands import Shell
from tests.servers import PostgresServer

BEFORE = """
[sources.main]
provider = "mailgun"
secret = "s"

[routes.crm]
url = "https://before.example.com/hooks"
"""
AFTER = """
[sources.main]
provider = "mailgun"
account = "another"
secret = "s"

[sources.more]
provider = "mailgun"
secret = "s"

[routes.crm]
url = "https://after.example.com/hooks"

[routes.more]
url = "https://more.example.com/hooks"

[inboxes]
domains = ["more.example.com"]
"""
OLDER = "UPDATE migrations SET version_num = '0001'"


@pytest.fixture(params=["sqlite", "postgresql"])
def shell(
    request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory
) -> Iterator[Shell]:
    shell = Shell(tmp_path_factory.mktemp("alone"))
    if request.param == "sqlite":
        yield shell
        return
    server: PostgresServer = request.getfixturevalue("postgres")
    _execute(server.url(), "CREATE DATABASE alone")
    shell.env["MAILONCE_DATABASE"] = server.url("alone")
    yield shell
    _execute(server.url(), "DROP DATABASE alone WITH (FORCE)")


def test_a_command_leaves_what_the_file_says_to_the_next_start(shell: Shell) -> None:
    file = shell.folder / "mailonce.toml"
    file.write_text(BEFORE)
    with shell.serving():
        before = _state(shell)
    file.write_text(AFTER)
    shell.env["MAILONCE_ADMIN_KEY"] = "another-admin-key-for-tests"

    shell.ok("stats")
    alone = _state(shell)
    shell.ok("source", "set", "main", "--account", "mine")
    changed = _state(shell)["sources"]
    with shell.serving():
        started = _state(shell)

    assert alone == before
    assert [(one["name"], one["account"]) for one in changed] == [("main", "mine")]
    assert [one["name"] for one in started["sources"]] == ["main", "more"]
    assert started["routes"][0]["url"] == "https://after.example.com/hooks"


@pytest.mark.parametrize("command", ["stats", "undelivered", "verify"])
def test_a_question_to_a_database_without_tables_makes_nothing(shell: Shell, command: str) -> None:
    (shell.folder / "mailonce.toml").write_text(BEFORE)

    asked = shell.run(command)

    assert asked.code == 2
    assert "there is no database" in asked.err or "has no tables" in asked.err
    assert "run `mailonce serve` first" in asked.err
    assert not shell.data_dir.exists()
    assert "none were made yet" in shell.run("doctor").out


def test_what_is_added_before_the_first_start_does_not_bring_in_the_file(shell: Shell) -> None:
    (shell.folder / "mailonce.toml").write_text(BEFORE)

    made = shell.ok("key", "add", "--name", "app")
    shell.ok("inbox", "create")
    alone = _state(shell)

    assert "made a new database" in made.err
    assert [one["name"] for one in alone["keys"]] == ["app"], "the first start makes the admin key"
    assert alone["sources"] == alone["routes"] == []
    with shell.serving():
        assert [one["name"] for one in _state(shell)["sources"]] == ["main"]


@pytest.mark.parametrize("command", ["stats", "verify", "key add"])
def test_tables_of_another_version_are_left_to_the_server(shell: Shell, command: str) -> None:
    shell.ok("key", "add")
    _change(shell, OLDER)

    refused = shell.run(*command.split())

    assert refused.code == 2
    assert "another version of mailonce" in refused.err
    assert "another version of mailonce" in shell.run("doctor").out, "they stay as they are"


def _state(shell: Shell) -> dict[str, list[dict[str, object]]]:
    nouns = ("source", "route", "key")
    return {f"{noun}s": shell.ok(noun, "list", "--json").json["data"] for noun in nouns}


def _change(shell: Shell, statement: str) -> None:
    url = shell.env.get("MAILONCE_DATABASE")
    if url is not None:
        _execute(url, statement)
        return
    file = sqlite3.connect(shell.data_dir / "mailonce.db")
    with file:
        file.execute(statement)
    file.close()


def _execute(url: str, statement: str) -> None:
    async def run() -> None:
        connection = await asyncpg.connect(url)
        try:
            await connection.execute(statement)
        finally:
            await connection.close()

    asyncio.run(run())
