"""Conflicts on the command line: what differs, and whom another copy names."""

import time
from collections.abc import Iterator

import pytest

from mailonce.testing import EventType, Happening, make_simulators
from tests.commands import Shell, post

ANN, MALLORY = "ann@example.net", "mallory@example.net"
NOT_SEARCHED = "not searched: webhooks that could not be read, or were refused"


@pytest.fixture(scope="module")
def served(tmp_path_factory: pytest.TempPathFactory) -> Iterator[tuple[Shell, str]]:
    """A server whose provider told of two recipients under one id, and does not sign bodies."""
    shell = Shell(tmp_path_factory.mktemp("conflicts"))
    simulator = make_simulators(seed="conflicts")["mailgun"]
    now_s = int(time.time())
    with shell.serving() as url:
        secret = simulator.settings()["secret"]
        shell.ok("source", "add", "main", "--provider", "mailgun", "--secret", secret)
        for number, address in enumerate((ANN, MALLORY)):
            told = Happening("e-1", EventType.DELIVERED, "m-1", address, now_s)
            [answer] = post(url, "/in/main", simulator.post([told], now_s=now_s + number))
            assert answer.code == 200
        yield shell, url


@pytest.fixture(scope="module")
def shell(served: tuple[Shell, str]) -> Shell:
    return served[0]


def test_the_values_that_differ_are_shown(shell: Shell) -> None:
    shown = " ".join(shell.ok("conflicts").out.split())

    assert f"recipient: {ANN}" in shown
    assert f"recipient: {MALLORY}" in shown


def test_an_event_tells_of_its_conflict(shell: Shell) -> None:
    [event] = shell.ok("events", "--json").json["data"]

    shown = shell.ok("events", "show", event["id"]).out

    assert ["conflicts", "1"] in [line.split() for line in shown.splitlines()]
    assert "`mailonce conflicts --source main`" in shown


def test_an_address_that_only_another_copy_names_is_found(shell: Shell) -> None:
    named = {one: shell.ok("recipient", one).out for one in (ANN, MALLORY.upper())}
    answer = shell.ok("recipient", MALLORY, "--json").json
    nobody = shell.ok("recipient", "nobody@example.net").out

    for shown in named.values():
        assert "conflicts that name this address, newest first" in shown
        assert f"recipient: {MALLORY}" in shown
    assert [one["differs"][0]["other"] for one in answer["conflicts"]["data"]] == [MALLORY]
    assert answer["conflicts"]["complete"] is True
    assert "conflicts" not in nobody.partition("not searched")[0]
    assert NOT_SEARCHED in nobody


def test_an_address_is_looked_for_in_one_workspace_and_the_others_are_named(
    served: tuple[Shell, str],
) -> None:
    shell, url = served
    alone = shell.ok("recipient", ANN).out
    key = shell.ok("workspace", "add", "acme", "--json").json["key"]

    ours = " ".join(shell.ok("recipient", ANN).out.split())
    theirs = " ".join(shell.ok("recipient", ANN, "--workspace", "acme").out.split())
    answer = shell.ok("recipient", ANN, "--json").json
    by_their_key = shell.ok("recipient", ANN, "--url", url, "--key", key).out

    assert "other workspaces" not in alone
    assert f"{NOT_SEARCHED}, and mail that no inbox took; other workspaces: acme; " in ours
    assert "add `--workspace NAME`" in ours
    assert "other workspaces: default; add `--workspace NAME`" in theirs
    assert answer["other_workspaces"] == ["acme"]
    assert NOT_SEARCHED in " ".join(by_their_key.split())
    assert "other workspaces" not in by_their_key, "only the admin may know of them"
