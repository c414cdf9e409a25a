"""`kill -9` at each point of a send's way, by every sender: nobody ever gets one mail twice.

A server dies while sends of all senders are at all points. At each, there is one that the provider
accepts, one that it refuses, and one that breaks without the mail. After the next start time
passes, so that unknown sends are repeated under the provider's own key, or looked up.
"""

import contextlib
import json
import signal
import time
from collections.abc import Iterator, Mapping
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import httpx
import pytest

from mailonce.providers import sending
from mailonce.testing.fakes import Fake, FakeAct, FakeSmtpServer, SmtpAct
from tests.acceptance import crashing_sends
from tests.acceptance.harness import Server
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

POINTS = ("submit", "lease", "mark", "call", "first_byte", "last_byte", "answer", "record")
ACCEPTS, REFUSES, FAILS = "accepts", "refuses", "fails"
SCRIPTS: Mapping[str, tuple[FakeAct, SmtpAct]] = {
    ACCEPTS: (FakeAct.ACCEPT, SmtpAct.ACCEPT),
    REFUSES: (FakeAct.REFUSE, SmtpAct.REFUSE),
    FAILS: (FakeAct.FAIL, SmtpAct.BREAK),
}
SENDERS = sending.names()
# What can be looked up, SendGrid by an option alone; and what is repeated under its own key. Brevo
# has both, and after the time that passes here a lookup is next.
LOOKUPS = {name for name in SENDERS if (one := sending.find(name)) and one.lookup is not None} - {
    "sendgrid"
}
HAS_KEY = {name for name in SENDERS if (one := sending.find(name)) and one.native is not None}
NATIVE = HAS_KEY - LOOKUPS
# What has left at a point: nothing, and the ledger knows; nothing or a part; all of it.
BEFORE = {"submit", "lease"}
BEGUN = {"mark", "call", "first_byte"}
REPETITIONS_MAX = 10


def recipient(point: str, word: str) -> str:
    return f"{word}@{point.replace('_', '')}.example.com"


def expected(point: str, provider: str, word: str) -> tuple[str, int]:
    """Say how a send ends that was at a point, without webhooks, and how many mails there are."""
    is_native = provider in NATIVE
    if point in BEFORE:
        state = {ACCEPTS: "accepted", REFUSES: "refused", FAILS: "unknown"}[word]
        return state, int(word == ACCEPTS)
    if point in BEGUN:
        # Only a repetition under the provider's own key may leave, and meets what the first would.
        return ("accepted", 1) if is_native and word == ACCEPTS else ("unknown", 0)
    if point == "record" and word != FAILS:
        return ("accepted", 1) if word == ACCEPTS else ("refused", 0)
    if word == ACCEPTS:
        return ("accepted" if provider in NATIVE | LOOKUPS else "unknown"), 1
    # Repeated under the provider's own key, it is accepted.
    return ("accepted", 1) if is_native else ("unknown", 0)


@pytest.fixture
def fakes() -> Iterator[dict[str, Any]]:
    with running_fakes(*SENDERS) as started:
        for fake in started.values():
            for word, (of_api, of_smtp) in SCRIPTS.items():
                for point in POINTS:
                    act = of_smtp if isinstance(fake, FakeSmtpServer) else of_api
                    # What fails after the crash is repeated under the provider's own key some
                    # seconds later; it fails again, so that its state is the same at all times.
                    times = REPETITIONS_MAX if (word, point in BEFORE) == (FAILS, True) else 1
                    fake.script(*[act] * times, to=recipient(point, word))
        yield started


@pytest.fixture
def certificates(fakes: dict[str, Any], authority: Authority) -> Iterator[dict[str, str]]:
    with served_certificates(fakes, authority) as environment:
        yield environment


def launcher(**wish: Any) -> tuple[str, str]:
    return crashing_sends.__file__, json.dumps(wish)


def submit_all(server: Server) -> None:
    """Ask each sender for one mail of each kind at each point, all at once."""

    def one(place: tuple[str, str]) -> None:
        sender, point = place
        people = [recipient(point, word) for word in SCRIPTS]
        with contextlib.suppress(httpx.TransportError):
            answer = submit(server, f"{sender}-{point}", to=people, sender=sender)
            assert answer.status_code == 202, answer.text

    places = [(sender, point) for sender in SENDERS for point in POINTS]
    with ThreadPoolExecutor(2 * len(SENDERS)) as threads:
        list(threads.map(one, sorted(places, key=lambda place: place[1] != "submit")))


def die(server: Server) -> None:
    assert server.process is not None
    assert server.process.wait(60) == -signal.SIGKILL


def check_calls(sender: str, fake: Fake) -> None:
    """Calls with which nothing was sent count as well: one for a mail, or all alike under a key."""
    calls: dict[str, list[tuple[str | None, bytes]]] = {}
    for call in fake.sends:
        assert call.mail is not None
        calls.setdefault(call.mail.recipient, []).append((call.mail.key, call.request.body))
    for address, made in calls.items():
        if sender in HAS_KEY:
            assert made[0][0], f"{sender} was called without its key for {address}"
            assert len({*made}) == 1, f"{sender} was called under two keys for {address}"
        else:
            assert len(made) == 1, f"{sender} was called twice for {address}"


Place = tuple[str, str, str]


