"""Plain SMTP to a real Postfix while the worker is killed again and again: each mail once.

Postfix's log says what it took. What the ledger calls accepted is there once, what it calls
unknown at most once, and nothing twice.
"""

import random
import signal
from collections import Counter
from pathlib import Path
from typing import Any

import pytest

from tests.acceptance.harness import Server
from tests.acceptance.postfix import Postfix, receiving_postfix, why_not
from tests.acceptance.sending import sending_server, submit
from tests.servers import free_port, wait_for

NO_POSTFIX = why_not()
MAILS = 30
OVER = {"accepted", "unknown"}


class PlainSender:
    """The settings of a sender for a mail server that takes everything."""

    def __init__(self, port: int) -> None:
        self.port = port

    def sender_settings(self) -> dict[str, Any]:
        return {"provider": "smtp", "host": "127.0.0.1", "port": self.port, "tls": "none"}


def all_sends(server: Server) -> list[dict[str, Any]]:
    rows: list[dict[str, Any]] = []
    cursor: dict[str, str] = {}
    while True:
        page = server.get("/v1/sends", limit=1000, **cursor)
        rows += page["data"]
        if page["next"] is None:
            return rows
        cursor = {"cursor": page["next"]}


class SentCount:
    """Counts the mails in Postfix's log; what was read once is not read again."""

    def __init__(self, postfix: Postfix) -> None:
        self._path = postfix.folder / "log"
        self._offset = 0
        self._count = 0

    def __call__(self) -> int:
        if self._path.exists():
            with self._path.open("rb") as log:
                log.seek(self._offset)
                whole = log.read().rpartition(b"\n")[0]
            self._offset += len(whole)
            self._count += whole.count(b"status=sent")
        return self._count


def are_over(server: Server) -> bool:
    return not any(
        server.get("/v1/sends", state=state, limit=1)["data"] for state in ("pending", "in_flight")
    )


@pytest.mark.slow
@pytest.mark.timeout(3_600)
@pytest.mark.skipif(NO_POSTFIX is not None, reason=str(NO_POSTFIX))
@pytest.mark.parametrize("kills", [3, pytest.param(200, marks=pytest.mark.long)])
def test_postfix_gets_each_mail_once_however_often_the_worker_is_killed(
    kills: int, database_url: str, tmp_path: Path
) -> None:
    dice = random.Random(kills)
    port = free_port()
    senders = {"out": PlainSender(port)}
    server = sending_server(tmp_path / "server", database_url, senders, sender={"concurrency": 8})
    with receiving_postfix(port) as postfix:
        count_sent = SentCount(postfix)
        try:
            for number in range(kills):
                server.start()
                people = [f"a{number}-{one}@example.net" for one in range(MAILS)]
                assert submit(server, f"k-{number}", to=people).status_code == 202
                # At some moment between the first mail and the last.
                until = count_sent() + dice.randrange(MAILS)
                wait_for(
                    lambda: count_sent() >= until or are_over(server),  # noqa: B023
                    what="some mails",
                )
                server.stop(signal.SIGKILL)
            server.start()
            wait_for(lambda: are_over(server), what="the last mails")
            wait_for(postfix.is_empty, what="Postfix to write down what it took")
            sends, sent = all_sends(server), postfix.sent()
        finally:
            server.kill()

    states = Counter(send["state"] for send in sends)
    unknown = [send for send in sends if send["state"] == "unknown"]
    taken = sum(sent[send["to"]] for send in unknown)
    print(
        f"{kills} kills, {len(sends)} sends: {dict(states)}; of the unknown Postfix has {taken}; "
        f"it took {sum(sent.values())} mails, none of them twice: {max(sent.values()) == 1}"
    )
    assert len(sends) == kills * MAILS
    assert set(states) <= OVER
    assert max(sent.values()) == 1, "a mail was sent twice"
    assert {send["to"] for send in sends} >= sent.keys()
    for send in sends:
        if send["state"] == "accepted":
            assert sent[send["to"]] == 1, send
