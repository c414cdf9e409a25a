"""A worker that is stopped while its sends are in flight, and goes on when others have them."""

import json
import os
import signal
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from mailonce.send.pauses import PAUSE_S_MAX
from tests.acceptance import crashing_sends
from tests.acceptance.harness import Server
from tests.acceptance.sending import let_time_pass, running_fakes, sending_server, submit
from tests.servers import wait_for

# One with a key of its own, one with a lookup, one with webhooks alone, and one with nothing.
SENDERS = ("resend", "postmark", "ses", "smtp")


@pytest.fixture
def fakes() -> Iterator[dict[str, Any]]:
    with running_fakes(*SENDERS) as started:
        yield started


def is_stopped(server: Server) -> bool:
    state = Path(f"/proc/{server.pid}/stat").read_text().rpartition(")")[2].split()[0]
    return state == "T"


def send_again(server: Server, id_: str) -> None:
    """Let a person say that it was not sent, and have it sent again."""
    said = {"outcome": "not_sent", "reason": "asked the provider"}
    assert server.api(f"/v1/sends/{id_}/resolve", method="POST", json=said).status_code == 200
    assert server.api(f"/v1/sends/{id_}/resend", method="POST").status_code == 200


@pytest.mark.slow
@pytest.mark.parametrize("database_url", ["sqlite"], indirect=True)
def test_a_server_that_was_stopped_before_the_first_byte_sends_once_when_it_goes_on(
    database_url: str, tmp_path: Path, fakes: dict[str, Any]
) -> None:
    server = sending_server(tmp_path / "server", database_url, fakes, sender={"timeout_s": 1})
    wish = {"points": {"call": len(SENDERS)}, "signal": "SIGSTOP"}
    server.launcher = (crashing_sends.__file__, json.dumps(wish))
    try:
        server.start()
        ids = [
            submit(server, name, to=f"{name}@call.example.com", sender=name).json()["id"]
            for name in SENDERS
        ]
        wait_for(lambda: is_stopped(server), what="the server to stop")
        until_s = time.monotonic() + PAUSE_S_MAX + 1
        wait_for(lambda: time.monotonic() > until_s, what="a long pause")

        os.kill(server.pid, signal.SIGCONT)

        def sends() -> list[dict[str, Any]]:
            return [server.get(f"/v1/sends/{id_}") for id_ in ids]

        wait_for(lambda: {one["state"] for one in sends()} == {"accepted"}, what="all of them")
        assert {len(fake.messages) for fake in fakes.values()} == {1}
        for send in sends():
            assert [one["outcome"] for one in send["attempts"]] == ["try_again", "accepted"]
    finally:
        os.kill(server.pid, signal.SIGCONT)
        server.kill()


@pytest.mark.slow
@pytest.mark.parametrize(
    "mutant", [None, pytest.param("pauses_are_not_noticed", marks=pytest.mark.long)]
)
def test_a_worker_that_was_stopped_before_the_first_byte_does_not_send_what_others_sent(
    mutant: str | None, postgres_url: str, tmp_path: Path, fakes: dict[str, Any]
) -> None:
    quick = {"timeout_s": 1}
    first = sending_server(tmp_path / "first", postgres_url, fakes, sender=quick)
    second = sending_server(tmp_path / "second", postgres_url, fakes, sender=quick)
    wish: dict[str, Any] = {"points": {"call": len(SENDERS)}, "signal": "SIGSTOP"}
    if mutant is not None:
        wish["mutant"] = mutant
    first.launcher = (crashing_sends.__file__, json.dumps(wish))
    try:
        first.start()
        ids = {}
        for name in SENDERS:
            sent = submit(first, name, to=f"{name}@call.example.com", sender=name)
            ids[name] = sent.json()["id"]
        wait_for(lambda: is_stopped(first), what="the first server to stop")
        stopped_s = time.monotonic()
        second.start()

        def states() -> dict[str, str]:
            return {name: second.get(f"/v1/sends/{id_}")["state"] for name, id_ in ids.items()}

        wait_for(lambda: set(states().values()) == {"unknown"}, what="lost leases")
        assert not any(fake.messages for fake in fakes.values())
        # Resend's is repeated under its key, the others are sent again because a person says so.
        let_time_pass(second, 10)
        for name in SENDERS[1:]:
            send_again(second, ids[name])
        wait_for(lambda: set(states().values()) == {"accepted"}, what="the second server's calls")
        fakes["resend"].expire_keys()
        wait_for(lambda: time.monotonic() > stopped_s + PAUSE_S_MAX + 1, what="a long pause")

        os.kill(first.pid, signal.SIGCONT)

        def first_steps() -> dict[str, str]:
            sends = {name: second.get(f"/v1/sends/{id_}") for name, id_ in ids.items()}
            return {name: send["attempts"][0]["outcome"] for name, send in sends.items()}

        wait_for(lambda: None not in first_steps().values(), what="the first server's outcomes")
        # The twin sends what was sent already.
        is_twice = mutant is not None
        words = {"accepted" if is_twice else "try_again"}
        assert {len(fake.messages) for fake in fakes.values()} == {2 if is_twice else 1}
        assert (set(first_steps().values()), set(states().values())) == (words, {"accepted"})
    finally:
        os.kill(first.pid, signal.SIGCONT)
        first.kill()
        second.kill()
