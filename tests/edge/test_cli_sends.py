"""`mailonce sends show`: what happens to a mail next, by itself and by whom."""

import re
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from mailonce.testing.fakes import FakeAct, SmtpAct
from tests.acceptance.harness import ADMIN_KEY, Server, running
from tests.acceptance.sending import running_fakes, sending_server, submit
from tests.commands import Shell
from tests.servers import wait_for

TIME = r"20[0-9-]+T[0-9:]+Z"
LOOK_UP = r"look it up at the provider, then run `mailonce sends resolve {} sent\|not_sent`"


@pytest.fixture(scope="module")
def server(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Server]:
    """A server whose senders lose the first mail, but for one that is asked to try again."""
    folder = tmp_path_factory.mktemp("sends")
    with running_fakes("smtp", "smtp-again", "smtp-busy", "postmark") as fakes:
        for name in ("smtp", "smtp-again"):
            fakes[name].script(SmtpAct.BREAK)
        fakes["smtp-busy"].script(SmtpAct.DEFER)
        fakes["postmark"].lists_late = True
        fakes["postmark"].script(FakeAct.ACCEPT_AND_BREAK)
        of: dict[str, dict[str, Any]] = {
            "smtp-again": {"mode": "at_least_once"},
            "smtp-busy": {"waits_s": [60, 60]},
        }
        made = sending_server(folder, f"sqlite:///{folder / 'm.db'}", fakes, of=of)
        with running(made) as started:
            yield started


def _show(
    server: Server, folder: Path, key: str, state: str, *, calls: int = 0, **fields: Any
) -> str:
    sent = submit(server, key, **fields).json()
    id_ = sent["id"]

    def is_there() -> bool:
        send = server.get(f"/v1/sends/{id_}")
        return bool(send["state"] == state and send["calls"] >= calls and send["due_at"])

    wait_for(is_there, what=state)
    shown = Shell(folder).ok("sends", "show", id_, "--url", server.url, "--key", ADMIN_KEY).out
    assert "due at" not in shown
    return next(line for line in shown.splitlines() if line.startswith("next "))


def test_an_unknown_send_says_who_is_asked_about_it_and_when(
    server: Server, tmp_path: Path
) -> None:
    person = _show(server, tmp_path, "k-1", "unknown", sender="smtp")
    provider = _show(server, tmp_path, "k-2", "unknown", sender="postmark")
    again = _show(server, tmp_path, "k-3", "unknown", sender="smtp-again")

    assert re.search(f"next +a person is asked at {TIME}; {LOOK_UP.format('k-1')}", person)
    assert re.search(f"next +the provider is asked at {TIME}; or {LOOK_UP.format('k-2')}", provider)
    assert re.search(f"next +it is sent again at {TIME}; or {LOOK_UP.format('k-3')}", again)


def test_a_mail_that_was_handed_over_twice_is_shown_so_wherever_it_is_looked_up(
    server: Server, tmp_path: Path
) -> None:
    shell = Shell(tmp_path, {"MAILONCE_URL": server.url, "MAILONCE_KEY": ADMIN_KEY})
    server_lost_it = server.get("/v1/sends", key="k-1")["data"]
    assert [one["state"] for one in server_lost_it] == ["unknown"], "the test before sent it"
    shell.ok("sends", "resend", "k-1", "--reason", "Ann has none", "--yes")
    wait_for(
        lambda: server.get(f"/v1/sends/{server_lost_it[0]['id']}")["state"] == "accepted",
        what="the second mail",
    )

    shown = shell.ok("sends", "show", "k-1").out
    message = shell.ok("message", "k-1").out
    of_ann = shell.ok("recipient", server_lost_it[0]["to"]).out

    assert "Ann has none" in shown
    for out in (shown, message):
        assert "send unknown" in out
        assert "sent again" in out
        assert "send accepted" in out
    assert re.search(r"accepted, sent again +k-1", of_ann), of_ann


def test_a_send_that_waits_says_when_it_is_sent(server: Server, tmp_path: Path) -> None:
    later = time.strftime("%Y-%m-%dT%H:%M:%SZ", time.gmtime(time.time() + 3600))

    scheduled = _show(server, tmp_path, "k-4", "pending", sender="smtp", send_at=later)
    tried = _show(server, tmp_path, "k-5", "pending", sender="smtp-busy", calls=1)

    assert scheduled.split() == ["next", "it", "is", "sent", "at", later]
    assert re.search(f"next +attempt 2 at {TIME}$", tried)


def test_a_key_that_was_sent_before_is_told(server: Server, tmp_path: Path) -> None:
    mail = ("--from", "shop@example.com", "--subject", "Hi", "--text", "Hi", "--sender", "postmark")
    at = ("--idempotency-key", "k-6", "--url", server.url, "--key", ADMIN_KEY)

    first, again = (Shell(tmp_path).ok("send", "bob@example.net", *mail, *at).out for _ in range(2))

    said = "this key was sent before, with the same mail: nothing new is sent"
    assert (said in first, said in again) == (False, True)
