"""Commands that queue work in a folder where no server runs: they say so, and promise nothing."""

import time
from collections.abc import Iterator

import pytest

from mailonce.testing import EventType, Happening, make_simulators
from tests.commands import Shell, post
from tests.endpoint import answers, running_endpoint
from tests.servers import wait_for

ANN = "ann@example.net"
SETTINGS = """
dev = true
[sources.main]
provider = "sesmetric"
secret = "{secret}"
[routes.good]
url = "{url}/good"
[routes.wrong]
url = "{url}/wrong"
[routes.feed]
kind = "poll"
[net]
allow_hosts = ["127.0.0.1"]
"""
SEND = ("send", ANN, "--from", "shop@example.com", "--subject", "Hi", "--text", "Hi")


@pytest.fixture(scope="module")
def shell(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Shell]:
    """A folder whose server has delivered a bounce to one route, and failed at another."""
    shell = Shell(tmp_path_factory.mktemp("queued"))
    simulator = make_simulators(seed="queued")["sesmetric"]
    with running_endpoint(wrong=answers(422)) as endpoint:
        settings = SETTINGS.format(secret=simulator.settings()["secret"], url=endpoint.url(""))
        (shell.folder / "mailonce.toml").write_text(settings)
        with shell.serving() as url:
            bounce = Happening("e-1", EventType.BOUNCED, "m-1", ANN, int(time.time()))
            post(url, "/in/main", simulator.post([bounce], now_s=int(time.time())))
            wait_for(
                lambda: (
                    {one["state"] for one in _rows(shell, "good") + _rows(shell, "wrong")}
                    == {"delivered", "failed"}
                ),
                what="both routes to have an outcome",
            )
        yield shell


def _rows(shell: Shell, route: str) -> list[dict[str, str]]:
    rows: list[dict[str, str]] = shell.ok("delivery", "list", "--route", route, "--json").json[
        "data"
    ]
    return rows


def _line(shell: Shell) -> str:
    place = shell.data_dir.name
    return f"mailonce: no server runs in {place!r}: nothing is sent until `mailonce serve`"


@pytest.mark.parametrize(
    ("command", "code"),
    [
        ("redeliver --route good", 1),
        ("dead retry --route wrong", 1),
        ("reprocess --route good --all", 1),
        ("redeliver --route good --state pending --state delivered --detach", 0),
        ("redeliver --route good --state pending --state delivered --json", 0),
        ("send", 0),
    ],
)
def test_what_is_queued_without_a_server_is_said_to_wait(
    shell: Shell, command: str, code: int
) -> None:
    words = [*SEND, "--idempotency-key", "k"] if command == "send" else command.split()

    done = shell.run(*words)

    assert done.err.splitlines() == [_line(shell)], done.out
    assert done.code == code, done.out
    if code:
        assert "wait" in done.out


@pytest.mark.parametrize(
    ("command", "what"), [("tail", "event"), ("inbox watch ann@inbox.localhost", "mail")]
)
def test_nobody_waits_where_no_server_runs(shell: Shell, command: str, what: str) -> None:
    done = shell.run(*command.split(), "--count", "1")

    assert done.code == 1
    assert f"no server runs in {shell.data_dir.name!r}: no {what} arrives; start it" in done.err
