"""A provider's webhook settles the send whose id it carries, whichever way that id travels.

Each provider is tried with three mails: one whose answer was lost, one that waits for a person
since its deadline, and one whose webhook comes before the answer of its call.
"""

import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from mailonce.testing.fakes import FakeAct, names
from tests.acceptance.harness import Server, running
from tests.acceptance.sending import (
    running_fakes,
    sending_server,
    served_certificates,
    settle_by_webhooks,
    submit,
)
from tests.net.conftest import Authority, authority
from tests.servers import wait_for

__all__ = ["authority"]

PROVIDERS = names()
LOST, EARLY, LATE = "lost@example.com", "early@example.com", "late@example.com"


@pytest.fixture
def fakes() -> Iterator[dict[str, Any]]:
    with running_fakes(*PROVIDERS) as started:
        for fake in started.values():
            fake.lists_late = True
            fake.script(FakeAct.ACCEPT_AND_BREAK, to=LOST)
            fake.script(FakeAct.ACCEPT_AND_BREAK, to=LATE)
            fake.script(FakeAct.ACCEPT_AND_WAIT, to=EARLY)
        yield started


def server_of(
    folder: Path, database_url: str, fakes: dict[str, Any], environment: dict[str, str]
) -> Server:
    return sending_server(
        folder, database_url, fakes, environment=environment, sender={"timeout_s": 60},
        # So soon that no call is repeated and nothing looked up before.
        sends={"settle_s": 3},
    )  # fmt: skip


def ask_all(server: Server, to: str) -> dict[str, str]:
    return {
        name: submit(server, f"{name}-{to}", to=to, sender=name).json()["id"] for name in PROVIDERS
    }


def shown(server: Server, ids: dict[str, str]) -> dict[str, dict[str, Any]]:
    return {name: server.get(f"/v1/sends/{id_}") for name, id_ in ids.items()}


def check_settled(
    server: Server, fakes: dict[str, Any], ids: dict[str, str], subtests: pytest.Subtests, to: str
) -> None:
    """Each is accepted by its event alone, with the id of the one message that there is."""
    for name, send in shown(server, ids).items():
        with subtests.test(f"{name} {to}"):
            [message] = [one for one in fakes[name].messages if one.mail.recipient == to]
            assert send["state"] == "accepted"
            assert send["provider_message_id"].strip("<>") in {
                message.id, message.mail.message_id.strip("<>")
            }  # fmt: skip
            assert "event" in [one["kind"] for one in send["evidence"]]
            assert [call.mail.recipient for call in fakes[name].sends].count(to) == 1


def report_all(server: Server, fakes: dict[str, Any], *, but: str = "") -> None:
    for name, fake in fakes.items():
        settle_by_webhooks(server, fake, name, now_s=int(time.time()), copies=2, but=but)


@pytest.mark.slow
def test_a_webhook_settles_a_send_before_its_answer_after_a_lost_one_and_after_its_deadline(
    database_url: str,
    tmp_path: Path,
    fakes: dict[str, Any],
    authority: Authority,
    subtests: pytest.Subtests,
) -> None:
    with served_certificates(fakes, authority) as environment:
        made = server_of(tmp_path / "server", database_url, fakes, environment)
        with running(made) as server:
            lost, early, late = (ask_all(server, to) for to in (LOST, EARLY, LATE))

            def listed(to: str, word: str) -> set[Any]:
                return {row[word] for row in server.get("/v1/sends", recipient=to)["data"]}

            wait_for(lambda: listed(LOST, "state") == {"unknown"}, what="unknown sends")
            wait_for(lambda: all(len(one.messages) == 3 for one in fakes.values()), what="calls")
            assert listed(EARLY, "state") == {"in_flight"}

            report_all(server, fakes, but=LATE)

            check_settled(server, fakes, lost, subtests, LOST)
            check_settled(server, fakes, early, subtests, EARLY)
            for fake in fakes.values():
                fake.release()

            def are_noted() -> bool:
                return all(one["attempts"] for one in shown(server, early).values())

            wait_for(are_noted, what="the answers")
            check_settled(server, fakes, early, subtests, EARLY)

            wait_for(lambda: listed(LATE, "needs_person") == {True}, what="a person to be asked")
            [finding] = [
                one for one in server.get("/v1/checkup")["data"] if one["check"] == "sends"
            ]
            assert finding["detail"].startswith(f"{len(late)} unknown, and only a person can")

            report_all(server, fakes)

            check_settled(server, fakes, late, subtests, LATE)
            assert listed(LATE, "needs_person") == {False}
            assert "sends" not in {one["check"] for one in server.get("/v1/checkup")["data"]}
