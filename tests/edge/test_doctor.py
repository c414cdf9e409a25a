"""`mailonce doctor`, with real faults in real installations."""

import sqlite3
from collections import Counter
from contextlib import closing
from pathlib import Path

import httpx
import pytest
from rich.console import Console

from mailonce.core.health.checkup import Finding, Level
from mailonce.edge.cli.doctor import lay_out
from tests.commands import ADMIN_KEY, Done, Shell
from tests.servers import wait_for

FILE = '[sources.main]\nprovider = "mailgun"\nsecret = "s"\n'


@pytest.fixture
def shell(tmp_path: Path) -> Shell:
    return Shell(tmp_path)


def levels(done: Done) -> dict[str, str]:
    return {one["check"]: one["level"] for one in done.json["data"]}


def test_a_fresh_folder_is_named_with_a_warning_and_stays_empty(shell: Shell) -> None:
    done = shell.run("doctor", "--json")
    said = shell.run("doctor").out

    place = f"sqlite:///{shell.data_dir.resolve()}/mailonce.db"
    assert (done.code, levels(done)["tables"]) == (0, "warn")
    assert f"none were made yet in {place}" in done.out
    assert "all is well" not in said
    assert not shell.data_dir.exists()


def test_a_file_that_the_next_start_refuses_is_named_and_the_rest_checked(shell: Shell) -> None:
    file = shell.folder / "mailonce.toml"
    too_short = '[sources.main]\nprovider = "sendgrid"\nunsigned = true\nbasic = "hook:word"\n'
    file.write_text(too_short)
    with shell.serving():
        file.write_text("window_days = 2\n" + too_short)
        running = shell.run("doctor", "--json")
        reloaded = shell.run("reload")
        # The server may have a variable which this command was run without.
        file.write_text('[sources.main]\nprovider = "mailgun"\n')
        without = shell.run("doctor", "--json")
    file.write_text("window_days = 2\n" + too_short)
    stopped = shell.run("doctor", "--json")
    started = shell.run("serve", "--port", "0")

    sentence = "`window_days` = 2 is shorter than SendGrid retries inbound mail (72 h); raise it"
    for done in (running, stopped):
        assert (done.code, levels(done)["settings"]) == (1, "fail")
        assert sentence in done.out
        assert levels(done)["database"] == levels(done)["synchronous"] == "ok"
    assert reloaded.code == started.code == 2
    assert sentence in reloaded.err
    assert sentence in started.err
    assert levels(without)["settings"] == "warn"


REFUSED = {
    "loopback": 'url = "http://127.0.0.1:9/x"',
    "private": 'url = "https://10.0.0.7/x"',
    "ftp": 'url = "ftp://example.com/x"',
    "secret": 'url = "https://example.com/x"\nsecret = "abc"',
    "source": 'url = "https://example.com/x"\nsources = ["nope"]',
}


def test_doctor_says_of_each_route_that_a_start_refuses_what_the_start_says(
    shell: Shell, subtests: pytest.Subtests
) -> None:
    file = shell.folder / "mailonce.toml"
    for name, record in REFUSED.items():
        with subtests.test(name):
            file.write_text(f"[routes.{name}]\n{record}\n")
            done = shell.run("doctor", "--json")
            started = shell.run("serve", "--port", "0", "--smtp-port", "0")

            [found] = [one for one in done.json["data"] if one["check"] == "settings"]
            assert (done.code, started.code, found["level"]) == (1, 2, "fail")
            assert started.err.endswith(f"mailonce: {found['detail']}\n"), started.err
    file.write_text("".join(f"[routes.{name}]\n{record}\n" for name, record in REFUSED.items()))
    all_of_them = shell.run("doctor", "--json").json["data"]
    file.unlink()
    shell.ok("source", "add", "nope", "--provider", "mailgun", "--secret", "s")
    file.write_text(f"[routes.source]\n{REFUSED['source']}\n")
    with_source = levels(shell.run("doctor", "--json"))
    with shell.serving():
        file.write_text(file.read_text().replace("nope", "other"))
        running = shell.run("doctor", "--json")

    assert [one["check"] for one in all_of_them].count("settings") == len(REFUSED)
    assert with_source["settings"] == "ok"
    assert (running.code, levels(running)["settings"]) == (1, "fail")
    assert "there is no source 'other'" in running.out


