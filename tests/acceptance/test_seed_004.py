"""Seed 004's four tests, for every sender: one provider message, one row in the ledger, one call.

Only a provider's own key allows a second call, and that makes no second message.
"""

import signal
import time
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

import pytest

from mailonce.providers import sending
from mailonce.testing.fakes import FakeAct, FakeSmtpServer, SmtpAct
from tests.acceptance import sql
from tests.acceptance.harness import Server, running
from tests.acceptance.sending import (
    let_time_pass,
    running_fakes,
    sending_server,
    served_certificates,
    settle_by_webhooks,
    submit,
)
from tests.net.conftest import Authority, authority
from tests.servers import wait_for

__all__ = ["authority"]

SENDERS = sending.names()
NATIVE = [name for name in SENDERS if (one := sending.find(name)) and one.native is not None]
DAY_S = 86_400
ENDS = {"accepted", "refused", "unknown"}


@pytest.fixture(scope="module")
def fakes() -> Iterator[dict[str, Any]]:
    with running_fakes(*SENDERS) as started:
        yield started


@pytest.fixture
def server(
    database_url: str, tmp_path: Path, fakes: dict[str, Any], authority: Authority
) -> Iterator[Server]:
    with served_certificates(fakes, authority) as environment:
        made = sending_server(
            tmp_path / "server", database_url, fakes,
            environment=environment, sender={"timeout_s": 30},
        )  # fmt: skip
        for fake in fakes.values():
            forget(fake)
        with running(made) as started:
            yield started


def forget(fake: Any) -> None:
    fake.messages.clear()
    fake.steps.clear()
    if not isinstance(fake, FakeSmtpServer):
        fake.calls.clear()
        fake.expire_keys()


def ask(server: Server, name: str, **changes: Any) -> dict[str, Any]:
    """Ask a sender for its mail, the same one each time; the answer is that of the first time."""
    answer = submit(server, f"order-{name}", to=f"{name}@example.com", sender=name, **changes)
    assert answer.status_code == 202, answer.text
    send: dict[str, Any] = answer.json()
    return send


def ask_all(server: Server) -> dict[str, dict[str, Any]]:
    return {name: ask(server, name) for name in SENDERS}


def wait_for_states(server: Server, words: set[str], *, many: int = len(SENDERS)) -> None:
    def have_ended() -> bool:
        rows = server.get("/v1/sends", limit=1000)["data"]
        return len(rows) == many and {row["state"] for row in rows} <= words

    wait_for(have_ended, what=f"{words}")


def check_one_of_all(
    server: Server, fakes: Mapping[str, Any], *, calls: int = 1, messages: int = 1
) -> None:
    """One message and one row for each sender; as many calls only with the provider's own key."""
    rows = server.get("/v1/sends", limit=1000)["data"]
    assert len(rows) == len(SENDERS) * messages
    for name, fake in fakes.items():
        assert len(fake.messages) == messages, name
        assert len({message.id for message in fake.messages}) == messages, name
        if not isinstance(fake, FakeSmtpServer):
            most = calls if name in NATIVE else messages
            assert messages <= len(fake.sends) <= most, f"{name}: {len(fake.sends)} calls"
    for row in rows:
        if row["state"] == "accepted":
            known = fakes[row["to"].partition("@")[0]].messages
            # Some call a mail by the Message-ID that it came with.
            ids = {id_.strip("<>") for one in known for id_ in (one.id, one.mail.message_id)}
            assert row["provider_message_id"].strip("<>") in ids, row["to"]


def crash_after_success(server: Server, fakes: Mapping[str, Any]) -> dict[str, str]:
    """Kill a server whose providers have all accepted, before it hears of it; give the ids."""
    for fake in fakes.values():
        is_smtp = isinstance(fake, FakeSmtpServer)
        fake.script(SmtpAct.ACCEPT_AND_WAIT if is_smtp else FakeAct.ACCEPT_AND_WAIT)
    asked = ask_all(server)
    wait_for(lambda: all(fake.messages for fake in fakes.values()), what="one mail for each")
    server.stop(signal.SIGKILL)
    for fake in fakes.values():
        fake.release()
    return {name: send["id"] for name, send in asked.items()}


