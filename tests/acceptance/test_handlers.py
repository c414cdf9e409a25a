"""`serve --app`: whenever the process dies, a handler's rows and "done" stand together, once."""

import signal
import time
from pathlib import Path

import pytest

from tests.acceptance import sql
from tests.acceptance.harness import Server, event, running
from tests.commands import Shell
from tests.servers import wait_for

WORKER = {"MAILONCE_WORKER__LEASE_S": "1", "MAILONCE_WORKER__HOLD_S": "1"}
STATES = "SELECT state, count(*) FROM deliveries GROUP BY state"
DONE, DEAD = 2, 3


def make_server(database_url: str, folder: Path, who: str = "one") -> Server:
    environment = {
        "MAILONCE_APP": "tests.acceptance.handling_app:handlers",
        "MAILONCE_MASTER_KEY": "shared by all servers",
        "HANDLING_FOLDER": str(folder),
        "HANDLING_WHO": who,
        **WORKER,
    }
    return Server(folder / who, database_url, environment=environment)


def post(server: Server, message: str, type_: str = "delivery") -> None:
    body = event(message, type_, message_id=message)
    assert server.post(body).json()["status"] == "accepted"


def notes(url: str) -> list[tuple[str, str]]:
    return [(row[0], row[1]) for row in sql.query(url, "SELECT message, who FROM notes")]


def states(url: str) -> dict[int, int]:
    return {row[0]: row[1] for row in sql.query(url, STATES)}


@pytest.mark.slow
def test_a_server_runs_handlers_over_a_crash_a_failure_and_a_hopeless_case(tmp_path: Path) -> None:
    """On SQLite; the next one has servers on PostgreSQL, and each crash runs on both elsewhere."""
    database_url = f"sqlite:///{tmp_path / 'data.db'}"
    with running(make_server(database_url, tmp_path)) as server:
        sql.query(database_url, "CREATE TABLE notes (message text, who text)")
        post(server, "kill-inside-1")
        assert server.process is not None
        assert server.process.wait(60) == -signal.SIGKILL
        assert notes(database_url) == []
        server.start()
        for message in ("flaky-1", "hopeless-1", "plain-1"):
            post(server, message)
        post(server, "told-1", "open")

        ended = {DONE: 4, DEAD: 1}
        wait_for(lambda: states(database_url) == ended, what="all to end")

        assert sorted(notes(database_url)) == [
            ("flaky-1", "one"),
            ("kill-inside-1", "one"),
            ("plain-1", "one"),
        ]
        letters = sql.query(database_url, "SELECT reason, last_error FROM dead_letters")
        assert letters == [("permanent", "Permanent: never")]
        assert len((tmp_path / "told").read_text().split()) == 1
        made = {one["name"]: one["kind"] for one in server.get("/v1/routes")["data"]}
        assert made == {"notes": "handler", "tell": "handler"}


@pytest.mark.slow
def test_a_worker_that_was_paused_inside_its_handler_changes_nothing_when_it_wakes(
    postgres_url: str, tmp_path: Path
) -> None:
    """Stopped in mid-transaction for longer than its lease; another runs the handler meanwhile."""
    with running(make_server(postgres_url, tmp_path, "one")) as one:
        sql.query(postgres_url, "CREATE TABLE notes (message text, who text)")
        post(one, "pause-1")
        wait_for((tmp_path / "paused").exists, what="the handler")
        assert one.process is not None
        one.process.send_signal(signal.SIGSTOP)
        with running(make_server(postgres_url, tmp_path, "two")):
            wait_for(lambda: states(postgres_url) == {DONE: 1}, what="the other worker")
            assert notes(postgres_url) == [("pause-1", "two")]
            one.process.send_signal(signal.SIGCONT)
            wait_for(one.is_ready, what="the paused one")
            time.sleep(1)

        assert notes(postgres_url) == [("pause-1", "two")]
        assert states(postgres_url) == {DONE: 1}


def test_an_app_that_cannot_be_loaded_stops_the_start_with_one_sentence(tmp_path: Path) -> None:
    done = Shell(tmp_path).run("serve", "--app", "no.such.module:handlers")

    assert done.code == 2
    assert "cannot be imported" in done.err
    assert "Traceback" not in done.err