def test_a_name_that_another_record_has_is_found_before_the_start(shell: Shell) -> None:
    shell.ok("source", "add", "main", "--provider", "mailgun", "--secret", "s")
    (shell.folder / "mailonce.toml").write_text(FILE)

    done = shell.run("doctor", "--json")
    started = shell.run("serve", "--port", "0", "--smtp-port", "0")

    [found] = [one for one in done.json["data"] if one["check"] == "settings"]
    assert (done.code, started.code, found["level"]) == (1, 1, "fail")
    assert started.err.endswith(f"mailonce: {found['detail']}\n")


def test_a_misspelt_variable_is_named_by_doctor_and_by_a_start(shell: Shell) -> None:
    shell.env["MAILONCE_PROT"] = "8200"
    with shell.serving():
        log = (shell.folder / "server.log").read_text()

    done = shell.run("doctor", "--json")

    assert levels(done)["variables"] == "warn"
    for words in (done.out, log):
        assert "did you mean MAILONCE_PORT?" in words
    assert "variable_unknown" in log


def test_records_of_equal_names_are_told_apart_by_their_workspaces(shell: Shell) -> None:
    shell.ok("source", "add", "main", "--provider", "mailgun", "--secret", "s")
    shell.ok("workspace", "add", "acme")
    shell.ok(
        "source", "add", "main", "--provider", "mailgun", "--secret", "s", "--workspace", "acme"
    )
    for given in ((), ("--workspace", "acme")):
        shell.ok("source", "off", "main", *given)

    done = shell.run("doctor", "--json")

    advice = {one["check"]: one["advice"] for one in done.json["data"]}
    assert "`mailonce source on main`" in advice["source main"]
    named = advice["source main (workspace acme)"]
    assert "`mailonce source on main --workspace acme`" in named
    shell.ok("source", "on", "main", "--workspace", "acme")


def test_the_sources_of_the_file_are_counted_before_the_first_start(shell: Shell) -> None:
    (shell.folder / "mailonce.toml").write_text(FILE)

    done = shell.run("doctor")

    assert done.code == 0
    assert "1 in the settings file" in done.out


def test_a_server_with_another_database_or_master_key_is_not_taken_for_ours(shell: Shell) -> None:
    with shell.serving():
        other = shell.run("doctor", "--json", env={"MAILONCE_DATABASE": "sqlite:///other.db"})
        keys = {"new": '["new"]', "both": f'["new", "{_key_of(shell)}"]'}
        given = {
            name: shell.run("doctor", "--json", env={"MAILONCE_MASTER_KEY": text})
            for name, text in keys.items()
        }
        same = shell.run("doctor", "--json")

    assert (other.code, levels(other)["server's database"]) == (1, "fail")
    assert "other.db, which was not checked" in other.out
    assert (given["new"].code, levels(given["new"])["server's master key"]) == (1, "fail")
    assert "server's master key" not in levels(given["both"])
    assert levels(given["both"])["master key length"] == "warn"
    assert "master key length" not in levels(same), "the one that was made is long enough"
    assert not {check for check in levels(same) if check.startswith("server's")}


def test_tables_of_another_version_are_left_alone(shell: Shell) -> None:
    shell.ok("source", "add", "main", "--provider", "mailgun", "--secret", "s")
    with closing(sqlite3.connect(shell.data_dir / "mailonce.db")) as database:
        database.execute("UPDATE migrations SET version_num = 'm0014_agents_inboxes'")
        database.commit()

    done = shell.run("doctor", "--json")

    assert (done.code, levels(done)["tables"]) == (0, "warn")
    assert not (shell.data_dir / "mailonce.before-migration").exists()