def shown(server: Server) -> dict[Place, dict[str, Any]]:
    """Read all sends, by sender, point and what is done with them."""
    rows = server.get("/v1/sends", limit=1000)["data"]
    return {_place(row["sender"], row["to"]): row for row in rows}


def messages(fakes: Mapping[str, Any]) -> dict[Place, int]:
    """Count the mails that providers have, by the same."""
    counts: dict[Place, int] = {}
    for sender, fake in fakes.items():
        for message in fake.messages:
            place = _place(sender, message.mail.recipient)
            counts[place] = counts.get(place, 0) + 1
    return counts


def _place(sender: str, address: str) -> Place:
    word, _, domain = address.partition("@")
    flat = domain.partition(".")[0]
    [point] = [point for point in POINTS if point.replace("_", "") == flat]
    return sender.removeprefix("snr_"), point, word


@pytest.mark.slow
def test_no_crash_at_any_point_of_its_way_sends_a_mail_twice(
    database_url: str,
    tmp_path: Path,
    fakes: dict[str, Any],
    certificates: dict[str, str],
    subtests: pytest.Subtests,
) -> None:
    wanted = {
        (sender, point, word): expected(point, sender, word)
        for sender in SENDERS
        for point in POINTS
        for word in SCRIPTS
    }
    server = sending_server(
        tmp_path / "server", database_url, fakes,
        # No call times out before the server dies, however slow the machine is.
        sender={"concurrency": 64, "timeout_s": 120}, environment=certificates,
    )  # fmt: skip
    try:
        many = len(SENDERS) * len(SCRIPTS)
        server.launcher = launcher(points=dict.fromkeys(POINTS, many))
        server.start()
        submit_all(server)
        die(server)
        let_time_pass(server, 121)
        server.launcher = ("-m", "mailonce")
        server.start()
        submit_all(server)

        def as_wanted() -> bool:
            rows = shown(server)
            return all(rows[place]["state"] == state for place, (state, _) in wanted.items())

        with contextlib.suppress(TimeoutError):
            wait_for(as_wanted, seconds=180, what="the expected states")
        rows, has = shown(server), messages(fakes)
        assert rows.keys() == wanted.keys()
        for place, ends in wanted.items():
            with subtests.test("-".join(place)):
                assert (rows[place]["state"], has.get(place, 0)) == ends
        for sender, fake in fakes.items():
            if sender != "smtp":
                settle_by_webhooks(server, fake, sender, now_s=int(time.time()))
        rows, has = shown(server), messages(fakes)
        assert set(has.values()) == {1}, "a mail was sent twice"
        for place, row in rows.items():
            if place in has and place[0] != "smtp":
                assert row["state"] == "accepted", place
        for sender, fake in fakes.items():
            if sender != "smtp":
                check_calls(sender, fake)
        unknown = server.get("/v1/sends", state="unknown", limit=1000)["data"]
        assert {row["id"] for row in unknown} == {
            row["id"] for row in rows.values() if row["state"] not in {"accepted", "refused"}
        }
    finally:
        server.kill()


def copies(fakes: Mapping[str, Any]) -> dict[str, int]:
    """Count the mails that each recipient got, by whomever."""
    counts: dict[str, int] = {}
    for fake in fakes.values():
        for message in fake.messages:
            address = message.mail.recipient
            counts[address] = counts.get(address, 0) + 1
    return counts


def looked_up(server: Server) -> bool:
    """Say whether the provider was asked for all sends."""
    sends = [server.get(f"/v1/sends/{row['id']}") for row in server.get("/v1/sends")["data"]]
    return all("lookup" in [one["step"] for one in send["attempts"]] for send in sends)


@pytest.mark.slow
@pytest.mark.parametrize("database_url", ["sqlite"], indirect=True)
@pytest.mark.parametrize(
    "mutant",
    [
        None,
        "mark_after_the_first_byte",
        "expired_flight_is_pending",
        "absence_is_proof",
        "fail_over_from_unknown",
    ],
)
def test_each_broken_twin_sends_twice_where_the_server_does_not(
    mutant: str | None, database_url: str, tmp_path: Path
) -> None:
    """An answer of 500, and a crash before an answer is written; the provider has both mails."""
    lost, failed = "ann@answer.example.com", "bob@example.com"
    broken = {} if mutant is None else {"mutant": mutant}
    with running_fakes("postmark", "ses") as fakes:
        fake = fakes["postmark"]
        fake.lists_late = True
        fake.script(FakeAct.ACCEPT_AND_FAIL, to=failed)
        server = sending_server(
            tmp_path / "server", database_url, fakes, of={"postmark": {"next_sender": "ses"}}
        )
        try:
            server.launcher = launcher(points={"answer": 1}, **broken)
            server.start()
            id_ = submit(server, "k-1", to=failed, sender="postmark").json()["id"]
            wait_for(lambda: server.get(f"/v1/sends/{id_}")["attempts"], what="its outcome")
            with contextlib.suppress(httpx.TransportError):
                submit(server, "k-2", to=lost, sender="postmark")
            die(server)
            let_time_pass(server, 121)
            server.launcher = launcher(**broken)
            server.start()

            if mutant is None:
                wait_for(lambda: looked_up(server), what="two lookups")
                assert copies(fakes) == {lost: 1, failed: 1}
            else:
                wait_for(lambda: 2 in copies(fakes).values(), what="the second mail")
        finally:
            server.kill()
