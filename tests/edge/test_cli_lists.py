"""Lists on the command line: filters of one name, and answers to those that match nothing."""

import time
from collections.abc import Iterator
from typing import Any

import pytest
from typer.main import get_command

from mailonce.edge.cli.main import app
from mailonce.testing import EventType, Happening, Post, make_simulators
from tests.commands import Shell, post
from tests.servers import wait_for

ANN = "ann@example.net"
SETTINGS = """
[sources.main]
provider = "sesmetric"
secret = "{secret}"
[sources.other]
provider = "sesmetric"
secret = "another-secret-of-another-source"
[routes.feed]
kind = "poll"
[senders.out]
provider = "smtp"
host = "127.0.0.1"
"""


@pytest.fixture(scope="module")
def shell(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Shell]:
    """A server that has received one event, which happened two days ago."""
    shell = Shell(tmp_path_factory.mktemp("lists"))
    simulator = make_simulators(seed="lists")["sesmetric"]
    settings = SETTINGS.format(secret=simulator.settings()["secret"])
    (shell.folder / "mailonce.toml").write_text(settings)
    now_s = int(time.time())
    with shell.serving() as url:
        event = Happening("e-1", EventType.DELIVERED, "m-1", ANN, now_s - 2 * 86_400)
        post(url, "/in/main", simulator.post([event], now_s=now_s))
        (shell.folder / "url").write_text(url)
        yield shell


@pytest.fixture
def url(shell: Shell) -> str:
    return (shell.folder / "url").read_text()


@pytest.mark.parametrize("option", ["--message", "--message-id"])
@pytest.mark.parametrize("command", ["events list", "delivery list", "undelivered"])
def test_a_message_is_named_by_one_option_everywhere(
    shell: Shell, command: str, option: str
) -> None:
    assert shell.ok(*command.split(), option, "m-1", "--json").json["data"]
    assert not shell.ok(*command.split(), option, "m-2", "--json").json["data"]


def _commands(command: Any, path: str = "") -> Iterator[tuple[str, Any]]:
    yield path.strip(), command
    for name, inner in getattr(command, "commands", {}).items():
        yield from _commands(inner, f"{path} {name}")


def test_options_that_mean_the_same_have_the_same_words() -> None:
    words = {
        (option, parameter.help)
        for _, command in _commands(get_command(app))
        for parameter in command.params
        for option in parameter.opts
        if option in {"--recipient", "--message-id", "--message", "--route", "--limit", "--cursor"}
    }

    assert sorted(words) == sorted({option: (option, help_) for option, help_ in words}.values())


@pytest.mark.parametrize(
    ("command", "names"),
    [
        *((f"{one} --source", "main, other") for one in ("events", "refusals", "conflicts")),
        *((f"{one} --source", "main, other") for one in ("stats", "dead list", "tail")),
        *((f"{one} --route", "feed") for one in ("delivery list", "undelivered", "dead list")),
        *((f"{one} --dry-run --route", "feed") for one in ("redeliver", "reprocess")),
        ("sends list --sender", "out"),
    ],
)
def test_a_filter_with_an_unknown_name_is_refused_with_the_known_ones(
    shell: Shell, command: str, names: str
) -> None:
    noun = command.rpartition("--")[2]

    refused = shell.run(*command.split(), "mian")

    assert refused.code == 1, refused.out
    assert f"there is no {noun} 'mian'; see `mailonce {noun} list`, which has {names}\n" in (
        refused.err
    )


def test_refusals_of_a_wrong_url_are_found_by_the_name_in_it(shell: Shell, url: str) -> None:
    post(url, "/in/postmrk", Post({}, b"{}"))
    wait_for(lambda: "postmrk" in shell.ok("refusals").out, what="the refusal to be counted")

    by_name, as_shown = (
        shell.ok("refusals", "--source", one).out for one in ("postmrk", "(unknown) postmrk")
    )

    assert by_name == as_shown
    assert "no source has this name: correct the webhook's URL" in by_name


@pytest.mark.parametrize(
    "command",
    ["events", "delivery list", "undelivered", "dead list", "refusals", "conflicts", "stats",
     "sends list", "suppression list", "audit"],
)  # fmt: skip
def test_a_filter_that_matches_nothing_is_named(shell: Shell, command: str) -> None:
    shown = shell.ok(*command.split(), "--until", "2020-01-01").out

    assert "with --until 2020-01-01T00:00:00Z" in shown
    assert "demo" not in shown


def test_deliveries_of_an_event_are_found_by_the_beginning_of_its_id(shell: Shell) -> None:
    [event] = shell.ok("events", "--json").json["data"]

    found = shell.ok("delivery", "list", "--event", event["id"][:20], "--json").json["data"]

    assert [one["event"] for one in found] == [event["id"]]


def test_times_of_events_are_those_of_receipt(shell: Shell) -> None:
    today = shell.ok("events", "--since", "1h", "--json").json["data"]
    before = shell.ok("events", "--recipient", ANN, "--until", "1d").out
    of_nobody = shell.ok("events", "--recipient", "[b]x@example.net", "--until", "1d").out
    named = shell.ok("events", "--recipient", "Ann B <x@example.net>").out

    assert [one["recipient"] for one in today] == [ANN]
    assert f"no events with --recipient {ANN} and --until" in before
    assert f"; the newest was received {today[0]['received_at'][:10]}" in before
    assert "--recipient [b]x@example.net and" in of_nobody
    assert "newest" not in of_nobody
    assert "no events with --recipient Ann B <x@example.net>" in named
    assert "when they were received" in " ".join(shell.ok("events", "list", "--help").out.split())


@pytest.mark.parametrize("time", ["2h", "10:00", "now", "2026-01-31T10:00:00Z"])
def test_counts_are_asked_for_by_day(shell: Shell, time: str) -> None:
    since, until = (shell.run("stats", option, time) for option in ("--since", "--until"))

    assert (since.code, until.code) == (2, 2), since.out
    sentence = f"{time!r} is no day, and counts are by day (UTC); write today, yesterday, 7d or"
    assert sentence in since.err
    assert sentence in until.err


def test_the_days_of_counts_are_whole(shell: Shell) -> None:
    shown = {
        day: len(shell.ok("stats", "--since", day, "--json").json["data"])
        for day in ("today", "yesterday", "7d", "2099-01-01")
    }

    assert shown == {"today": 1, "yesterday": 1, "7d": 1, "2099-01-01": 0}
    assert shell.ok("stats", "--until", "today", "--json").json["data"] == []
    assert "10:00" not in shell.ok("stats", "--help").out


@pytest.mark.parametrize("command", ["source list", "events list", "audit", "doctor"])
def test_no_line_in_a_pipe_is_filled_up_with_spaces(shell: Shell, command: str) -> None:
    lines = shell.run(*command.split()).out.splitlines()

    assert len(lines) > 1
    assert [line for line in lines if line != line.rstrip()] == []
