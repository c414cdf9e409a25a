"""`mailonce doctor` of installations on PostgreSQL, with real faults."""

import asyncio
from collections.abc import Iterator
from pathlib import Path

import asyncpg
import pytest

from tests.commands import Done, Shell
from tests.servers import PostgresServer, start_postgres_in_memory, wait_for

FILE = '[sources.main]\nprovider = "mailgun"\nsecret = "s"\n'
DROP_TOMORROW = (
    "DO $$ DECLARE d text := (extract(epoch FROM now())::bigint / 86400 + 1)::text;"
    " BEGIN EXECUTE 'DROP TABLE events_' || d; END $$"
)


@pytest.fixture
def on_postgres(tmp_path: Path, postgres: PostgresServer) -> Iterator[Shell]:
    shell = Shell(tmp_path)
    _execute(postgres, "postgres", "CREATE DATABASE doctor")
    shell.env["MAILONCE_DATABASE"] = postgres.url("doctor")
    yield shell
    _execute(postgres, "postgres", "DROP DATABASE doctor WITH (FORCE)")


def levels(done: Done) -> dict[str, str]:
    return {one["check"]: one["level"] for one in done.json["data"]}


def test_a_postgresql_that_could_lose_a_commit_is_found(on_postgres: Shell) -> None:
    on_postgres.ok("source", "add", "main", "--provider", "mailgun", "--secret", "s")

    done = on_postgres.run("doctor", "--json")

    # The tests' own server runs with fsync = off, and its master key is a file of this machine.
    assert done.code == 1
    failed = [check for check, level in levels(done).items() if level != "ok"]
    assert failed == ["master key", "server", "fsync"]


def test_a_server_of_another_folder_is_known_by_the_database(on_postgres: Shell) -> None:
    with on_postgres.serving():
        elsewhere = ("doctor", "--json", "--data-dir", "elsewhere")
        wait_for(lambda: levels(on_postgres.run(*elsewhere))["server"] == "ok", what="the worker")


def test_an_empty_postgresql_stays_empty(on_postgres: Shell, postgres: PostgresServer) -> None:
    (on_postgres.folder / "mailonce.toml").write_text(FILE)

    done = on_postgres.run("doctor", "--json")

    assert (levels(done)["tables"], levels(done)["master key"]) == ("warn", "ok")
    assert levels(done)["fsync"] == "fail", "what can be seen without tables is seen"
    assert "1 in the settings file" in done.out
    assert not on_postgres.data_dir.exists()
    _execute(
        postgres,
        "doctor",
        "DO $$BEGIN ASSERT NOT EXISTS (SELECT FROM pg_tables WHERE schemaname = 'public'); END$$",
    )


def test_a_role_that_may_not_make_tables_is_found(
    on_postgres: Shell, postgres: PostgresServer
) -> None:
    _execute(postgres, "doctor", "CREATE ROLE guest LOGIN")
    _execute(postgres, "doctor", "REVOKE CREATE ON SCHEMA public FROM PUBLIC")
    as_guest = {"MAILONCE_DATABASE": postgres.url("doctor").replace("://postgres", "://guest")}
    try:
        empty = on_postgres.run("doctor", "--json", env=as_guest)
        started = on_postgres.run("serve", "--port", "0", "--smtp-port", "0", env=as_guest)
        on_postgres.ok("source", "add", "main", "--provider", "mailgun", "--secret", "s")
        _execute(postgres, "doctor", "GRANT SELECT ON ALL TABLES IN SCHEMA public TO guest")
        _execute(postgres, "doctor", "UPDATE migrations SET version_num = '0014'")
        older = on_postgres.run("doctor", "--json", env=as_guest)
        by_owner = on_postgres.run("doctor", "--json")
    finally:
        _execute(postgres, "doctor", "DROP OWNED BY guest; DROP ROLE guest")

    for done in (empty, older):
        assert (done.code, levels(done)["tables"]) == (1, "fail")
    [found] = [one["detail"] for one in empty.json["data"] if one["check"] == "tables"]
    assert (started.code, started.err) == (2, f"mailonce: {found}\n")
    assert "does not let 'guest' make tables" in found
    assert levels(by_owner)["tables"] == "warn"


def test_days_that_a_start_would_make_are_no_fault(
    on_postgres: Shell, postgres: PostgresServer
) -> None:
    on_postgres.ok("source", "add", "main", "--provider", "mailgun", "--secret", "s")
    _execute(postgres, "doctor", DROP_TOMORROW)

    done = on_postgres.run("doctor", "--json")

    assert levels(done)["partitions"] == "ok"
    assert "a start makes those" in done.out


def test_a_missing_partition_of_tomorrow_is_found(
    on_postgres: Shell, postgres: PostgresServer
) -> None:
    with on_postgres.serving():
        # The first round of maintenance would make the partition again.
        log = on_postgres.folder / "server.log"
        wait_for(lambda: "pruned" in log.read_text(), what="the first round of maintenance")
        _execute(postgres, "doctor", DROP_TOMORROW)

        done = on_postgres.run("doctor", "--json")
        on_postgres.ok("prune")
        after = on_postgres.run("doctor", "--json")

    assert levels(done)["partitions"] == "fail"
    assert levels(after)["partitions"] == "ok"


def test_a_server_whose_postgresql_is_read_only_is_not_ready(
    on_postgres: Shell, postgres: PostgresServer
) -> None:
    with on_postgres.serving():
        before = on_postgres.run("doctor", "--json")
        _execute(postgres, "doctor", "ALTER DATABASE doctor SET default_transaction_read_only = on")
        _execute(
            postgres,
            "postgres",
            "SELECT pg_terminate_backend(pid) FROM pg_stat_activity WHERE datname = 'doctor'",
        )
        wait_for(
            lambda: levels(on_postgres.run("doctor", "--json"))["readiness"] == "fail",
            what="doctor to say that the server cannot write",
        )
        after = on_postgres.run("doctor", "--json")

    assert levels(before)["readiness"] == "ok"
    assert after.code == 1


def test_each_check_is_reported_while_postgresql_is_down(tmp_path: Path) -> None:
    postgres = start_postgres_in_memory()
    shell = Shell(tmp_path, {"MAILONCE_DATABASE": postgres.url()})
    try:
        with shell.serving():
            before = shell.run("doctor", "--json")
            postgres.halt()
            after = shell.run("doctor", "--json")
            shown = shell.run("doctor")
            postgres.start_again()
    finally:
        postgres.stop()

    assert after.code == shown.code == 1
    assert levels(before).keys() - levels(after).keys() == {"database log"}
    assert levels(after)["settings"] == levels(after)["server"] == "ok"
    assert levels(after)["readiness"] == levels(after)["database"] == "fail"
    unchecked = {one["check"] for one in after.json["data"] if "was not checked" in one["detail"]}
    assert {"fsync", "clock", "partitions", "window", "sources", "open work"} <= unchecked
    assert all(levels(after)[check] == "warn" for check in unchecked)
    assert "cannot be reached" in shown.out


def _execute(server: PostgresServer, database: str, statement: str) -> None:
    async def run() -> None:
        connection = await asyncpg.connect(server.url(database))
        try:
            await connection.execute(statement)
        finally:
            await connection.close()

    asyncio.run(run())
