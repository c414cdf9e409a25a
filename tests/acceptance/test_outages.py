"""An outage of the database is seen from outside, and costs nothing that was acknowledged."""

import json
import smtplib
from pathlib import Path

from tests.acceptance.harness import HTTP, Server, event, running
from tests.servers import free_port, start_postgres_in_memory, wait_for

SETTINGS = """
[sources.main]
provider = "sesmetric"
secret = "s3cret"

[inboxes]
domains = ["example.com"]
"""


def metric(server: Server, name: str, *, key: bool = False) -> float:
    answer = server.api("/metrics") if key else HTTP.get(f"{server.url}/metrics", timeout=60)
    assert answer.status_code == 200, answer.text
    [value] = [line.split(" ")[-1] for line in answer.text.splitlines() if line.startswith(name)]
    return float(value)


def mail_reply(server: Server) -> int:
    """Give the reply to the recipient of a mail."""
    with smtplib.SMTP("127.0.0.1", server.smtp_port, timeout=60) as client:
        client.ehlo()
        client.mail("a@example.org")
        return client.rcpt("b@example.com")[0]


def test_metrics_tell_of_an_outage_while_it_lasts(tmp_path: Path) -> None:
    postgres = start_postgres_in_memory()
    url = postgres.url()
    server = Server(tmp_path / "server", url, settings=SETTINGS, smtp_port=free_port())
    away, away_smtp = (
        f'mailonce_{door}unavailable_total{{reason="database"}}' for door in ("", "smtp_")
    )
    try:
        with running(server):
            assert server.post(event(1)).status_code == 200
            assert metric(server, "mailonce_ready") == 1
            assert metric(server, away) == metric(server, away_smtp) == 0

            postgres.halt()

            assert server.post(event(2)).status_code == 503
            assert mail_reply(server) == 451
            wait_for(lambda: metric(server, "mailonce_ready") == 0, what="the gauge to fall")
            assert metric(server, "mailonce_ready", key=True) == 0
            assert metric(server, away) == 1
            assert metric(server, away_smtp) == 1

            postgres.start_again()

            wait_for(lambda: metric(server, "mailonce_ready") == 1, what="the gauge to rise")
            wait_for(lambda: server.post(event(2)).status_code == 200, what="an arrival")
            assert metric(server, away) >= 1
    finally:
        postgres.stop()


def test_a_log_in_json_stays_json_in_an_outage(tmp_path: Path) -> None:
    postgres = start_postgres_in_memory()
    # No event of this test is a complaint, so nothing leaves the machine.
    route = '[routes.crm]\nurl = "https://example.com/hook"\nevents = ["complained"]\n'
    server = Server(tmp_path / "server", postgres.url(), settings=SETTINGS + route, is_cold=True)
    server.environment = {"MAILONCE_LOG_FORMAT": "json"}
    try:
        with running(server):
            assert server.post(event(1)).status_code == 200
            postgres.halt()
            assert server.post(event(2)).status_code == 503
            wait_for(lambda: "maintenance_failed" in server.log, what="a loop to notice")
            # As long as a driver takes to try again and again.
            for _ in range(5):
                assert server.post(event(2)).status_code == 503
            postgres.start_again()
            wait_for(lambda: server.post(event(2)).status_code == 200, what="an arrival")
            wait_for(lambda: "clock" in _steps_back(server), what="a loop to notice the end")
            assert server.stop() == 0
    finally:
        postgres.stop()

    lines = [json.loads(line) for line in server.log.splitlines()]

    said = {line["event"]: line for line in lines}
    assert {"listening", "private_file_written", "batch_failed", "stopped"} <= said.keys()
    assert said["listening"]["url"] == server.url
    assert Path(said["private_file_written"]["path"]).read_text().strip() not in server.log
    assert "exception" not in server.log, "an outage needs no traceback"
    reasons = [line["reason"] for line in lines if line["event"].endswith("_failed")]
    assert any("cannot be reached (connection refused)" in one for one in reasons), reasons
    assert "the database" in said["batch_failed"]["reason"]
    ends = [line["where"] for line in lines if line["event"] == "database_available"]
    assert ends.count("record") == 1
    once = ("database_unavailable", "maintenance_failed", "worker_stalled")
    places = [
        (line["event"], line.get("where"), line.get("step"))
        for line in lines
        if line["event"] in once
    ]
    assert [one for one in places if places.count(one) > 1] == [], "each says it once"


def _steps_back(server: Server) -> set[str]:
    lines = [json.loads(line) for line in server.log.splitlines() if "database_available" in line]
    return {line.get("step") for line in lines}


def test_a_server_that_cannot_start_says_so_in_json(tmp_path: Path) -> None:
    url = f"postgresql://postgres@127.0.0.1:{free_port()}/postgres"
    server = Server(tmp_path / "server", url, is_cold=True)
    server.environment = {"MAILONCE_LOG_FORMAT": "json"}

    server.spawn()

    assert server.process is not None
    assert server.process.wait(60) == 3
    [line] = [json.loads(line) for line in server.log.splitlines()]
    assert (line["event"], line["code"]) == ("start_failed", "unavailable")
