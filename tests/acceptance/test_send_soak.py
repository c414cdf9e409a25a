"""Two workers on one database, killed and stopped at random, and providers that fail at random."""

import os
import random
import signal
import time
from collections import Counter
from pathlib import Path
from typing import Any

import pytest

from mailonce.testing.fakes import FakeAct, FakeSmtpServer, FakeStep
from tests.acceptance.harness import Server
from tests.acceptance.sending import running_fakes, sending_server, submit
from tests.servers import wait_for

ROUNDS, MAILS = 14, 25
# Most calls succeed; the others end in every way that a call can end.
ACTS = [FakeAct.ACCEPT] * len(FakeAct) + [
    act for act in FakeAct if act is not FakeAct.ACCEPT_AND_WAIT
]


def all_sends(server: Server) -> list[dict[str, Any]]:
    rows: list[dict[str, Any]] = []
    cursor: dict[str, str] = {}
    while True:
        page = server.get("/v1/sends", limit=1000, **cursor)
        rows += page["data"]
        if page["next"] is None:
            return rows
        cursor = {"cursor": page["next"]}


def disturb(server: Server, dice: random.Random) -> None:
    """Kill a worker and start it again, or let it stand still, for long or not."""
    if dice.random() < 0.6:
        server.kill()
        server.start()
        return
    os.kill(server.pid, signal.SIGSTOP)
    until_s = time.monotonic() + dice.choice([0.5, 5.0])
    wait_for(lambda: time.monotonic() > until_s, what="a pause")
    os.kill(server.pid, signal.SIGCONT)


@pytest.mark.long
def test_two_workers_that_are_killed_and_stopped_at_random_send_nothing_twice(
    postgres_url: str, tmp_path: Path
) -> None:
    dice = random.Random(4)
    with running_fakes("postmark", "resend", "brevo", "ses", "smtp") as fakes:
        workers = [
            sending_server(
                tmp_path / name, postgres_url, fakes, sender={"concurrency": 8, "timeout_s": 2}
            )
            for name in ("one", "two")
        ]
        try:
            for worker in workers:
                worker.start()
            for number in range(ROUNDS):
                for name, fake in fakes.items():
                    people = [f"{name}-{number}-{one}@example.com" for one in range(MAILS)]
                    for person in people:
                        if not isinstance(fake, FakeSmtpServer):
                            fake.script(FakeStep(dice.choice(ACTS), dice.random() / 10), to=person)
                    sent = submit(dice.choice(workers), f"{name}-{number}", to=people, sender=name)
                    assert sent.status_code == 202, sent.text
                count = sum(len(fake.messages) for fake in fakes.values()) + dice.randrange(MAILS)
                wait_for(
                    lambda: sum(len(one.messages) for one in fakes.values()) >= count,  # noqa: B023
                    what="some mails",
                )
                disturb(dice.choice(workers), dice)

            def is_over() -> bool:
                states = ("pending", "in_flight")
                pages = [workers[0].get("/v1/sends", state=state, limit=1) for state in states]
                return not any(page["data"] for page in pages)

            wait_for(is_over, seconds=120, what="the last mails")
            sends = all_sends(workers[0])
        finally:
            for worker in workers:
                os.kill(worker.pid, signal.SIGCONT)
                worker.kill()

    has = Counter(message.mail.recipient for fake in fakes.values() for message in fake.messages)
    assert len(sends) == ROUNDS * MAILS * len(fakes)
    assert set(has.values()) == {1}, "a mail was sent twice"
    for send in sends:
        known = {"accepted": {1}, "refused": {0}}.get(send["state"], {0, 1})
        assert has[send["to"]] in known, send