def test_the_exact_request_again_is_the_same_send(server: Server, fakes: dict[str, Any]) -> None:
    first = ask_all(server)
    at_once = ask_all(server)
    wait_for_states(server, {"accepted"})
    later = ask_all(server)

    for name, send in first.items():
        assert send["id"] == at_once[name]["id"] == later[name]["id"]
        assert later[name]["state"] == "accepted"
    check_one_of_all(server, fakes)


@pytest.mark.slow
def test_a_crash_after_the_providers_success_and_a_replay_send_no_second_mail(
    server: Server, fakes: dict[str, Any], subtests: pytest.Subtests
) -> None:
    ids = crash_after_success(server, fakes)
    let_time_pass(server, 20)

    server.start()
    replayed = ask_all(server)

    assert {name: send["id"] for name, send in replayed.items()} == ids
    # Those with a key of their own are repeated under it; Brevo says only that it knows the key.
    told = {name for name in NATIVE if name != "brevo"}
    wait_for(
        lambda: all(server.get(f"/v1/sends/{ids[name]}")["state"] == "accepted" for name in told),
        what="the repeated calls",
    )
    wait_for_states(server, {"accepted", "unknown"})
    check_one_of_all(server, fakes, calls=2)
    for name, fake in fakes.items():
        if name != "smtp":
            settle_by_webhooks(server, fake, name, now_s=int(time.time()), copies=2)
    for name, id_ in ids.items():
        with subtests.test(name):
            state = server.get(f"/v1/sends/{id_}")["state"]
            assert state == ("unknown" if name == "smtp" else "accepted")
    check_one_of_all(server, fakes, calls=2)


@pytest.mark.slow
def test_a_replay_after_every_window_has_passed_sends_nothing(
    server: Server, fakes: dict[str, Any]
) -> None:
    ids = crash_after_success(server, fakes)
    # Beyond all retries, lookups and keys of providers, and the time that webhooks are waited for.
    let_time_pass(server, 2 * DAY_S)
    for name in NATIVE:
        fakes[name].expire_keys()

    server.start()
    replayed = ask_all(server)
    wait_for(
        lambda: all(row["needs_person"] for row in server.get("/v1/sends", limit=99)["data"]),
        what="a person to be asked",
    )

    assert {name: send["id"] for name, send in replayed.items()} == ids
    wait_for_states(server, {"unknown"})
    check_one_of_all(server, fakes)
    for name, fake in fakes.items():
        if name != "smtp":
            settle_by_webhooks(server, fake, name, now_s=int(time.time()))
    # Two windows of claims later only the ledger knows the keys.
    for _ in range(2):
        past_ms = int(time.time() - 36 * DAY_S) * 1000
        [(before,)] = sql.query(server.database, "SELECT generation FROM head")
        sql.query(server.database, f"UPDATE head SET rotated_ms = {past_ms}")
        server.api("/v1/prunings", method="POST")
        # By this call, or a moment before it by the server's own maintenance.
        assert sql.query(server.database, "SELECT generation FROM head") == [(before + 1,)]
    states = {name: send["state"] for name, send in ask_all(server).items()}
    assert states == {name: "unknown" if name == "smtp" else "accepted" for name in SENDERS}
    check_one_of_all(server, fakes)


def test_two_templates_of_one_event_are_two_mails(server: Server, fakes: dict[str, Any]) -> None:
    for name in ("receipt", "shipped"):
        new = {"name": name, "subject": name, "text": "Order {{ n }}"}
        assert server.api("/v1/templates", method="POST", json=new).status_code == 201

    def ask_for_both() -> list[str]:
        words = {"subject": None, "text": None, "variables": {"n": 17}, "cause_id": "order-17"}
        return [
            submit(
                server, None, to=f"{name}@example.com", sender=name, template=template, **words
            ).json()["id"]
            for name in SENDERS
            for template in ("receipt", "shipped")
        ]

    first = ask_for_both()
    wait_for_states(server, {"accepted"}, many=2 * len(SENDERS))

    assert ask_for_both() == first
    assert len({*first}) == 2 * len(SENDERS)
    for name, fake in fakes.items():
        subjects = sorted(message.mail.subject for message in fake.messages)
        assert subjects == ["receipt", "shipped"], name
    check_one_of_all(server, fakes, calls=2, messages=2)
