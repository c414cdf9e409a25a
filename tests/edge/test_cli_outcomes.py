"""What was sent again, on the command line: what became of it, and the exit code that says so."""

import time
from collections.abc import Iterator
from typing import Any

import pytest

from mailonce.testing import EventType, Happening, make_simulators
from tests.commands import Shell, post
from tests.endpoint import answers, running_endpoint
from tests.servers import wait_for

ANN = "ann@example.net"
SETTINGS = """
[sources.main]
provider = "sesmetric"
secret = "{secret}"
[routes.good]
url = "{url}/good"
[routes.wrong]
url = "{url}/wrong"
[routes.busy]
url = "{url}/busy"
waits_s = [3600, 3600, 3600, 3600, 3600, 3600]
[routes.feed]
kind = "poll"
[net]
allow_hosts = ["127.0.0.1"]
"""


@pytest.fixture(scope="module")
def shell(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Shell]:
    """A server with a bounce that one route took; others refused it, were busy, or wait."""
    shell = Shell(tmp_path_factory.mktemp("outcomes"))
    simulator = make_simulators(seed="again")["sesmetric"]
    with running_endpoint(wrong=answers(422), busy=answers(500)) as endpoint:
        settings = SETTINGS.format(secret=simulator.settings()["secret"], url=endpoint.url(""))
        (shell.folder / "mailonce.toml").write_text(settings)
        with shell.serving() as url:
            bounce = Happening("e-1", EventType.BOUNCED, "m-1", ANN, int(time.time()))
            post(url, "/in/main", simulator.post([bounce], now_s=int(time.time())))
            wait_for(lambda: _all_tried(shell), what="each endpoint to be tried")
            yield shell


def _all_tried(shell: Shell) -> bool:
    return {name for name, one in _deliveries(shell).items() if one["attempts"]} >= {
        "good", "wrong", "busy",
    }  # fmt: skip


def _deliveries(shell: Shell) -> dict[str, Any]:
    rows = shell.ok("delivery", "list", "--json").json["data"]
    return {row["route_name"]: row for row in rows}


def test_a_redelivery_tells_what_became_of_it(shell: Shell, subtests: pytest.Subtests) -> None:
    expected = {
        "good": (0, "1 delivered"),
        "wrong": (1, "0 delivered, 1 failed: wrong answered 422"),
        "busy": (1, "0 delivered, 1 waits: busy answered 500; next attempt 20"),
        "feed": (0, "0 delivered, 1 waits: route feed is read by its consumer"),
    }
    ids = {name: one["id"] for name, one in _deliveries(shell).items()}

    for name, (code, words) in expected.items():
        with subtests.test(name):
            done = shell.run("redeliver", ids[name])

            assert (done.code, words in done.out) == (code, True), done.out + done.err
    with subtests.test("all"):
        done = shell.run("redeliver", *ids.values())

        assert done.code == 1
        assert "2 delivered" not in done.out
        assert "1 delivered, 1 failed, 2 wait" in done.out
    with subtests.test("detached"):
        done = shell.ok("redeliver", ids["wrong"], "--detach")

        assert "follow them with `mailonce undelivered`" in done.out


def test_a_redelivery_by_a_filter_tells_what_became_of_it(shell: Shell) -> None:
    good = shell.run("redeliver", "--route", "good")
    wrong = shell.run("redeliver", "--route", "wrong")
    anew = shell.run("reprocess", "--route", "wrong", "--type", "bounced")

    assert (good.code, "1 delivered" in good.out) == (0, True), good.out
    assert wrong.code == 1
    assert "0 delivered, 1 failed: wrong answered 422" in wrong.out
    assert (anew.code, "1 failed: wrong answered 422" in anew.out) == (1, True), anew.out


def test_a_retried_dead_letter_that_fails_again_says_so(shell: Shell) -> None:
    wait_for(lambda: bool(_letters(shell)), what="a dead letter")

    retried = shell.run("dead", "retry", _letters(shell)[0]["id"])

    assert retried.code == 1
    assert "0 delivered, 1 failed: wrong answered 422" in retried.out
    assert shell.ok("dead", "retry", _letters(shell)[0]["id"], "--detach").out.endswith(
        "queued for delivery\n"
    )


def _letters(shell: Shell) -> list[Any]:
    rows: list[Any] = shell.ok("dead", "list", "--route", "wrong", "--json").json["data"]
    return rows


def test_a_list_goes_on_where_it_ended(shell: Shell) -> None:
    whole = [row["id"] for row in shell.ok("delivery", "list", "--json").json["data"]]

    first = shell.ok("delivery", "list", "--limit", "1").out
    cursor = first.split("--cursor ")[1].strip()
    rest = shell.ok("delivery", "list", "--cursor", cursor, "--limit", "5000", "--json").json

    assert [row["id"] for row in rest["data"]] == whole[1:]
    assert rest["next"] is None


@pytest.mark.parametrize(
    "command",
    ["events", "delivery list", "undelivered", "dead list", "refusals", "conflicts", "stats",
     "sends list", "suppression list"],
)  # fmt: skip
def test_every_list_has_a_beginning_and_an_end(shell: Shell, command: str) -> None:
    def rows(*times: str) -> list[Any]:
        listed: list[Any] = shell.ok(*command.split(), *times, "--json").json["data"]
        return listed

    assert rows("--since", "1h") == rows("--since", "yesterday", "--until", "0s") == rows()
    if command != "stats":
        assert rows("--until", "1h") == []


def test_a_resolved_dead_letter_tells_how_and_what_was_answered(shell: Shell) -> None:
    wait_for(lambda: bool(_letters(shell)), what="a dead letter")
    shell.run("dead", "retry", _letters(shell)[0]["id"])
    wait_for(lambda: bool(_letters(shell)), what="the dead letter of the retry")
    letter = _letters(shell)[0]
    shell.ok("dead", "dismiss", letter["id"], "--reason", "endpoint is gone")

    resolved = shell.ok("dead", "list", "--resolved").out
    shown = shell.ok("dead", "show", letter["id"]).out
    rows = shell.ok("dead", "list", "--resolved", "--json").json["data"]

    assert {row["resolution"] for row in rows} == {"retried", "dismissed"}
    assert {row["status"] for row in rows} == {422}
    assert {row["recipient"] for row in rows} == {ANN}
    assert "dismissed by local: endpoint is gone" in resolved
    assert ANN in resolved
    assert letter["delivery"] in shown
