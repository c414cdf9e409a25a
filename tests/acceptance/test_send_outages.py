"""Sends outlive what is wrong around them: an account that is refused, a read-only database."""

import re
from collections import Counter
from pathlib import Path
from typing import Any

import pytest

from mailonce.testing.fakes import FakeAct
from tests.acceptance import sql
from tests.acceptance.harness import HTTP, Server, running
from tests.acceptance.sending import running_fakes, sending_server, states, submit
from tests.servers import wait_for

PEOPLE = [f"a{number}@example.com" for number in range(12)]


def breaker_is_open(server: Server, sender: str) -> bool:
    text = server.api("/metrics").text
    match = re.search(rf'mailonce_breaker_open{{route="{sender}"}} (\S+)', text)
    return match is not None and float(match[1]) == 1


def recipients(fake: Any) -> Counter[str]:
    return Counter(message.mail.recipient for message in fake.messages)


def test_wrong_credentials_pause_a_sender_and_cost_no_mail(
    database_url: str, tmp_path: Path
) -> None:
    with running_fakes("postmark") as fakes:
        fake = fakes["postmark"]
        made = sending_server(
            tmp_path / "server", database_url, fakes,
            sender={"waits_s": [0.05, 0.05], "concurrency": 4},
            worker={"breaker_failures": 5, "breaker_wait_s": 0.05},
        )  # fmt: skip
        right, fake.secret = fake.secret, "another"
        with running(made) as server:
            submit(server, to=PEOPLE)
            wait_for(lambda: breaker_is_open(server, "snr_postmark"), what="an open breaker")
            before = len(fake.calls)
            # Far more attempts than one mail has, so that each had its last one otherwise.
            wait_for(lambda: len(fake.calls) >= before + 4, what="more attempts, one at a time")
            [reason] = {row["reason"] for row in server.get("/v1/sends")["data"]} - {None}
            assert states(server).keys() <= {"pending", "in_flight"}
            assert "401" in reason
            checks = {one["check"] for one in server.get("/v1/checkup")["data"]}
            assert "sender postmark" in checks

            fake.secret = right

            wait_for(lambda: states(server) == {"accepted": len(PEOPLE)}, what="all mails")
            assert recipients(fake) == Counter(PEOPLE)
            assert len(fake.sends) == len(PEOPLE)


def set_read_only(url: str, word: str) -> None:
    """Let a database be read only, or be written again, also by whoever is connected."""
    server, _, name = url.rpartition("/")
    beside = f"{server}/postgres"
    sql.query(beside, f"ALTER DATABASE {name} SET default_transaction_read_only = {word}")
    ending = "SELECT pg_terminate_backend(pid) FROM pg_stat_activity"
    sql.query(beside, f"{ending} WHERE datname = '{name}'")


@pytest.mark.slow
def test_a_database_that_turns_read_only_costs_no_mail_and_doubles_none(
    postgres_url: str, tmp_path: Path
) -> None:
    with running_fakes("postmark", "smtp") as fakes:
        fake = fakes["postmark"]
        # One of four slots is left to mail of high priority.
        fake.script(*[FakeAct.ACCEPT_AND_WAIT] * 3)
        made = sending_server(
            tmp_path / "server", postgres_url, fakes, sender={"concurrency": 4, "timeout_s": 60}
        )
        with running(made) as server:
            submit(server, "many", to=PEOPLE, sender="postmark")
            wait_for(lambda: len(fake.messages) == 3, what="calls that wait for their answers")

            set_read_only(postgres_url, "on")
            wait_for(
                lambda: submit(server, "late", sender="smtp").status_code == 503, what="a refusal"
            )
            fake.release()
            refused = submit(server, "late", sender="smtp")
            assert (refused.status_code, "retry-after" in refused.headers) == (503, True)
            assert len(fake.messages) == 3
            set_read_only(postgres_url, "off")

            wait_for(lambda: HTTP.get(f"{server.url}/readyz").status_code == 200, what="ready")
            wait_for(
                lambda: submit(server, "late", sender="smtp").status_code == 202,
                what="a mail to be taken",
            )
            wait_for(lambda: states(server) == {"accepted": len(PEOPLE) + 1}, what="all mails")
            assert recipients(fake) == Counter(PEOPLE)
            assert len(fake.sends) == len(PEOPLE)
            assert len(fakes["smtp"].messages) == 1
