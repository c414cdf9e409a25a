"""A server that dies, or stands still, during a call that lasts longer than its lease."""

import os
import signal
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from mailonce.testing.fakes import FakeSmtpServer, SmtpAct
from tests.acceptance import sql
from tests.acceptance.harness import Server
from tests.acceptance.sending import running_fakes, sending_server, submit
from tests.servers import wait_for

# The lease lasts twice as long.
QUICK = {"timeout_s": 1}


@pytest.fixture
def fake() -> Iterator[FakeSmtpServer]:
    with running_fakes("smtp") as fakes:
        fakes["smtp"].script(SmtpAct.ACCEPT_AND_WAIT)
        yield fakes["smtp"]


def lease_ms(server: Server) -> int:
    [[until_ms]] = sql.query(server.database, "SELECT coalesce(lease_ms, 0) FROM sends")
    return int(until_ms)


def begin_long_call(server: Server, fake: FakeSmtpServer) -> str:
    """Submit a mail; its server has it and does not answer, until its lease was renewed."""
    id_: str = submit(server, sender="smtp").json()["id"]
    wait_for(lambda: fake.messages, what="the final dot")
    first_ms = lease_ms(server)
    wait_for(lambda: lease_ms(server) > first_ms, what="a renewal")
    return id_


def state(server: Server, id_: str) -> str:
    return str(server.get(f"/v1/sends/{id_}")["state"])


def test_a_worker_that_is_killed_after_a_renewal_leaves_an_unknown_send_and_no_second_mail(
    database_url: str, tmp_path: Path, fake: FakeSmtpServer
) -> None:
    server = sending_server(tmp_path, database_url, {"smtp": fake}, sender=QUICK)
    try:
        server.start()
        id_ = begin_long_call(server, fake)

        server.stop(signal.SIGKILL)
        server.start()

        wait_for(lambda: state(server, id_) == "unknown", what="the lost lease")
        # Whatever is due is sent before what comes later.
        later = submit(server, "k-2", to="bob@example.com", sender="smtp").json()["id"]
        wait_for(lambda: state(server, later) == "accepted", what="another mail")
        assert (state(server, id_), len(fake.messages)) == ("unknown", 2)
    finally:
        server.kill()


def test_an_answer_that_came_while_the_worker_stood_still_is_read_when_it_goes_on(
    database_url: str, tmp_path: Path, fake: FakeSmtpServer
) -> None:
    server = sending_server(tmp_path, database_url, {"smtp": fake}, sender=QUICK)
    try:
        server.start()
        id_ = begin_long_call(server, fake)
        os.kill(server.pid, signal.SIGSTOP)
        fake.release()
        until_ms = lease_ms(server)
        wait_for(lambda: time.time() * 1000 > until_ms, what="the end of the lease")

        os.kill(server.pid, signal.SIGCONT)

        wait_for(lambda: state(server, id_) == "accepted", what="the answer")
        assert len(fake.messages) == 1
    finally:
        os.kill(server.pid, signal.SIGCONT)
        server.kill()


def test_what_a_paused_worker_hears_does_not_change_a_mail_that_another_one_sent(
    postgres_url: str, tmp_path: Path, fake: FakeSmtpServer
) -> None:
    fakes: dict[str, Any] = {"smtp": fake}
    first = sending_server(tmp_path / "first", postgres_url, fakes, sender=QUICK)
    second = sending_server(tmp_path / "second", postgres_url, fakes, sender=QUICK)
    try:
        first.start()
        id_ = begin_long_call(first, fake)
        os.kill(first.pid, signal.SIGSTOP)
        second.start()
        wait_for(lambda: state(second, id_) == "unknown", what="the lost lease")
        assert len(fake.messages) == 1
        said = {"outcome": "not_sent", "reason": "a person says so"}
        for act, body in (("resolve", said), ("resend", {})):
            answer = second.api(f"/v1/sends/{id_}/{act}", method="POST", json=body)
            assert answer.status_code == 200, answer.text
        wait_for(lambda: state(second, id_) == "accepted", what="the second mail")
        before = second.get(f"/v1/sends/{id_}")
        fake.release()

        os.kill(first.pid, signal.SIGCONT)

        def first_step() -> Any:
            return second.get(f"/v1/sends/{id_}")["attempts"][0]["outcome"]

        wait_for(lambda: first_step() == "accepted", what="the first worker's answer")
        after = second.get(f"/v1/sends/{id_}")
        kept = ("state", "settled_at", "calls", "provider_message_id")
        assert [after[name] for name in kept] == [before[name] for name in kept]
        assert len(fake.messages) == 2
    finally:
        os.kill(first.pid, signal.SIGCONT)
        first.kill()
        second.kill()