def test_a_server_answers_for_the_settings_in_force(shell: Shell) -> None:
    with shell.serving() as url:
        shell.ok("source", "add", "main", "--provider", "mailgun", "--secret", "s")

        here = shell.run("doctor", "--json")
        there = shell.run("doctor", "--json", "--url", url, "--key", ADMIN_KEY)

    assert here.code == there.code == 0
    assert levels(here)["synchronous"] == levels(there)["journal_mode"] == "ok"
    assert levels(here)["master key"] == "warn"
    assert "the rest is as it sees it" in here.out
    assert "master key" not in levels(there)


def test_what_a_source_of_the_file_refuses_is_mended_in_the_file(shell: Shell) -> None:
    record = '[sources.main]\nprovider = "postmark"\nbasic = "hook:word"\n'
    (shell.folder / "mailonce.toml").write_text(record)
    with shell.serving() as url:
        httpx.post(f"{url}/in/main", auth=("hook", "old"), json={})
        wait_for(lambda: "main" in shell.ok("refusals").out, what="the refusal to be stored")
        [row] = shell.ok("refusals", "--json").json["data"]
        in_file = shell.run("doctor", "--json").out
        (shell.folder / "mailonce.toml").write_text("")
        shell.ok("reload")
        [taken_out] = shell.ok("refusals", "--json").json["data"]

    assert "`basic` in [sources.main] of mailonce.toml" in row["advice"]
    assert "`basic` in [sources.main] of mailonce.toml" in in_file
    assert "`mailonce source set main --basic -`" in taken_out["advice"]


def test_a_source_that_refuses_and_a_wrong_url_are_named_with_what_to_do(shell: Shell) -> None:
    shell.ok("source", "add", "main", "--provider", "postmark", "--basic", "hook:word")
    with shell.serving() as url:
        wrong = [httpx.post(f"{url}/in/main", auth=("hook", "old"), json={}) for _ in range(12)]
        httpx.post(f"{url}/in/mian", json={}, headers={"user-agent": "Postmark"})
        log = shell.folder / "server.log"
        wait_for(lambda: "alarm_raised" in log.read_text(), what="the alarm")
        wait_for(lambda: "mian" in shell.ok("refusals").out, what="the refusals to be stored")
        shown = " ".join(shell.ok("refusals").out.split())
        rows = shell.ok("refusals", "--json").json["data"]
        done = shell.run("doctor", "--json")
    later = shell.run("doctor")
    shell.ok("source", "remove", "main", "--yes")
    removed = shell.run("doctor")
    shell.ok("source", "add", "mian", "--provider", "postmark", "--basic", "hook:word")
    put_back = shell.run("doctor", "--json").json["data"]
    listed = shell.ok("refusals", "--json").json["data"]

    assert {answer.status_code for answer in wrong} == {401}
    counts: Counter[tuple[str, int]] = Counter()
    for row in rows:
        counts[row["source_name"] or row["source"], row["status"]] += row["count"]
    assert counts == {("main", 401): 12, ("(unknown) mian", 404): 1}
    assert "wrong password: compare user and password" in shown
    assert "correct the webhook's URL at the provider" in shown
    assert "unknown_source" in log.read_text()
    said = [(one["check"], one["level"]) for one in done.json["data"] if one["level"] != "ok"]
    assert ("source main", "fail") in said, "the alarm"
    assert ("source main", "warn") in said, "what was refused"
    assert ("source (unknown) mian", "warn") in said
    assert done.code == 1
    assert "12 refused in the last hour: wrong password (12)" in later.out
    assert "mailonce source set main --basic -" in " ".join(later.out.split())
    assert "(unknown) mian" in removed.out
    assert "wrong password" not in removed.out, "nothing can be done about a source that is gone"
    assert all("(unknown)" not in one["check"] for one in put_back)
    [then] = [one for one in put_back if one["check"] == "source mian"]
    assert then["detail"].startswith("1 refused in the last hour: no source had this name then (1)")
    assert then["advice"].startswith("there is nothing to correct: the source is there now")
    [mian] = [one for one in listed if one["status"] == 404]
    assert mian["advice"].startswith("there is nothing to correct: the source is there now")


