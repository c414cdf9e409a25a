"""An outage of the database is seen from outside, and costs nothing that was acknowledged."""

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