def test_secrets_that_do_not_open_are_found(shell: Shell) -> None:
    shell.ok("source", "add", "main", "--provider", "mailgun", "--secret", "s")

    done = shell.run("doctor", "--json", env={"MAILONCE_MASTER_KEY": "another"})

    assert done.code == 1
    assert levels(done)["source main"] == "fail"
    assert levels(done)["master key"] == "ok"


def test_a_missing_master_key_is_found_and_no_other_one_is_made(shell: Shell) -> None:
    shell.ok("source", "add", "main", "--provider", "mailgun", "--secret", "s")
    key = shell.data_dir / "master.key"
    key.rename(shell.folder / "kept.key")

    done = shell.run("doctor", "--json")
    refused = shell.run("source", "list")

    assert levels(done)["source main"] == levels(done)["master key"] == "fail"
    assert "there is no master.key in 'mailonce-data'" in done.out
    assert refused.code == 2
    assert "another master key" in refused.err
    assert not key.exists()
    (shell.folder / "kept.key").rename(key)
    assert "main" in shell.ok("source", "list").out


def test_a_process_that_finds_no_database_makes_no_master_key(shell: Shell) -> None:
    shell.env["MAILONCE_DATABASE"] = "postgresql://mailonce@127.0.0.1:1/mailonce"

    refused = [shell.run("source", "list"), shell.run("doctor")]

    assert [one.code for one in refused] == [3, 1]
    assert not (shell.data_dir / "master.key").exists()


def test_a_source_without_proof_is_warned_of(shell: Shell) -> None:
    shell.ok("source", "add", "open", "--provider", "postmark", "--unproven")

    done = shell.run("doctor", "--json")

    assert done.code == 0
    assert levels(done)["source open"] == "warn"


def test_a_window_that_became_too_short_is_found(shell: Shell) -> None:
    shell.ok("source", "add", "main", "--provider", "sesmetric", "--secret", "s")

    done = shell.run("doctor", "--json", env={"MAILONCE_WINDOW_DAYS": "1"})

    assert done.code == 1
    assert levels(done)["window"] == "fail"


@pytest.mark.parametrize(
    ("env", "check"),
    [
        ({"MAILONCE_PORT": "many"}, "settings"),
        ({"MAILONCE_HOST": "0.0.0.0"}, "listening"),
        ({"MAILONCE_DATABASE": "postgresql://nobody@127.0.0.1:9/none"}, "database"),
    ],
)
def test_what_keeps_a_server_from_starting_is_found(
    shell: Shell, env: dict[str, str], check: str
) -> None:
    done = shell.run("doctor", "--json", env=env)

    assert done.code == 1
    assert levels(done)[check] == "fail"


def test_a_file_that_is_no_database_is_found(shell: Shell) -> None:
    shell.data_dir.mkdir()
    (shell.data_dir / "mailonce.db").write_bytes(b"no database at all, but long enough" * 40)

    done = shell.run("doctor", "--json")

    assert done.code == 1
    assert levels(done)["database"] == "fail"
    with pytest.raises(sqlite3.DatabaseError):
        sqlite3.connect(shell.data_dir / "mailonce.db").execute("SELECT * FROM sources")


def _key_of(shell: Shell) -> str:
    return (shell.data_dir / "master.key").read_text().strip()


def test_a_finding_stands_below_a_long_name_and_leaves_a_command_whole() -> None:
    advice = "mailonce refusals --source postmark-transactional-eu"
    findings = [
        Finding("settings", Level.OK, "can be read"),
        Finding("source postmark-transactional-eu", Level.WARN, "refuses what it gets", advice),
        Finding("database", Level.FAIL, "does not answer " * 10),
    ]

    lines = [line.plain.rstrip() for line in lay_out(findings, Console(width=80))]

    assert lines[:4] == [
        "ok    settings  can be read",
        "warn  source postmark-transactional-eu",
        "      refuses what it gets",
        f"      → {advice}",
    ]
    assert max(map(len, lines)) <= 80
    assert lines[5].startswith(" " * len("fail  database  ") + "does")
